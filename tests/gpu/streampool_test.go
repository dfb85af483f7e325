package gpu

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// TestGPUPoolWithoutDriver: a warm pool gives and takes memory without one call of the driver.
func TestGPUPoolWithoutDriver(t *testing.T) {
	counter := counting(t)
	if counter == nil {
		return
	}
	ctx := testContext(t)
	pool, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{InitialBytes: 64 << 20})
	must(t, err)
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	before := calls(t, counter)
	if before["cuMemAlloc_v2"] == 0 || before["cuStreamCreateWithPriority"] == 0 {
		t.Fatalf("the counter shows nothing: %v", before)
	}
	for _, stream := range []mem.Stream{nil, s} {
		const rounds = 100_000
		begin := time.Now()
		for range rounds {
			b, err := pool.AllocOn(ctx, 1<<20, stream)
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		t.Logf("stream %v: %v for 1 MiB", stream != nil, time.Since(begin)/rounds)
		if made := calls(t, counter).Since(before); len(made) != 0 {
			t.Errorf("stream %v: driver calls %v", stream != nil, made)
		}
	}
	must(t, s.Close())
	must(t, pool.Close())
}

// enqueue copies on a stream as another library's work would: nothing holds the buffers.
func enqueue(t testing.TB, s *cuda.Stream, dst, src *mem.Buffer) {
	t.Helper()
	if r := cudrv.Copy(device, uint64(dst.Addr()), uint64(src.Addr()), dst.Len(), uint64(s.Handle()), 0, 0,
		0); r != cudrv.Success {
		t.Fatal(cuda.Error(r))
	}
}

// busy keeps a stream at work for a while, and returns an event behind that work.
func busy(t testing.TB, s *cuda.Stream, load *mem.Buffer) *cuda.Event {
	t.Helper()
	for range 300 {
		if r := cudrv.Fill(device, uint64(load.Addr()), 1, load.Len(), uint64(s.Handle()), 0, 0); r != cudrv.Success {
			t.Fatal(cuda.Error(r))
		}
	}
	e, err := s.Record()
	must(t, err)
	return e
}

func notDone(t testing.TB, e mem.Event) {
	t.Helper()
	if done, err := e.Query(); err != nil || done {
		t.Fatalf("the device has finished already (%v): the test shows nothing", err)
	}
}

// orderedTest is what the tests of the pool in the order of streams share: blocks of known content to
// copy from, and blocks to copy to.
type orderedTest struct {
	t        *testing.T
	ctx      context.Context
	load     *mem.Buffer
	src, dst []*mem.Buffer
	pats     []uint64
}

const orderedSize = 1 << 20

func newOrderedTest(t *testing.T, rounds int) *orderedTest {
	o := &orderedTest{t: t, ctx: testContext(t)}
	alloc := func(n int) *mem.Buffer {
		b, err := cuda.NewDeviceResource(device).Alloc(o.ctx, n)
		must(t, err)
		t.Cleanup(b.Release)
		return b
	}
	o.load = alloc(256 << 20)
	for range rounds {
		pat := seed()
		src := alloc(orderedSize)
		must(t, cuda.CopyFromHost(o.ctx, src, pattern(pat, orderedSize)))
		o.src, o.dst, o.pats = append(o.src, src), append(o.dst, alloc(orderedSize)), append(o.pats, pat)
	}
	return o
}

// use lets a stream write a pooled buffer and read it: round i's content must come through it.
func (o *orderedTest) use(b *mem.Buffer, s *cuda.Stream, i int) {
	enqueue(o.t, s, b, o.src[i])
	enqueue(o.t, s, o.dst[i], b)
}

func (o *orderedTest) check() {
	o.t.Helper()
	host := make([]byte, orderedSize)
	for i, d := range o.dst {
		must(o.t, cuda.CopyToHost(o.ctx, host, d))
		if !bytes.Equal(host, pattern(o.pats[i], orderedSize)) {
			o.t.Errorf("round %d: its memory was overwritten before it was read", i)
		}
	}
}

// TestGPUStreamPoolReuse: one stream uses one piece of memory again and again while the device has not
// begun with the first use, and the pool takes no more from the device.
func TestGPUStreamPoolReuse(t *testing.T) {
	requireGPU(t)
	const rounds = 100
	o := newOrderedTest(t, rounds)
	pool, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{SlabBytes: 4 << 20, MaxBytes: 4 << 20})
	must(t, err)
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	late := busy(t, s, o.load)
	if !late.RecordedOn(s) {
		t.Error("an event does not know its stream")
	}
	var at uintptr
	for i := range rounds {
		b, err := pool.AllocOn(o.ctx, orderedSize, s)
		must(t, err)
		if i > 0 && b.Addr() != at {
			t.Errorf("round %d: memory at %#x, before at %#x", i, b.Addr(), at)
		}
		at = b.Addr()
		o.use(b, s, i)
		b.Release()
	}
	notDone(t, late)
	if st := pool.Stats(); st.Slabs != 1 || st.Outstanding != 0 || st.Streams != 1 {
		t.Errorf("%+v", st)
	}
	if err := pool.Close(); !errors.Is(err, mem.ErrBusy) {
		t.Errorf("the pool was closed under the device: %v", err)
	}
	must(t, s.Wait(o.ctx))
	o.check()
	must(t, s.Close())
	must(t, pool.Close())
}

// TestGPUStreamPoolAcross: streams hand one piece of memory on. No call waits for the device, and each
// stream sees its own bytes: the device orders them by the events that the pool records.
func TestGPUStreamPoolAcross(t *testing.T) {
	requireGPU(t)
	const rounds = 60
	o := newOrderedTest(t, rounds)
	pool, err := mem.NewPool(cuda.NewDeviceResource(device),
		mem.PoolConfig{SlabBytes: orderedSize, MaxBytes: orderedSize})
	must(t, err)
	var streams []*cuda.Stream
	for range 3 {
		s, err := cuda.NewStream(device, cuda.StreamConfig{})
		must(t, err)
		streams = append(streams, s)
	}
	late := busy(t, streams[0], o.load)
	if late.RecordedOn(streams[1]) || late.RecordedOn(nil) {
		t.Error("an event claims another stream")
	}
	for i := range rounds {
		s := streams[i%len(streams)]
		b, err := pool.AllocOn(o.ctx, orderedSize, s)
		must(t, err)
		o.use(b, s, i)
		b.Release()
	}
	notDone(t, late) // all of it was enqueued behind the first
	for _, s := range streams {
		must(t, s.Wait(o.ctx))
	}
	o.check()
	for _, s := range streams {
		must(t, s.Close())
	}
	must(t, pool.Close())
}

// TestGPUStreamPoolClose: the memory of a stream that is closed with work before it is anybody's when
// that work is done, and not before.
func TestGPUStreamPoolClose(t *testing.T) {
	requireGPU(t)
	o := newOrderedTest(t, 1)
	pool, err := mem.NewPool(cuda.NewDeviceResource(device),
		mem.PoolConfig{SlabBytes: orderedSize, MaxBytes: orderedSize})
	must(t, err)
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	must(t, err)
	b, err := pool.AllocOn(o.ctx, orderedSize, s)
	must(t, err)
	late := busy(t, s, o.load)
	o.use(b, s, 0)
	end, err := s.Mark()
	must(t, err)
	b.Release()
	called := 0
	s.OnClose(func() {
		called++
		if _, err := s.Mark(); err != nil {
			t.Errorf("the stream takes no mark in OnClose: %v", err)
		}
	})
	must(t, s.Close())
	s.OnClose(func() { called++ }) // closed: at once
	if called != 2 {
		t.Errorf("OnClose was called %d times, want 2", called)
	}
	if _, err := s.Mark(); !errors.Is(err, cuda.ErrClosed) {
		t.Errorf("a mark of a closed stream: %v", err)
	}
	notDone(t, late)
	c, err := pool.Alloc(o.ctx, orderedSize) // for anybody: waits for the device
	must(t, err)
	if done, err := end.Query(); err != nil || !done {
		t.Errorf("memory was handed on before its stream was done: %v", err)
	}
	must(t, cuda.CopyFromHost(o.ctx, c, make([]byte, orderedSize)))
	o.check()
	c.Release()
	must(t, pool.Close())
}
