//go:build race

package progress

import (
	"runtime"
	"unsafe"
)

// Order stands for the token and the submission stack of a worker in the race detector's eyes: they lie in C memory,
// whose atomics the detector ignores, and ms_leave gives the token back in C.
type Order struct{ word byte }

// Acquire tells the detector that everything before a Release happens before what follows.
func (t *Order) Acquire() { runtime.RaceAcquire(unsafe.Pointer(&t.word)) }

// Release comes before giving the token back and before pushing an operation.
func (t *Order) Release() { runtime.RaceReleaseMerge(unsafe.Pointer(&t.word)) }

// transfers orders both ends of a transfer that are in one process, as package syscall does for reads and writes: the
// detector does not see what UCX carries across.
var transfers byte

// Sent comes before data is handed to UCX.
func Sent() { runtime.RaceReleaseMerge(unsafe.Pointer(&transfers)) }

// Received comes after data was received.
func Received() { runtime.RaceAcquire(unsafe.Pointer(&transfers)) }
