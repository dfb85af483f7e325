//go:build race

package progress

import (
	"runtime"
	"unsafe"
)

// Order models the token and the submission stack of a worker for the race detector: they are in C memory, whose
// atomics the detector ignores, and ms_leave returns the token in C.
type Order struct{ word byte }

// Acquire orders everything before a Release before what follows.
func (t *Order) Acquire() { runtime.RaceAcquire(unsafe.Pointer(&t.word)) }

// Release must be called before returning the token and before pushing an operation.
func (t *Order) Release() { runtime.RaceReleaseMerge(unsafe.Pointer(&t.word)) }

// transfers orders both ends of a transfer within one process, as package syscall does for reads and writes: the
// detector does not see data that UCX transfers.
var transfers byte

// Sent must be called before data is passed to UCX.
func Sent() { runtime.RaceReleaseMerge(unsafe.Pointer(&transfers)) }

// Received must be called after data was received.
func Received() { runtime.RaceAcquire(unsafe.Pointer(&transfers)) }
