package mem_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/mem"
)

// manualEvent is an Event that completes when the test says so.
type manualEvent struct {
	done atomic.Bool
	err  atomic.Pointer[error]
}

func (e *manualEvent) Handle() uintptr { return 0 }

func (e *manualEvent) Query() (bool, error) {
	if p := e.err.Load(); p != nil {
		return false, *p
	}
	return e.done.Load(), nil
}

func (e *manualEvent) Wait(ctx context.Context) error {
	for {
		if done, err := e.Query(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func TestBufferViews(t *testing.T) {
	b := mem.FromBytes([]byte("0123456789"))
	s := b.Slice(2, 5)
	ss := s.Slice(1, 2)
	if string(s.Bytes()) != "23456" || string(ss.Bytes()) != "34" {
		t.Errorf("%q %q", s.Bytes(), ss.Bytes())
	}
	if cap(ss.Bytes()) != 2 {
		t.Error("appending to a view's bytes would write behind the view")
	}
	if ss.Addr() != b.Addr()+3 || ss.Len() != 2 || ss.Region() != b.Region() {
		t.Errorf("%v", ss)
	}
	if e := b.Slice(10, 0); e.Len() != 0 || e.Bytes() == nil {
		t.Errorf("%v", e)
	}
	for _, c := range [][2]int{{-1, 1}, {0, -1}, {0, 11}, {11, 0}, {5, 6}, {1, int(^uint(0) >> 1)}} {
		mustPanic(t, "Slice(", func() { b.Slice(c[0], c[1]) })
	}
	if got := ss.String(); got == "" {
		t.Error("no description")
	}
}

func TestBufferBytesOfDevice(t *testing.T) {
	b := deviceRegion(nil).Buffer()
	defer b.Release()
	if b.Kind() != mem.Device || b.Device() != 3 || b.ReadOnly() {
		t.Errorf("%v", b)
	}
	mustPanic(t, "not accessible to the CPU", func() { b.Bytes() })
}

func TestBufferCounts(t *testing.T) {
	freed := 0
	b := deviceRegion(func() { freed++ }).Buffer()
	if b.Retain() != b {
		t.Fatal("Retain must return its receiver")
	}
	s := b.Slice(0, 1)
	b.Release()
	b.Release()
	if freed != 0 {
		t.Fatal("freed with a slice alive")
	}
	// One too many: the slice's reference must survive it.
	mustPanic(t, "Release of a released", b.Release)
	mustPanic(t, "Retain of a released", func() { b.Retain() })
	mustPanic(t, "Release of a released", b.Release)
	if freed != 0 {
		t.Fatal("a double release freed the slice's memory")
	}
	s.Release()
	mustPanic(t, "Release of a released", s.Release)
	if freed != 1 {
		t.Fatalf("freed %d times", freed)
	}
}

func TestReadyEvent(t *testing.T) {
	b := deviceRegion(nil).Buffer()
	defer b.Release()
	if b.Ready() != nil {
		t.Error("a new buffer has an event")
	}
	if err := b.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	e := new(manualEvent)
	b.SetReady(e)
	s := b.Slice(0, 10)
	if s.Ready() != e {
		t.Error("a slice must inherit the event of the last write")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitReady(ctx); err != context.Canceled {
		t.Error(err)
	}
	b.SetReady(nil)
	if b.Ready() != nil || s.Ready() != e {
		t.Error("SetReady reached another view")
	}
	e.done.Store(true)
	if err := s.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	s.Release()
}

func TestBufferConcurrentRelease(t *testing.T) {
	for range 200 {
		var freed atomic.Int32
		b := deviceRegion(func() { freed.Add(1) }).Buffer()
		var wg sync.WaitGroup
		for range 8 {
			b.Retain()
			wg.Go(func() {
				s := b.Slice(1, 10)
				b.Release()
				s.Slice(0, 3).Release()
				s.Release()
			})
		}
		b.Release()
		wg.Wait()
		if freed.Load() != 1 {
			t.Fatalf("freed %d times", freed.Load())
		}
	}
}

func BenchmarkRetainRelease(b *testing.B) {
	v := mem.FromBytes(make([]byte, 8))
	for b.Loop() {
		v.Retain()
		v.Release()
	}
}
