package cudrv

// MaxParameters is how many parameters a kernel launched by LaunchKernel may have.
const MaxParameters = 64

// Launch is a kernel launch. Its layout is cudrv_launch of cudrv.h.
type Launch struct {
	Grid, Block [3]uint32
	Shared      uint32 // bytes of dynamic shared memory
	// Parameters and Waits count what LaunchKernel is given.
	Parameters, Waits        uint32
	At                       [MaxParameters]uint16 // where each parameter begins in the values
	Function, Stream, Record uint64                // Record: an event, 0: none
}

// FunctionInfo is what the driver says of a kernel.
type FunctionInfo struct {
	MaxThreads    int // per block
	SharedBytes   int // static
	Registers     int // per thread
	DynamicShared int // bytes that a launch may ask for
}
