// Package cudrv calls the CUDA driver library, which it loads at run time. It is the thin layer below package cuda: it
// owns no memory and starts no goroutines.
//
// Each function is one C call that makes the device's primary context current on the goroutine's current OS thread. The
// context is retained at the first such call and kept until the process ends. Functions without a device parameter
// create no context.
package cudrv

import "fmt"

// Result is a CUresult, or one of the negative codes of this package.
type Result int32

// Results that this module distinguishes, with the numbers of <cuda.h>.
const (
	Success              Result = 0
	InvalidValue         Result = 1
	OutOfMemory          Result = 2
	NotInitialized       Result = 3
	Deinitialized        Result = 4
	StubLibrary          Result = 34
	NoDevice             Result = 100
	InvalidDevice        Result = 101
	InvalidContext       Result = 201
	MapFailed            Result = 205
	NoBinaryForGPU       Result = 209
	PeerUnsupported      Result = 217
	InvalidPTX           Result = 218
	UnsupportedPTX       Result = 222
	InvalidHandle        Result = 400
	NotFound             Result = 500
	NotReady             Result = 600
	IllegalAddress       Result = 700
	ContextIsDestroyed   Result = 709
	NotPermitted         Result = 800
	NotSupported         Result = 801
	SystemNotReady       Result = 802
	SystemDriverMismatch Result = 803
	Unknown              Result = 999

	// NotLoaded indicates that there is no driver library; Load returns the reason.
	NotLoaded Result = -1
	// NoSymbol indicates that the installed driver is too old for the function.
	NoSymbol Result = -2
)

// names is for builds and machines without the driver's own texts.
var names = map[Result]string{
	Success: "CUDA_SUCCESS", InvalidValue: "CUDA_ERROR_INVALID_VALUE", OutOfMemory: "CUDA_ERROR_OUT_OF_MEMORY",
	NotInitialized: "CUDA_ERROR_NOT_INITIALIZED", Deinitialized: "CUDA_ERROR_DEINITIALIZED",
	StubLibrary: "CUDA_ERROR_STUB_LIBRARY", NoDevice: "CUDA_ERROR_NO_DEVICE",
	InvalidDevice:  "CUDA_ERROR_INVALID_DEVICE",
	InvalidContext: "CUDA_ERROR_INVALID_CONTEXT", MapFailed: "CUDA_ERROR_MAP_FAILED",
	NoBinaryForGPU: "CUDA_ERROR_NO_BINARY_FOR_GPU", InvalidPTX: "CUDA_ERROR_INVALID_PTX",
	UnsupportedPTX: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", NotFound: "CUDA_ERROR_NOT_FOUND",
	PeerUnsupported: "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", InvalidHandle: "CUDA_ERROR_INVALID_HANDLE",
	NotReady: "CUDA_ERROR_NOT_READY", IllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS",
	ContextIsDestroyed: "CUDA_ERROR_CONTEXT_IS_DESTROYED", NotPermitted: "CUDA_ERROR_NOT_PERMITTED",
	NotSupported: "CUDA_ERROR_NOT_SUPPORTED", SystemNotReady: "CUDA_ERROR_SYSTEM_NOT_READY",
	SystemDriverMismatch: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", Unknown: "CUDA_ERROR_UNKNOWN",
	NotLoaded: "CUDA driver library is not loaded", NoSymbol: "the installed CUDA driver is too old for this function",
}

// Text returns the name of a result and the driver's description ("" if there is none).
func (r Result) Text() (name, description string) {
	name, description = driverText(r)
	if name == "" {
		name = names[r]
	}
	if name == "" {
		name = fmt.Sprintf("CUDA error %d", int32(r))
	}
	return name, description
}

// Stage is the stage that loading the driver library reached.
type Stage int

// The stages of Load.
const (
	Loaded       Stage = iota
	FailedOpen         // dlopen failed with LoadError.Message
	FailedSymbol       // the library lacks a function, LoadError.Message
	FailedInit         // cuInit failed with LoadError.Result
	NoCgo              // this binary was built without cgo
)

// LoadError is returned if the driver cannot be used.
type LoadError struct {
	Stage   Stage
	Result  Result
	Message string
	Path    string // of the library, if one was opened
}

func (e *LoadError) Error() string {
	switch e.Stage {
	case FailedOpen:
		return "libcuda.so.1 cannot be opened: " + e.Message
	case FailedSymbol:
		return fmt.Sprintf("%s lacks the function %s", e.Path, e.Message)
	case FailedInit:
		name, text := e.Result.Text()
		return fmt.Sprintf("cuInit of %s failed: %s (%s)", e.Path, name, text)
	case NoCgo:
		return "built with CGO_ENABLED=0"
	}
	return fmt.Sprintf("load stage %d", e.Stage)
}

// DeviceInfo is the driver's description of a device, available without a context.
type DeviceInfo struct {
	Name, PCIBusID     string
	UUID, InstanceUUID [16]byte // of the GPU and of the MIG instance; equal without MIG
	Total              uint64   // bytes
	Major, Minor       int      // compute capability
	Multiprocessors    int
	Integrated, UnifiedAddressing, Managed, ConcurrentManaged,
	PageableAccess, MemoryPools, GPUDirectRDMA, IPC bool
	NUMANode int // -1: unknown
}

// Memory types of PointerInfo, as CUmemorytype.
const (
	MemoryUnknown = 0
	MemoryHost    = 1
	MemoryDevice  = 2
)

// PointerInfo is the driver's description of an address.
type PointerInfo struct {
	Type       int // MemoryUnknown: not known to CUDA
	Managed    bool
	Device     int
	IPC        bool // may be exported with IPCGetMem
	Base, Size uint64
	Host       uint64 // address for the CPU, or 0
}

// Flags, with the numbers of <cuda.h>.
const (
	StreamNonBlocking  = 1
	EventDisableTiming = 2
	EventInterprocess  = 4
)
