package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/wire"
)

// frameSet makes frames of the given sizes, with the seed in every one.
func frameSet(seed uint64, sizes ...int) [][]byte {
	frames := make([][]byte, len(sizes))
	for i, n := range sizes {
		frames[i] = testBytes(seed*1000+uint64(i), n)
	}
	return frames
}

func viewsOf(frames [][]byte) []View {
	views := make([]View, len(frames))
	for i, f := range frames {
		views[i] = Bytes(f)
	}
	return views
}

func sameFrames(got Frames, want [][]byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d frames, want %d", len(got), len(want))
	}
	for i, b := range got {
		if !bytes.Equal(b.Bytes(), want[i]) {
			return fmt.Errorf("frame %d of %d bytes differs from the %d bytes sent", i, b.Len(), len(want[i]))
		}
	}
	return nil
}

func repeatSize(n, size int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = size
	}
	return out
}

func TestFrames(t *testing.T) {
	messages := map[string][]int{
		"none":         {},
		"one empty":    {0},
		"one":          {5},
		"small":        {1, 0, 3, 8, 100, 8191, 8192},
		"limits":       {8192, 8193, 1 << 20, 0, 7},
		"over inline":  repeatSize(20, 8000),
		"many":         repeatSize(1000, 3),
		"many large":   repeatSize(200, 10_000),
		"large":        {4 << 20, 3, 1<<20 + 1},
		"slot's size":  {1024 - 16},
		"slot's size+": {1024 - 8},
	}
	for _, set := range streamSettings {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, set.cfg, WorkerConfig{})
			for name, sizes := range messages {
				want := frameSet(1, sizes...)
				sent := make(chan error, 1)
				go func() { sent <- a.SendFrames(ctx, viewsOf(want)...) }()
				got, err := b.RecvFrames(ctx, Allocators{})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if err := sameFrames(got, want); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := <-sent; err != nil {
					t.Errorf("%s: %v", name, err)
				}
				got.Release()
			}
		})
	}
}

// Messages of concurrent senders arrive whole, each sender's in order.
func TestFramesConcurrent(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	const senders, rounds = 8, 40
	var wg sync.WaitGroup
	for g := range senders {
		wg.Go(func() {
			for i := range rounds {
				sizes := []int{8, 100 * g, 9000 + i, 0, 70_000 * (i % 3)}
				frames := frameSet(uint64(g*rounds+i), sizes...)
				frames[0] = []byte{byte(g), byte(i), 0, 0, 0, 0, 0, 0}
				if err := a.SendFrames(ctx, viewsOf(frames)...); err != nil {
					t.Errorf("sender %d, message %d: %v", g, i, err)
					return
				}
			}
		})
	}
	var mu sync.Mutex
	seen := map[[2]byte]bool{}
	all, cancel := context.WithCancel(ctx)
	defer cancel()
	for range 4 {
		wg.Go(func() {
			for {
				got, err := b.RecvFrames(all, Allocators{})
				if err != nil {
					if all.Err() == nil || ctx.Err() != nil {
						t.Error(err)
						cancel()
					}
					return
				}
				key := [2]byte(got[0].Bytes()[:2])
				g, i := int(key[0]), int(key[1])
				want := frameSet(uint64(g*rounds+i), 8, 100*g, 9000+i, 0, 70_000*(i%3))
				want[0] = []byte{key[0], key[1], 0, 0, 0, 0, 0, 0}
				if err := sameFrames(got, want); err != nil {
					t.Errorf("sender %d, message %d: %v", g, i, err)
				}
				got.Release()
				mu.Lock()
				if seen[key] {
					t.Errorf("message %d of sender %d came twice", i, g)
				}
				if seen[key] = true; len(seen) == senders*rounds {
					cancel() // nothing more to come: the other receivers wait in vain
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != senders*rounds {
		t.Errorf("%d of %d messages came", len(seen), senders*rounds)
	}
}

func TestFramesOrder(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	go func() {
		for i := range 200 {
			if err := a.SendFrames(ctx, Bytes([]byte{byte(i)}), Bytes(make([]byte, 20_000*(i%2)))); err != nil {
				return
			}
		}
	}()
	for i := range 200 {
		got, err := b.RecvFrames(ctx, Allocators{})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Bytes()[0] != byte(i) {
			t.Fatalf("message %d came as number %d", got[0].Bytes()[0], i)
		}
		got.Release()
	}
}

// countingResource counts what is asked of a pool and fails on demand.
type countingResource struct {
	mem.Resource
	mu     sync.Mutex
	asked  []int
	failAt int // fail the allocation with this number; -1 never
}

func (r *countingResource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	r.mu.Lock()
	at := len(r.asked)
	r.asked = append(r.asked, n)
	r.mu.Unlock()
	if at == r.failAt {
		return nil, mem.ErrOutOfMemory
	}
	return r.Resource.Alloc(ctx, n)
}

func TestFramesIntoPool(t *testing.T) {
	ctx := testContext(t)
	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := pair(t, Config{}, WorkerConfig{})
	want := frameSet(3, 10, 0, 100_000, 8193, 1<<20)
	go a.SendFrames(ctx, viewsOf(want)...)
	res := &countingResource{Resource: pool, failAt: -1}
	got, err := b.RecvFrames(ctx, Allocators{Host: res})
	if err != nil {
		t.Fatal(err)
	}
	if err := sameFrames(got, want); err != nil {
		t.Error(err)
	}
	if len(res.asked) != 5 {
		t.Errorf("the receiver's resource was asked for %v", res.asked)
	}
	got.Release()
	// A finished request lets go of its buffer at the end of the worker's turn.
	for err = pool.Close(); errors.Is(err, mem.ErrBusy) && ctx.Err() == nil; err = pool.Close() {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
}

// A message that cannot be taken is dropped with an error; the next one arrives.
func TestFramesDropped(t *testing.T) {
	for name, c := range map[string]struct {
		alloc Allocators
		want  error
	}{
		"too many frames": {Allocators{MaxFrames: 4}, ErrExceedsLimit},
		"too many bytes":  {Allocators{MaxBytes: 100_000}, ErrExceedsLimit},
		"no memory":       {Allocators{Host: &countingResource{Resource: mem.Heap, failAt: 3}}, mem.ErrOutOfMemory},
		"not reserved": {Allocators{Reserve: func(_ context.Context, n int) error {
			if n >= 1<<20 {
				return mem.ErrBusy
			}
			return nil
		}}, mem.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := pair(t, Config{}, WorkerConfig{})
			sent := make(chan error, 2)
			go func() {
				sent <- a.SendFrames(ctx, viewsOf(frameSet(4, 5, 50_000, 60_000, 1<<20, 9000))...)
				sent <- a.SendFrames(ctx, Bytes([]byte("next")), Bytes(testBytes(5, 30_000)))
			}()
			got, err := b.RecvFrames(ctx, c.alloc)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, %v, want %v", got, err, c.want)
			}
			got, err = b.RecvFrames(ctx, Allocators{})
			if err != nil || string(got[0].Bytes()) != "next" || !bytes.Equal(got[1].Bytes(), testBytes(5, 30_000)) {
				t.Fatalf("next message: %v, %v", got, err)
			}
			for range 2 {
				if err := <-sent; err != nil {
					t.Error(err)
				}
			}
			if b.Err() != nil {
				t.Errorf("the endpoint failed: %v", b.Err())
			}
		})
	}
}

// Everything sent before a close arrives, then comes EOF.
func TestFramesThenClose(t *testing.T) {
	ctx := testContext(t)
	for round := range 20 {
		a, b := pair(t, Config{}, WorkerConfig{})
		for i := range 5 {
			if err := a.SendFrames(ctx, Bytes([]byte{byte(i)}), Bytes(testBytes(6, 3000))); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			got, err := b.RecvFrames(ctx, Allocators{})
			if err != nil {
				t.Fatalf("round %d, message %d: %v", round, i, err)
			}
			if got[0].Bytes()[0] != byte(i) {
				t.Fatalf("message %d came as number %d", got[0].Bytes()[0], i)
			}
		}
		if _, err := b.RecvFrames(ctx, Allocators{}); !errors.Is(err, io.EOF) {
			t.Fatalf("after the last message: %v", err)
		}
		if err := a.SendFrames(ctx, Bytes([]byte{1})); !errors.Is(err, ErrClosed) {
			t.Fatalf("send on the closed endpoint: %v", err)
		}
	}
}

func TestFramesContext(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := b.RecvFrames(short, Allocators{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("receive: %v", err)
	}
	if err := a.SendFrames(short, Bytes([]byte("late"))); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("send: %v", err)
	}
	// Neither cost anything.
	if err := a.SendFrames(ctx, Bytes([]byte("in time"))); err != nil {
		t.Fatal(err)
	}
	got, err := b.RecvFrames(ctx, Allocators{})
	if err != nil || string(got[0].Bytes()) != "in time" {
		t.Fatalf("%v, %v", got, err)
	}
	// A large frame without a receiver: the send ends with its context and so does the endpoint.
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- a.SendFrames(sending, Bytes(testBytes(7, 8<<20))) }()
	waitTable(t, ctx, b)
	stop()
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Fatalf("send of 8 MiB without a receiver: got %v, want %v", err, context.Canceled)
	}
	waitDone(t, ctx, a, b)
	if _, err := b.RecvFrames(ctx, Allocators{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("receive of the cut-off message: %v", err)
	}
}

// waitTable waits until the table of a message has arrived at ep.
func waitTable(t *testing.T, ctx context.Context, ep *Endpoint) {
	t.Helper()
	fc, err := ep.frameState()
	if err != nil {
		t.Fatal(err)
	}
	for {
		fc.mu.Lock()
		n := 0
		for _, m := range fc.msgs {
			if m.table != nil {
				n++
			}
		}
		fc.mu.Unlock()
		if n > 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v: no table of a message", ep)
		case <-time.After(time.Millisecond):
		}
	}
}

// The receiver's context ends when the table has come but a frame has not.
func TestFramesReceiveCutOff(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	plan, err := planFrames([]View{Bytes(make([]byte, 9000))})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, plan.size)
	plan.write(data, []View{Bytes(make([]byte, 9000))})
	h := wire.FrameHeader{Kind: wire.FrameTable, Number: a.lifeline.remote, Seq: 1, N: 1}
	hdr := make([]byte, wire.FrameHeaderSize)
	h.Put(hdr)
	if err := a.sendAM(ctx, amMulti, hdr, AMOptions{}, []View{Bytes(data)}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := b.RecvFrames(short, Allocators{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	waitDone(t, ctx, a, b)
}

func TestFramesNeedLifeline(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	addr, err := w.Address()
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.Connect(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ep.SendFrames(ctx, Bytes([]byte{1})); err == nil || !strings.Contains(err.Error(), "Dial") {
		t.Errorf("got %v", err)
	}
	if _, err := ep.RecvFrames(ctx, Allocators{}); err == nil || !strings.Contains(err.Error(), "Dial") {
		t.Errorf("got %v", err)
	}
}
