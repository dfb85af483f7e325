// Package nvrtcapi is the native side of package cuda/nvrtc: NVRTC behind one C file that loads it at run time. It owns
// no memory and starts no goroutines.
package nvrtcapi

// Result is an nvrtcResult, or one of the negative codes of this package.
type Result int

const (
	// NotLoaded indicates that there is no library; Load returns the reason.
	NotLoaded Result = -1
	// NoSymbol indicates that the library is too old for the function.
	NoSymbol Result = -2
	// NoMemory indicates that the image did not fit into memory.
	NoMemory Result = -3
)
