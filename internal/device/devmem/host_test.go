package devmem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/mem"
)

// openMoves is open, and checks at the end that no memory is pinned or left.
func openMoves(t *testing.T, g *devmemtest.GPU) *devmem.Memory {
	t.Helper()
	before, _ := mem.Live()
	t.Cleanup(func() {
		if n := g.PinnedBytes(); n != 0 {
			t.Errorf("%d bytes are pinned after Close, want 0", n)
		}
		if after, _ := mem.Live(); after != before {
			t.Errorf("%d regions are left, want 0", after-before)
		}
	})
	return open(t, g, devmem.Config{})
}

// upFrom returns data on the GPU, which is released with the test.
func upFrom(t *testing.T, m *devmem.Memory, data []byte) *mem.Buffer {
	t.Helper()
	b, err := m.Up(t.Context(), m.Resource(), mem.FromBytes(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Freed host memory is used again: as many bytes are pinned as one move and its spares need.
func TestHostMemoryReused(t *testing.T) {
	g := devmemtest.New(100 * mib)
	m := openMoves(t, g)
	for i := range 20 {
		data := bytes.Repeat([]byte{byte(i + 1)}, 4*mib-i)
		up := upFrom(t, m, data)
		down, err := m.Down(t.Context(), up)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(down.Bytes(), data) {
			t.Errorf("move %d: other data in host memory", i)
		}
		down.Release()
		up.Release()
		if n := g.PinnedBytes(); n == 0 || n > 5*4*mib {
			t.Errorf("move %d: %d bytes are pinned, want at most %d", i, n, 5*4*mib)
		}
	}
}

// Above the bound of pinned memory, and if the driver refuses to pin, moves go through chunks.
func TestHostMemoryNotPinned(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		noPin error
		want  int64 // at most pinned
	}{
		{"bound", 64 * mib, nil, 32 * mib},
		{"no room", 1, nil, 0},
		{"refused", 0, errors.New("not supported"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := devmemtest.New(200 * mib)
			g.NoPin = c.noPin
			m := openMoves(t, g)
			if c.limit > 0 {
				m.LimitHost(c.limit)
			}
			var held []*mem.Buffer
			for i := range 12 {
				data := bytes.Repeat([]byte{byte(i + 1)}, 5*mib)
				up := upFrom(t, m, data)
				down, err := m.Down(t.Context(), up)
				if err != nil {
					t.Fatal(err)
				}
				up.Release()
				held = append(held, down)
				if n := g.PinnedBytes(); n > c.want {
					t.Errorf("%d bytes are pinned, want at most %d", n, c.want)
				}
			}
			for i, down := range held {
				back, err := m.Up(t.Context(), m.Resource(), down)
				if err != nil {
					t.Fatal(err)
				}
				if got := bytes.Count(g.Bytes(back), []byte{byte(i + 1)}); got != 5*mib {
					t.Errorf("result %d: %d bytes are intact, want %d", i, got, 5*mib)
				}
				back.Release()
				down.Release()
			}
		})
	}
}

// A move that fails or is canceled in the middle leaves no memory, and the next one is intact.
func TestMoveFails(t *testing.T) {
	broken := errors.New("broken")
	for _, pinned := range []bool{true, false} {
		for _, up := range []bool{true, false} {
			for at := range 3 {
				for _, cancels := range []bool{true, false} {
					t.Run(fmt.Sprintf("pinned %v, up %v, copy %d, cancel %v", pinned, up, at+1, cancels),
						func(t *testing.T) { moveFails(t, pinned, up, cancels, int64(at+1), broken) })
				}
			}
		}
	}
}

func moveFails(t *testing.T, pinned, up, cancels bool, at int64, broken error) {
	g := devmemtest.New(200 * mib)
	if !pinned {
		g.NoPin = errors.New("not supported")
	}
	m := openMoves(t, g)
	data := bytes.Repeat([]byte{7}, 40*mib)
	device := upFrom(t, m, data)
	defer device.Release()
	host, err := m.Down(t.Context(), device)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	move := func(ctx context.Context) (*mem.Buffer, error) {
		if up {
			return m.Up(ctx, m.Resource(), host)
		}
		return m.Down(ctx, device)
	}
	var copies atomic.Int64
	g.OnCopy = func() error {
		if copies.Add(1) < at {
			return nil
		}
		if cancels {
			cancel()
			return nil
		}
		return broken
	}
	want := broken
	if cancels {
		want = context.Canceled
	}
	if b, err := move(ctx); !errors.Is(err, want) || b != nil {
		t.Errorf("got %v, %v, want %v", b, err, want)
	}
	g.OnCopy = nil
	b, err := move(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if !bytes.Equal(g.Bytes(b), data) {
		t.Error("the next move has other data")
	}
}

// Moves of several goroutines do not mix.
func TestMovesConcurrent(t *testing.T) {
	g := devmemtest.New(400 * mib)
	m := openMoves(t, g)
	m.LimitHost(128 * mib)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for round := range 5 {
				data := bytes.Repeat([]byte{byte(1 + i*5 + round)}, 3*mib+i*mib)
				up, err := m.Up(t.Context(), m.Resource(), mem.FromBytes(data))
				if err != nil {
					t.Error(err)
					return
				}
				down, err := m.Down(t.Context(), up)
				up.Release()
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(down.Bytes(), data) {
					t.Errorf("goroutine %d, round %d: other data", i, round)
				}
				down.Release()
			}
		})
	}
	running.Wait()
}
