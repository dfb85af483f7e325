package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"

	"go.millstream.dev/nccl"
)

// Two communicators of the even and of the odd ranks.
func ExampleComm_Split() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	half, err := r.Split(ctx, r.Rank()%2, r.Rank(), nccl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer half.Shutdown(ctx)
	fmt.Println(half.Rank(), "of", half.Size())
}

// The ranks that are left go on without one that died.
func ExampleComm_Shrink() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.Close() // not Shutdown, which would wait for the rank that died
	if err := r.Err(); err == nil {
		return
	}
	const dead = 3
	rest, err := r.Shrink(ctx, []int{dead}, true, nccl.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer rest.Shutdown(ctx)
}

// Memory that is used often is registered once, so that NCCL can skip copies.
func ExampleComm_Register() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	undo, err := r.Register(ctx, r.one)
	if err != nil {
		log.Fatal(err)
	}
	defer undo(ctx)
	undoWindow, ok, err := r.RegisterWindow(ctx, r.all) // memory that the kernels of all ranks reach
	if err != nil {
		log.Fatal(err)
	}
	if ok {
		defer undoWindow(ctx)
	}
}

// Another library uses the communicator.
func ExampleComm_Handle() {
	ctx := context.Background()
	r := exampleRank(ctx)
	defer r.close(ctx)
	h, err := r.Handle(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("ncclComm_t %#x\n", h)
}

// Close ends a communicator at once. Operations on it then fail.
func ExampleComm_Close() {
	ctx := context.Background()
	r := exampleRank(ctx)
	if err := r.Close(); err != nil {
		log.Fatal(err)
	}
	_, err := r.AllReduce(ctx, r.stream, r.one, r.one, nccl.Float32, nccl.Sum)
	fmt.Println(errors.Is(err, nccl.ErrAborted), errors.Is(err, net.ErrClosed))
}
