//go:build !cgo

package cudrv

// ModuleLoad returns NotLoaded.
func ModuleLoad(int, []byte) (module uint64, log string, r Result) { return 0, "", NotLoaded }

// ModuleUnload returns NotLoaded.
func ModuleUnload(int, uint64) Result { return NotLoaded }

// ModuleFunction returns NotLoaded.
func ModuleFunction(int, uint64, string) (uint64, Result) { return 0, NotLoaded }

// FunctionQuery returns NotLoaded.
func FunctionQuery(int, uint64) (FunctionInfo, Result) { return FunctionInfo{}, NotLoaded }

// FunctionSetShared returns NotLoaded.
func FunctionSetShared(int, uint64, int) Result { return NotLoaded }

// FunctionBlocks returns NotLoaded.
func FunctionBlocks(int, uint64, int, int) (int, Result) { return 0, NotLoaded }

// LaunchKernel returns NotLoaded.
func LaunchKernel(int, *Launch, []byte, []uint64) Result { return NotLoaded }

// BufferID returns NotLoaded.
func BufferID(int, uint64) (uint64, Result) { return 0, NotLoaded }
