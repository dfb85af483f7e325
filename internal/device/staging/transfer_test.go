package staging_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// rig is a sender and a receiver, each with a device, and the lines between them.
type rig struct {
	a, b    *stagetest.Device
	ea, eb  *staging.Engine
	writers []staging.Writer
	readers []staging.Reader
	aborts  atomic.Int32
	closers []io.Closer
	once    sync.Once
	gone    chan struct{} // closed with the lines
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func newRig(t fataler, chunk, depthA, depthB, lines int, async func(line int) bool) *rig {
	t.Helper()
	r := &rig{a: stagetest.NewDevice(901), b: stagetest.NewDevice(902), gone: make(chan struct{})}
	var errs [2]error
	r.ea, errs[0] = r.a.Engine(chunk, depthA)
	r.eb, errs[1] = r.b.Engine(chunk, depthB)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i := range lines {
		x, y := net.Pipe()
		r.closers = append(r.closers, x, y)
		if async(i) {
			r.writers = append(r.writers, newAsyncWriter(x, r.gone))
			r.readers = append(r.readers, newAsyncReader(y, r.gone))
		} else {
			r.writers = append(r.writers, staging.ToWriter(x))
			r.readers = append(r.readers, staging.FromReader(y))
		}
	}
	return r
}

func (r *rig) abort() {
	r.aborts.Add(1)
	r.close()
}

func (r *rig) close() {
	r.once.Do(func() {
		for _, c := range r.closers {
			c.Close()
		}
		close(r.gone)
	})
}

// move sends data and returns what arrived and the errors of both ends.
func (r *rig) move(t fataler, ctx context.Context, data []byte) (got []byte, sent, received error) {
	t.Helper()
	src, err := r.a.Memory().Alloc(context.Background(), len(data))
	if err != nil {
		t.Fatal(err)
	}
	stagetest.Fill(src, data)
	dst, err := r.b.Memory().Alloc(context.Background(), len(data))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.ea.Send(ctx, src, r.writers, r.abort) }()
	received = r.eb.Recv(ctx, dst, r.readers, r.abort)
	sent = <-done
	if received == nil {
		if err := dst.WaitReady(context.Background()); err != nil {
			t.Fatal(err)
		}
		got = stagetest.Bytes(dst)
	}
	src.Release()
	dst.Release()
	return got, sent, received
}

// clean checks that all memory comes back once the copies that were enqueued have happened.
func (r *rig) clean(t fataler) {
	t.Helper()
	r.close()
	// lines that are ending give chunks back
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r.a.Drain()
		r.b.Drain()
		r.ea.Trim()
		r.eb.Trim()
		if r.a.Live() == 0 && r.b.Live() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d and %d bytes are still allocated", r.a.Live(), r.b.Live())
		}
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestTransfers moves lengths around the limits of chunks and lines.
func TestTransfers(t *testing.T) {
	for _, lines := range []int{1, 2, 3, 5} {
		for _, n := range []int{0, 1, 2, 63, 64, 65, 127, 128, 129, 64*5 - 1, 64 * 5, 64*5 + 1, 64*20 + 17, 100_001} {
			r := newRig(t, 64, 4, 3, lines, func(i int) bool { return i%2 == 1 })
			for range 3 { // one after the other on the same lines: nothing is left over in them
				data := random(n)
				got, sent, received := r.move(t, t.Context(), data)
				if err := errors.Join(sent, received); err != nil {
					t.Fatalf("%d bytes over %d lines: %v", n, lines, err)
				}
				if !bytes.Equal(got, data) {
					t.Fatalf("%d bytes over %d lines came as others", n, lines)
				}
			}
			if r.aborts.Load() != 0 {
				t.Error("lines were aborted")
			}
			r.clean(t)
		}
	}
}

// TestAnyTransfer draws all of it: lengths, chunks, depths, lines that wait and lines that do not, and what fails when.
func TestAnyTransfer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chunk := rapid.IntRange(1, 300).Draw(t, "chunk")
		lines := rapid.IntRange(1, 4).Draw(t, "lines")
		async := rapid.SliceOfN(rapid.Bool(), lines, lines).Draw(t, "async")
		r := newRig(t, chunk, rapid.IntRange(2, 6).Draw(t, "sender's depth"),
			rapid.IntRange(2, 6).Draw(t, "receiver's depth"), lines,
			func(i int) bool { return async[i] })
		data := random(rapid.IntRange(0, 4000).Draw(t, "length"))
		chunks := (len(data) + chunk - 1) / chunk

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		injected := errors.New("the device is gone")
		at := rapid.IntRange(1, chunks+1).Draw(t, "at") // the last: never
		fault := rapid.SampledFrom([]string{"none", "copy down", "copy up", "line", "cancel"}).Draw(t, "fault")
		switch fault {
		case "copy down":
			r.a.FailCopy(at, injected)
		case "copy up":
			r.b.FailCopy(at, injected)
		case "line", "cancel":
			act := func() { cancel() }
			if fault == "line" {
				act = r.close
			}
			var count atomic.Int32
			for i, w := range r.writers {
				r.writers[i] = counted{w, func() {
					if int(count.Add(1)) == at {
						act()
					}
				}}
			}
		}
		happens := fault != "none" && at <= chunks
		got, sent, received := r.move(t, ctx, data)
		switch {
		case !happens && (sent != nil || received != nil):
			t.Fatalf("failed for nothing: %v, %v", sent, received)
		case !happens && !bytes.Equal(got, data):
			t.Fatal("the data came as others")
		case happens && fault == "copy down" && (!errors.Is(sent, injected) || received == nil):
			t.Fatalf("a copy from the device failed: %v, %v", sent, received)
		case happens && fault == "copy up" && !errors.Is(received, injected):
			t.Fatalf("a copy to the device failed: %v", received)
		case happens && received == nil && !bytes.Equal(got, data):
			t.Fatal("the data came as others, without an error") // canceled when all was through
		case happens && fault == "line" && sent == nil:
			t.Fatal("a sender did not notice that its lines had ended")
		case happens && fault == "cancel" && sent != nil && !errors.Is(sent, context.Canceled):
			t.Fatalf("canceled: %v", sent)
		}
		if n := r.aborts.Load(); n > 2 || !happens && n != 0 {
			t.Fatalf("aborted %d times", n)
		}
		r.clean(t)
	})
}

// counted tells of each chunk before it is sent.
type counted struct {
	staging.Writer
	before func()
}

func (c counted) Send(ctx context.Context, chunk *mem.Buffer) (staging.Pending, error) {
	c.before()
	return c.Writer.Send(ctx, chunk)
}

// TestDeathInTheMiddle: who waits for a peer that is gone hears of it, and memory that a late copy still reads is not
// given back before.
func TestDeathInTheMiddle(t *testing.T) {
	r := newRig(t, 100, 4, 4, 2, func(int) bool { return false })
	dst, err := r.b.Memory().Alloc(t.Context(), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.eb.Recv(t.Context(), dst, r.readers, r.abort) }()
	part := make([]byte, 250) // two chunks and a half of the first line, of the second line none
	if _, err := r.closers[0].(net.Conn).Write(part); err != nil {
		t.Fatal(err)
	}
	r.closers[0].Close()
	if err := <-done; !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		t.Fatalf("the peer has died: %v", err)
	}
	if r.aborts.Load() != 1 {
		t.Errorf("aborted %d times", r.aborts.Load())
	}
	dst.Release()
	if r.b.Live() < 10_000 {
		t.Error("the destination was freed before the copies into it")
	}
	r.clean(t)
}

// TestCancelledBefore: nothing is sent for a context that has ended.
func TestCancelledBefore(t *testing.T) {
	r := newRig(t, 10, 2, 2, 1, func(int) bool { return false })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, sent, received := r.move(t, ctx, random(100))
	if !errors.Is(sent, context.Canceled) || !errors.Is(received, context.Canceled) {
		t.Errorf("%v, %v", sent, received)
	}
	r.clean(t)
}

// TestBackpressure: a sender whose peer does not read holds no more pinned memory than its depth.
func TestBackpressure(t *testing.T) {
	r := newRig(t, 1000, 3, 3, 1, func(int) bool { return false })
	src, err := r.a.Memory().Alloc(t.Context(), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	waiting := make(chan struct{}, 200)
	r.writers[0] = counted{r.writers[0], func() { waiting <- struct{}{} }}
	go func() { done <- r.ea.Send(ctx, src, r.writers, r.abort) }()
	<-waiting
	if n := r.ea.PinnedBytes(); n > 2*3*1024 { // a slab holds the chunks of one transfer, rounded up to its alignment
		t.Errorf("%d bytes are pinned for three chunks of 1000", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	src.Release()
	r.clean(t)
}

func TestBadEngines(t *testing.T) {
	d := stagetest.NewDevice(900)
	for _, cfg := range []staging.Config{
		{},
		{Down: d.Queue(), Pinned: d.Pinned()},
		{Down: d.Queue(), Up: d.Queue()},
		{Down: d.Queue(), Up: d.Queue(), Pinned: d.Pinned(), Chunk: -1},
		{Down: d.Queue(), Up: d.Queue(), Pinned: d.Pinned(), Depth: 1},
	} {
		if e, err := staging.New(cfg); err == nil {
			t.Errorf("%+v made %v", cfg, e)
		}
	}
	e, err := d.Engine(10, 2)
	if err != nil {
		t.Fatal(err)
	}
	src, _ := d.Memory().Alloc(t.Context(), 1)
	defer src.Release()
	if err := e.Send(t.Context(), src, nil, func() {}); err == nil {
		t.Error("a transfer without a line")
	}
}

func TestUse(t *testing.T) {
	e, err := stagetest.NewDevice(905).Engine(10, 2)
	if err != nil {
		t.Fatal(err)
	}
	undo := staging.Use(905, e)
	if got, err := staging.ForDevice(905); got != e || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	undo()
}
