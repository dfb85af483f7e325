package cuda_test

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// busy enqueues enough work that it is surely not done when the call returns, and returns the
// last value written.
func busy(t testing.TB, s *cuda.Stream, b *mem.Buffer) (*cuda.Event, byte) {
	t.Helper()
	var e *cuda.Event
	for v := range byte(201) {
		e = one(s.Fill(b, v))(t)
	}
	return e, 200
}

// settle waits until no work holds buffers. Nobody asks an event meanwhile.
func settle(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); cuda.Watching(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("work is never done")
		}
	}
}

const busyBytes = 256 << 20

// TestGPUStreamFromHandle: a stream of another library orders work like its own, and outlives the wrapper.
func TestGPUStreamFromHandle(t *testing.T) {
	requireGPU(t)
	own := newStream(t, 0)
	foreign := cuda.StreamFromHandle(0, own.Handle())
	b := alloc(t, cuda.NewDeviceResource(0), busyBytes)
	e, _ := busy(t, own, b)
	if done := one(foreign.Query())(t); done {
		t.Error("a stream with 200 fills is idle")
	}
	mark := one(foreign.Record())(t)
	must(t, mark.Wait(within(t)))
	if done := one(e.Query())(t); !done {
		t.Error("the mark is done before the work on the stream")
	}
	must(t, own.Wait(within(t)))
	if done := one(foreign.Query())(t); !done {
		t.Error("a stream without work is busy")
	}
	must(t, foreign.Close())
	must(t, own.Wait(within(t))) // still usable
}

func TestGPUReadyEventOrdersStreams(t *testing.T) {
	requireGPU(t)
	writer, reader := newStream(t, 0), newStream(t, 0)
	src := alloc(t, cuda.NewDeviceResource(0), busyBytes)
	host := alloc(t, cuda.NewPinnedResource(0), 1<<20)
	tail := func() *mem.Buffer { return src.Slice(busyBytes-1<<20, 1<<20) } // after the writes: inherits the event
	e, last := busy(t, writer, src)
	if src.Ready() != mem.Event(e) {
		t.Fatal("the last write is not the buffer's ready event")
	}
	if done, err := e.Query(); err != nil || done {
		t.Errorf("200 fills of %d bytes are done at once: %v %v", busyBytes, done, err)
	}
	view := tail()
	done := one(reader.Copy(host, view))(t) // another stream: ordered by the event alone
	if host.Ready() != mem.Event(done) {
		t.Error("pinned memory that is being written has no ready event")
	}
	must(t, host.WaitReady(within(t)))
	checkSame(t, "read behind the last write", host.Bytes(), bytes.Repeat([]byte{last}, 1<<20))
	if ok, err := e.Query(); err != nil || !ok {
		t.Errorf("the reader was faster than the writer: %v", err)
	}
	for _, b := range []*mem.Buffer{view, src, host} {
		b.Release()
	}
}

func TestGPUWaitHonoursContext(t *testing.T) {
	requireGPU(t)
	s := newStream(t, 0)
	b := alloc(t, cuda.NewDeviceResource(0), busyBytes)
	defer b.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, _ := busy(t, s, b)
	if err := e.Wait(ctx); err != context.Canceled {
		t.Errorf("event: %v", err)
	}
	if err := s.Wait(ctx); err != context.Canceled {
		t.Errorf("stream: %v", err)
	}
	if err := cuda.CopyToHost(ctx, make([]byte, busyBytes), b); err != context.Canceled {
		t.Errorf("copy: %v", err)
	}
	must(t, s.Wait(within(t)))
	if done, err := e.Query(); err != nil || !done {
		t.Errorf("not done after the stream was waited for: %v", err)
	}
}

// TestWorkHoldsItsBuffers: the caller may release right after enqueuing; the memory is given
// back when the work is done, whether or not anybody waits.
func TestGPUWorkHoldsItsBuffers(t *testing.T) {
	requireGPU(t)
	settle(t)
	regions, _ := mem.Live()
	s := newStream(t, 0)
	src, dst := alloc(t, cuda.NewDeviceResource(0), busyBytes), alloc(t, cuda.NewDeviceResource(0), busyBytes)
	busy(t, s, src)
	one(s.Copy(dst, src))(t)
	src.Release()
	dst.Release()
	if n, _ := mem.Live(); n != regions+2 {
		t.Errorf("%d regions while the copy runs, want 2", n-regions)
	}
	settle(t)
	if n, _ := mem.Live(); n != regions {
		t.Errorf("%d regions left when the copy is done", n-regions)
	}
	// Go memory is kept and pinned the same way.
	d := alloc(t, cuda.NewDeviceResource(0), 1<<20)
	defer d.Release()
	want := pattern(1 << 20)
	e := func() *cuda.Event { return one(s.Copy(d, mem.FromBytes(bytes.Clone(want))))(t) }()
	runtime.GC()
	must(t, e.Wait(within(t)))
	checkSame(t, "from forgotten Go memory", read(t, d), want)
}

func TestGPUStreamClose(t *testing.T) {
	requireGPU(t)
	s := one(cuda.NewStream(0, cuda.StreamConfig{Priority: -1, WithDefaultStream: true}))(t)
	if s.Handle() == 0 || s.Device() != 0 {
		t.Errorf("%#x %d", s.Handle(), s.Device())
	}
	b := alloc(t, cuda.NewDeviceResource(0), 4096)
	defer b.Release()
	e := one(s.Fill(b, 9))(t)
	must(t, s.Close())
	must(t, s.Close())
	must(t, e.Wait(within(t))) // enqueued work still runs
	checkSame(t, "filled", read(t, b), bytes.Repeat([]byte{9}, 4096))
	wantError(t, second(s.Fill(b, 1)), cuda.ErrClosed, "stream")
	wantError(t, second(s.Copy(b, b)), cuda.ErrClosed)
	wantError(t, second(s.Record()), cuda.ErrClosed)
	wantError(t, s.Wait(within(t)), cuda.ErrClosed)
}

func TestGPUEvents(t *testing.T) {
	requireGPU(t)
	s := newStream(t, 0)
	e := one(cuda.NewEvent(0, cuda.EventConfig{}))(t)
	if done, err := e.Query(); !done || err != nil {
		t.Errorf("an event that was never recorded: %v %v", done, err)
	}
	must(t, e.Record(s))
	must(t, e.Wait(within(t)))
	must(t, s.WaitEvent(e))
	must(t, s.WaitEvent(nil))
	if e.Handle() == 0 || e.Device() != 0 {
		t.Errorf("%#x %d", e.Handle(), e.Device())
	}
	wantError(t, second(e.Export()), cuda.ErrInvalidHandle, "EventConfig.IPC")
	wantError(t, second(cuda.Elapsed(e, e)), cuda.ErrInvalidHandle, "EventConfig.Timing")
	must(t, e.Close())
	must(t, e.Close())
	wantError(t, second(e.Query()), cuda.ErrClosed)
	wantError(t, e.Record(s), cuda.ErrClosed)

	b := alloc(t, cuda.NewDeviceResource(0), busyBytes)
	defer b.Release()
	start, end := one(cuda.NewEvent(0, cuda.EventConfig{Timing: true}))(t),
		one(cuda.NewEvent(0, cuda.EventConfig{Timing: true}))(t)
	must(t, start.Record(s))
	busy(t, s, b)
	must(t, end.Record(s))
	must(t, end.Wait(within(t)))
	if d := one(cuda.Elapsed(start, end))(t); d <= 0 || d > time.Minute {
		t.Errorf("200 fills took %v", d)
	}
}

// TestEventsAreReused: millions of copies must not make millions of native events.
func TestGPUEventsAreReused(t *testing.T) {
	requireGPU(t)
	s := newStream(t, 0)
	handles := map[uintptr]bool{}
	for i := range 2000 {
		e := one(s.Record())(t)
		must(t, e.Wait(within(t)))
		handles[e.Handle()] = true
		if i%100 == 0 {
			runtime.GC()
		}
	}
	if len(handles) > 1000 {
		t.Errorf("2000 events used %d native ones", len(handles))
	}
}

// TestGPUEventsGivenBack: an event that was waited for gives its native event to the next one, without the collector.
func TestGPUEventsGivenBack(t *testing.T) {
	requireGPU(t)
	s := newStream(t, 0)
	b := alloc(t, cuda.NewDeviceResource(0), 4096)
	defer b.Release()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := cuda.SpareEvents(0) // of earlier tests
	for range 1000 {
		var events []*cuda.Event
		for range 4 {
			events = append(events, one(s.Record())(t), one(s.Fill(b, 1))(t))
		}
		for _, e := range events {
			must(t, e.Wait(within(t)))
		}
	}
	if n := cuda.SpareEvents(0); n == 0 || n > before+100 {
		t.Errorf("8000 events, eight at a time, left %d native ones to be used again, want 1 to %d", n, before+100)
	}
	e := one(s.Record())(t)
	must(t, e.Wait(within(t)))
	must(t, e.Record(s)) // after it was given back
	must(t, e.Wait(within(t)))
	if done, err := e.Query(); !done || err != nil {
		t.Errorf("an event that was recorded again: %v %v", done, err)
	}
}

func TestGPUAsyncResource(t *testing.T) {
	requireGPU(t)
	if d := one(cuda.DeviceByOrdinal(0))(t); !d.MemoryPools {
		t.Skip("no GPU: the device has no memory pools")
	}
	regions, _ := mem.Live()
	s := one(cuda.NewStream(0, cuda.StreamConfig{}))(t)
	other := newStream(t, 0)
	r := cuda.NewAsyncResource(s)
	if r.Kind() != mem.Device || r.Device() != 0 {
		t.Errorf("%v %d", r.Kind(), r.Device())
	}
	b := alloc(t, r, 1<<20)
	if b.Ready() == nil {
		t.Error("stream-ordered memory must not be used before its event")
	}
	want := pattern(1 << 20)
	one(other.Copy(b, mem.FromBytes(want)))(t) // on another stream, ordered by the event
	checkSame(t, "content", read(t, b), want)
	wantError(t, second(cuda.ExportMem(b)), nil, "NewDeviceResource")
	must(t, s.Close())
	b.Release() // after the stream: freed in its order all the same
	wantError(t, second(r.Alloc(within(t), 1)), cuda.ErrClosed)
	if n, _ := mem.Live(); n != regions {
		t.Errorf("%d regions left", n-regions)
	}
}
