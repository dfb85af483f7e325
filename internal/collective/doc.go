// Package collective is the engine of cliques: collective operations among a fixed set of processes, over UCX
// (NewUCX) or plain comms (NewComm), and in shared memory where all ranks are on one host.
package collective
