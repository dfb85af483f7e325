package cuda

import (
	"errors"
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/internal/device/hooks"
)

// Only addresses are registered here; the driver is opened when they are called.
func init() {
	if set, query := cudrv.Hooks(); set != 0 {
		hooks.Register(hooks.Hooks{SetCurrent: set, EventQuery: query, CopyIn: copyIn, CopyOut: copyOut})
	}
}

// Available returns nil if CUDA can be used: the driver library exists, is recent enough, and has at least one device.
// Otherwise the error says what is missing and how to fix it; it wraps ErrUnavailable. The first call opens the
// library; no call creates a context.
func Available() error {
	if err := cudrv.Load(); err != nil {
		return unavailable(err)
	}
	n, r := cudrv.DeviceCount()
	if r != cudrv.Success {
		return unavailable(&cudrv.LoadError{Stage: cudrv.FailedInit, Result: r, Path: cudrv.Path()})
	}
	if n == 0 {
		return unavailable(&cudrv.LoadError{Stage: cudrv.FailedInit, Result: cudrv.NoDevice, Path: cudrv.Path()})
	}
	return nil
}

func unavailable(err error) error {
	return fmt.Errorf("%w: %w: %s", ErrUnavailable, err, fix(err))
}

// fix returns how to fix an error of cudrv.Load.
func fix(err error) string {
	var le *cudrv.LoadError
	if !errors.As(err, &le) {
		return "check the NVIDIA driver with nvidia-smi"
	}
	switch le.Stage {
	case cudrv.NoCgo:
		return "build with CGO_ENABLED=1 and a C compiler"
	case cudrv.FailedOpen:
		return "install the NVIDIA driver; in a container, start it with the NVIDIA container toolkit (docker run " +
			"--gpus all); or name the file in MILLSTREAM_CUDA_LIBRARY"
	case cudrv.FailedSymbol:
		return "update the NVIDIA driver to one that supports CUDA 10.2 or newer"
	}
	switch le.Result {
	case cudrv.NoDevice:
		return "no GPU is visible to this process: check nvidia-smi, /dev/nvidia* and CUDA_VISIBLE_DEVICES" + visible()
	case cudrv.StubLibrary:
		return "this is the linker stub of the CUDA toolkit: remove its stubs directory from LD_LIBRARY_PATH"
	case cudrv.SystemDriverMismatch:
		return "kernel module and library have different driver versions: reboot, or reload the nvidia module"
	case cudrv.SystemNotReady:
		return "start the services that the GPUs need, such as nvidia-fabricmanager"
	}
	return "check the NVIDIA driver with nvidia-smi"
}

// Library returns the path of the loaded driver library, or "" if there is none.
func Library() string {
	if cudrv.Load() != nil {
		return ""
	}
	return cudrv.Path()
}

// Version is a CUDA version in the driver's encoding: 1000*major + 10*minor.
type Version int

// String returns "12.4" for 12040.
func (v Version) String() string { return fmt.Sprintf("%d.%d", int(v)/1000, int(v)%1000/10) }

// DriverVersion returns the newest CUDA version that the installed driver supports.
func DriverVersion() (Version, error) {
	v, r := cudrv.DriverVersion()
	return Version(v), check("driver version", -1, r)
}
