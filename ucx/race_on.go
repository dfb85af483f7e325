//go:build race

package ucx

import (
	"runtime"
	"unsafe"
)

// The token and the submission stack lie in C memory, whose atomics the race detector
// ignores, and ms_leave gives the token back in C. These tell it what orders what.

// raceAcquire: everything before a raceRelease on d happens before what follows.
func (d *driver) raceAcquire() { runtime.RaceAcquire(unsafe.Pointer(&d.raceWord)) }

// raceRelease comes before giving the token back and before pushing an operation.
func (d *driver) raceRelease() { runtime.RaceReleaseMerge(unsafe.Pointer(&d.raceWord)) }

// raceIO orders both ends of a transfer that are in one process, as package syscall
// does for reads and writes: the detector does not see what UCX carries across.
var raceIO byte

// raceSent comes before data is handed to UCX.
func raceSent() { runtime.RaceReleaseMerge(unsafe.Pointer(&raceIO)) }

// raceReceived comes after data was received.
func raceReceived() { runtime.RaceAcquire(unsafe.Pointer(&raceIO)) }
