// Package ncclapi is the shim over libnccl: its functions, looked up at run time, with Go types. All logic is in
// package nccl.
package ncclapi

import "fmt"

// Result is NCCL's ncclResult_t, or a negative code of this package.
type Result int32

// Results that callers distinguish.
const (
	Success            Result = 0
	UnhandledCUDAError Result = 1
	SystemError        Result = 2
	InternalError      Result = 3
	InvalidArgument    Result = 4
	InvalidUsage       Result = 5
	RemoteError        Result = 6
	InProgress         Result = 7
	NoSymbol           Result = -1 // this release of NCCL lacks the function
	NotLoaded          Result = -2
)

var texts = map[Result]string{
	UnhandledCUDAError: "a CUDA call failed", SystemError: "a system call failed", InternalError: "internal error",
	InvalidArgument: "invalid argument", InvalidUsage: "invalid usage",
	RemoteError: "another rank failed or exited", InProgress: "in progress", NoSymbol: "this release of NCCL lacks " +
		"the function", NotLoaded: "NCCL is not loaded",
}

// Text returns NCCL's description of the result, or that of this package if NCCL is not loaded.
func (r Result) Text() string {
	if t := libraryText(r); t != "" {
		return t
	}
	if t, ok := texts[r]; ok {
		return t
	}
	return fmt.Sprintf("result %d", int32(r))
}

// Settings are members of ncclConfig_t; 0 and "" select NCCL's default.
type Settings struct {
	CGAClusterSize, MinCTAs, MaxCTAs, SplitShare int
	NetName                                      string
}

// Kinds of operations.
const (
	AllReduce = iota
	Reduce
	Broadcast
	AllGather
	ReduceScatter
	Send
	Recv
	AllToAll // this and the rest: see Has
	Gather
	Scatter
)

// Op is one operation of a group, laid out as the shim's struct.
type Op struct {
	Kind, Type, RedOp, Peer int32 // Peer: of Send and Recv; the root of rooted operations
	Send, Recv, Count       uint64
}
