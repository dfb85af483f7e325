// Package nccl is a binding to NCCL, NVIDIA's library of collective operations among GPUs. The library is loaded at run
// time; a program that uses this package builds and starts without it.
//
//	id, err := nccl.NewUniqueID()                                   // on one rank; send it to the others
//	c, err := nccl.Init(ctx, nccl.Config{Device: 0}, id, rank, size) // on every rank, all at once
//	defer c.Shutdown(ctx)
//	w, err := c.AllReduce(ctx, stream, send, recv, nccl.Float32, nccl.Sum)
//	err = w.Wait(ctx)
//
// # Waiting
//
// Communicators are non-blocking: no call of this package blocks inside NCCL, where it could not be interrupted. Calls
// that wait for other ranks (Init, Split, Shrink, Shutdown, Wait, and the first use of a connection) poll until their
// context ends. When the context ends, or another rank fails, the communicator is aborted: a collective that one rank
// has left can never complete on the others. Every later call then fails with the first reason, see [Comm.Err].
//
// # Order
//
// All ranks must call the same collectives in the same order. A [Comm] may be used by several goroutines, one call at a
// time, but the program is responsible for the order.
//
// # Memory
//
// Buffers are device memory (package cuda), or memory that the device can access. An operation waits on the device for
// their ready events, holds them until it is done, and sets the ready event of those that it writes, so that a caller
// may release them or pass them on immediately. Operations that read and write the same range (in place) take the same
// Buffer twice.
//
// # Releases
//
// The oldest supported release is NCCL 2.14. Split requires 2.18, Register 2.19, Shrink and RegisterWindow 2.27; with
// an older one they return an error. Gather, Scatter and AllToAll use NCCL's own functions from 2.28 on, and groups of
// point-to-point operations before.
package nccl
