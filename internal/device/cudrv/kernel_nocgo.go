//go:build !cgo

package cudrv

// ModuleLoad fails.
func ModuleLoad(int, []byte) (module uint64, log string, r Result) { return 0, "", NotLoaded }

// ModuleUnload fails.
func ModuleUnload(int, uint64) Result { return NotLoaded }

// ModuleFunction fails.
func ModuleFunction(int, uint64, string) (uint64, Result) { return 0, NotLoaded }

// FunctionQuery fails.
func FunctionQuery(int, uint64) (FunctionInfo, Result) { return FunctionInfo{}, NotLoaded }

// FunctionSetShared fails.
func FunctionSetShared(int, uint64, int) Result { return NotLoaded }

// FunctionBlocks fails.
func FunctionBlocks(int, uint64, int, int) (int, Result) { return 0, NotLoaded }

// LaunchKernel fails.
func LaunchKernel(int, *Launch, []byte, []uint64) Result { return NotLoaded }

// BufferID fails.
func BufferID(int, uint64) (uint64, Result) { return 0, NotLoaded }
