package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/task"
)

var errSpoilt = errors.New("the milk is spoilt")

// The functions of the tests, registered as those of a program are.
var (
	inc  = task.Register1("worker_test.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })
	add  = task.Register2("worker_test.add", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
	fill = task.Register1("worker_test.fill", func(_ context.Context, n int) ([]byte, error) {
		return []byte(strings.Repeat("x", n)), nil
	})
	length = task.Register1("worker_test.length", func(_ context.Context, b []byte) (int, error) { return len(b), nil })
	spoil  = task.Register0("worker_test.spoil", func(context.Context) (int, error) { return 0, errSpoilt })
	fall   = task.Register0("worker_test.fall", func(context.Context) (int, error) { panic("over the edge") })
	wait   = task.Register0("worker_test.wait", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	handle = task.Register0("worker_test.handle", func(context.Context) (connection, error) {
		return connection{make(chan int)}, nil
	})
	back = task.Register0("worker_test.back", func(context.Context) (int, error) { return 0, task.ErrReschedule })
	gate = task.Register1("worker_test.gate", func(ctx context.Context, name string) (string, error) {
		select {
		case <-gates(name):
			return name, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	secede = task.Register1("worker_test.secede", func(ctx context.Context, name string) (string, error) {
		info := task.FromContext(ctx)
		if err := info.Thread.Secede(ctx); err != nil {
			return "", err
		}
		select {
		case <-gates(name):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return string(info.Key), info.Thread.Rejoin(ctx)
	})
	counter = task.Register1("worker_test.counter", func(_ context.Context, start int) (*count, error) {
		return &count{start}, nil
	})
	grow = task.RegisterMethod("worker_test.counter.grow", func(_ context.Context, c *count, by int) (int, error) {
		c.N += by
		return c.N, nil
	})
)

type count struct{ N int }

// gateSet holds tasks until a test opens their gate.
var gateSet = make(chan map[string]chan struct{}, 1)

func init() { gateSet <- map[string]chan struct{}{} }

func gates(name string) chan struct{} {
	m := <-gateSet
	defer func() { gateSet <- m }()
	if m[name] == nil {
		m[name] = make(chan struct{})
	}
	return m[name]
}

// spec encodes a call.
func spec(t testing.TB, f *task.Func, args ...func(*task.Builder) error) []byte {
	t.Helper()
	var b task.Builder
	b.Begin(f)
	for _, a := range args {
		if err := a(&b); err != nil {
			t.Fatal(err)
		}
	}
	return b.Append(nil)
}

func val[T any](v T) func(*task.Builder) error {
	return func(b *task.Builder) error { return task.NewParam[T]().Val(b, v) }
}

func ref[T any](key string) func(*task.Builder) error {
	return func(b *task.Builder) error { return task.NewParam[T]().Arg(b, task.RefTo[T](task.NewKey(key))) }
}

var gateCount atomic.Int64

// gateName returns a name that no other test has, nor this one when it is run again.
func gateName(t testing.TB) string { return fmt.Sprint(t.Name(), "-", gateCount.Add(1)) }

// connection is a value that only its own process can use.
type connection struct{ c chan int }
