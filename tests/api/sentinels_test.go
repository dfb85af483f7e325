// Package api_test checks what the public packages have in common.
package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/comm"
	"go.millstream.dev/cuda"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/collective"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
	"go.millstream.dev/ucx"
	"go.millstream.dev/worker"
)

var closed = map[string]error{
	"client.ErrClosed": client.ErrClosed, "clique.ErrClosed": clique.ErrClosed, "cluster.ErrClosed": cluster.ErrClosed,
	"comm.ErrClosed": comm.ErrClosed, "cuda.ErrClosed": cuda.ErrClosed, "frame.ErrClosed": frame.ErrClosed,
	"mem.ErrClosed": mem.ErrClosed, "nccl.ErrAborted": nccl.ErrAborted, "nccl.ErrClosed": nccl.ErrClosed,
	"rpc.ErrClosed":      rpc.ErrClosed,
	"task.ErrHostClosed": task.ErrHostClosed, "ucx.ErrClosed": ucx.ErrClosed, "ucx.ErrPeerClosed": ucx.ErrPeerClosed,
	"worker.ErrClosed": worker.ErrClosed,
}

// TestClosed: one test, errors.Is(err, net.ErrClosed), finds the use of everything that is closed, and the sentinels of
// the packages can be told apart.
func TestClosed(t *testing.T) {
	for name, err := range closed {
		wrapped := fmt.Errorf("outer: %w", err)
		if !errors.Is(wrapped, net.ErrClosed) {
			t.Errorf("%s does not match net.ErrClosed", name)
		}
		for other, target := range closed {
			if got := errors.Is(wrapped, target); got != (name == other) {
				t.Errorf("errors.Is(%s, %s) is %v", name, other, got)
			}
		}
	}
	if !errors.Is(clique.ErrClosed, collective.ErrClosed) {
		t.Error("clique.ErrClosed is not that of the engine")
	}
}

// TestClosedThings: closed things return errors that match net.ErrClosed.
func TestClosedThings(t *testing.T) {
	ctx := context.Background()
	check := func(what string, err, sentinel error) {
		t.Helper()
		if !errors.Is(err, net.ErrClosed) || !errors.Is(err, sentinel) {
			t.Errorf("%s: got error %v, want one that matches %v and net.ErrClosed", what, err, sentinel)
		}
	}
	pool, err := mem.NewPool(mem.Heap, mem.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = pool.Alloc(ctx, 1)
	check("mem.Pool", err, mem.ErrClosed)

	l, err := comm.Listen(ctx, "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = l.Accept(ctx)
	check("comm.Listener", err, comm.ErrClosed)

	p := rpc.NewPool(nil, rpc.PoolConfig{})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = p.Acquire(ctx, "inproc://x/1/1")
	check("rpc.Pool", err, rpc.ErrClosed)
}
