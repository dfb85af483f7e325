// Package nvrtcapi is the native side of package cuda/nvrtc: NVRTC behind one C file that opens it at run time. Text
// in, text out; no ownership, no goroutines.
package nvrtcapi

// Result is an nvrtcResult, or one of the negative codes of this package.
type Result int

const (
	// NotLoaded: there is no library; Load says why.
	NotLoaded Result = -1
	// NoSymbol: the library is too old for what was asked.
	NoSymbol Result = -2
	// NoMemory: the image did not fit into memory.
	NoMemory Result = -3
)
