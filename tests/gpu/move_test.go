package gpu

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/mem"
)

// moveFill returns n bytes of device memory that are all set to a value.
func moveFill(t *testing.T, ctx context.Context, r mem.Resource, n int, value byte) *mem.Buffer {
	t.Helper()
	b, err := r.Alloc(ctx, n)
	must(t, err)
	must(t, cuda.Fill(ctx, b, value))
	return b
}

// moveCheck compares every byte of host memory with a value.
func moveCheck(t *testing.T, what string, b *mem.Buffer, value byte) {
	t.Helper()
	if got := bytes.Count(b.Bytes(), []byte{value}); got != b.Len() {
		t.Errorf("%s: %d of %d bytes are %d", what, got, b.Len(), value)
	}
}

// TestGPUMove moves results of many sizes to host memory and back, through memory that is new and memory that is used
// again.
func TestGPUMove(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	regions, _ := mem.Live()
	m, err := devmem.Open(devmem.Config{Device: device, PoolSize: 1 << 30})
	must(t, err)
	for round := range 3 {
		for i, n := range []int{1, 4096, 2<<20 - 1, 2 << 20, 2<<20 + 1, 13 << 20, 64 << 20, 200<<20 + 3} {
			value := byte(1 + 10*round + i)
			b := moveFill(t, ctx, m.Resource(), n, value)
			down, err := m.Down(ctx, b)
			must(t, err)
			b.Release()
			moveCheck(t, "down", down, value)
			up, err := m.Up(ctx, m.Resource(), down)
			must(t, err)
			down.Release()
			back := make([]byte, n)
			must(t, cuda.CopyToHost(ctx, back, up))
			up.Release()
			if got := bytes.Count(back, []byte{value}); got != n {
				t.Errorf("round %d, %d bytes: %d are %d after the way back", round, n, got, value)
			}
		}
	}
	must(t, m.Close())
	if after, _ := mem.Live(); after != regions {
		t.Errorf("%d regions left", after-regions)
	}
}

// TestGPUMoveCanceled ends moves in the middle, in both directions. The copies of the GPU go on, so the memory of both
// ends must not serve again before they have ended: what is moved next, with the same memory, is intact.
func TestGPUMoveCanceled(t *testing.T) {
	requireGPU(t)
	ctx := testContext(t)
	const n = 256 << 20
	m, err := devmem.Open(devmem.Config{Device: device, PoolSize: 2 << 30, MaximumPoolSize: 2 << 30})
	must(t, err)
	canceled := 0
	end := func(what string, move func(context.Context) (*mem.Buffer, error), i int) {
		inner, cancel := context.WithTimeout(ctx, time.Duration(100+200*i)*time.Microsecond)
		defer cancel()
		b, err := move(inner)
		switch {
		case err == nil:
			b.Release()
		case errors.Is(err, context.DeadlineExceeded):
			canceled++
		default:
			t.Errorf("%s: %v", what, err)
		}
	}
	first := moveFill(t, ctx, m.Resource(), n, 1)
	host, err := m.Down(ctx, first) // later moves of this size need no new memory
	must(t, err)
	first.Release()
	for i := range 20 {
		b := moveFill(t, ctx, m.Resource(), n, 2)
		end("down", func(ctx context.Context) (*mem.Buffer, error) { return m.Down(ctx, b) }, i)
		b.Release()
		end("up", func(ctx context.Context) (*mem.Buffer, error) { return m.Up(ctx, m.Resource(), host) }, i)

		value := byte(100 + i)
		canary := moveFill(t, ctx, m.Resource(), n, value)
		down, err := m.Down(ctx, canary)
		must(t, err)
		canary.Release()
		moveCheck(t, "canary", down, value)
		down.Release()
	}
	moveCheck(t, "source of the canceled moves", host, 1)
	host.Release()
	if canceled == 0 {
		t.Error("no move was canceled")
	}
	must(t, m.Close())
}
