package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Error is a CUresult: an error code of the CUDA driver. Errors of this package wrap one, so errors.Is(err,
// cuda.ErrOutOfMemory) works. ErrOutOfMemory also matches mem.ErrOutOfMemory.
type Error int32

// Errors that programs handle. Any other code of <cuda.h> may be compared as Error(n).
const (
	ErrInvalidValue  = Error(cudrv.InvalidValue)
	ErrOutOfMemory   = Error(cudrv.OutOfMemory)
	ErrNoDevice      = Error(cudrv.NoDevice)
	ErrInvalidDevice = Error(cudrv.InvalidDevice)
	ErrInvalidPTX    = Error(cudrv.InvalidPTX)
	ErrNotFound      = Error(cudrv.NotFound) // a module has no kernel with that name
	ErrInvalidHandle = Error(cudrv.InvalidHandle)
	ErrNotSupported  = Error(cudrv.NotSupported)
)

var (
	// ErrUnavailable is returned if CUDA cannot be used on this machine or in this build; see Available.
	ErrUnavailable = errors.New("cuda: CUDA is not available")
	// ErrClosed is returned by operations on a closed stream, event or module. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("cuda: use of closed object")
)

// Name returns the constant's name in <cuda.h>, such as CUDA_ERROR_OUT_OF_MEMORY.
func (e Error) Name() string { name, _ := cudrv.Result(e).Text(); return name }

// Error returns name, number and the driver's description.
func (e Error) Error() string {
	name, text := cudrv.Result(e).Text()
	switch {
	case e < 0:
		return name
	case text == "":
		return fmt.Sprintf("%s (%d)", name, int32(e))
	}
	return fmt.Sprintf("%s (%d): %s", name, int32(e), text)
}

// Is makes errors.Is match mem.ErrOutOfMemory and ErrUnavailable.
func (e Error) Is(target error) bool {
	switch target {
	case mem.ErrOutOfMemory:
		return e == ErrOutOfMemory
	case ErrUnavailable:
		return e == Error(cudrv.NotLoaded) || e == ErrNoDevice
	}
	return false
}

// check converts a result into an error that names the operation and the device (-1: none).
func check(op string, device int, r cudrv.Result) error {
	if r == cudrv.Success {
		return nil
	}
	if cudrv.Load() != nil { // report why the driver was not loaded
		return fmt.Errorf("cuda: %s: %w", op, strip(Available()))
	}
	if r == cudrv.InvalidDevice {
		n, _ := cudrv.DeviceCount()
		return fmt.Errorf("cuda: %s: device %d: %w: this process sees %d devices%s", op, device, Error(r), n, visible())
	}
	if device < 0 {
		return fmt.Errorf("cuda: %s: %w", op, Error(r))
	}
	return fmt.Errorf("cuda: %s on device %d: %w", op, device, Error(r))
}

// visible returns the value of the variable that hides devices, if it is set.
func visible() string {
	if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
		return fmt.Sprintf(" (CUDA_VISIBLE_DEVICES=%q)", v)
	}
	return ""
}

// prefixed is an error whose text repeats the package name.
type prefixed struct{ error }

func (p prefixed) Error() string { return strings.TrimPrefix(p.error.Error(), "cuda: ") }
func (p prefixed) Unwrap() error { return p.error }

func strip(err error) error { return prefixed{err} }
