package mem_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/mem"
	"pgregory.net/rapid"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The end of an allocation is that of its last view, before a pool has the memory again.
func TestBufferOnFree(t *testing.T) {
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	b := must(p.Alloc(t.Context(), 100))
	var told []string
	b.OnFree(func() { told = append(told, fmt.Sprint("first ", p.Stats().Outstanding)) })
	s := b.Slice(10, 20)
	s.OnFree(func() { told = append(told, fmt.Sprint("second ", p.Stats().Outstanding)) })
	b.Release()
	if len(told) != 0 {
		t.Fatalf("told %q while a view is left", told)
	}
	s.Release()
	if got := strings.Join(told, ", "); got != "second 1, first 1" {
		t.Errorf("told %q", got)
	}
}

func TestLimit(t *testing.T) {
	if _, err := mem.NewLimit(mem.Heap, 0); err == nil || !strings.Contains(err.Error(), "above 0") {
		t.Errorf("a limit of nothing: %v", err)
	}
	l := must(mem.NewLimit(newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}), 1024))
	a := must(l.Alloc(t.Context(), 700)) // 768
	if _, err := l.Alloc(t.Context(), 257); !errors.Is(err, mem.ErrOutOfMemory) ||
		!strings.Contains(err.Error(), "768 of at most 1024") {
		t.Errorf("beyond the limit: %v", err)
	}
	b := must(l.Alloc(t.Context(), 256))
	if mem.InUse(l) != 1024 || l.Kind() != mem.Host || l.Device() != -1 {
		t.Errorf("in use %d", mem.InUse(l))
	}
	a.Release()
	b.Release()
	if mem.InUse(l) != 0 {
		t.Errorf("in use %d at the end", mem.InUse(l))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Alloc(ctx, 1); !errors.Is(err, context.Canceled) || mem.InUse(l) != 0 {
		t.Errorf("cancelled: %v, %d in use", err, mem.InUse(l))
	}
	if _, err := l.Alloc(t.Context(), -1); err == nil {
		t.Error("a negative size")
	}
}

// However many allocate at once, the limit holds and nothing of it is lost.
func TestLimitConcurrent(t *testing.T) {
	l := must(mem.NewLimit(newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}), 8<<10))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				b, err := l.Alloc(t.Context(), 2<<10)
				if mem.InUse(l) < 0 {
					t.Error("fewer than nothing in use")
				}
				if err == nil {
					b.Release()
				} else if !errors.Is(err, mem.ErrOutOfMemory) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if mem.InUse(l) != 0 {
		t.Errorf("%d bytes in use at the end", mem.InUse(l))
	}
	b := must(l.Alloc(t.Context(), 8<<10))
	b.Release()
}

// The counters are those of a plain list of what is out.
func TestStatistics(t *testing.T) {
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	rapid.Check(t, func(t *rapid.T) {
		s := must(mem.NewStatistics(p))
		var out []*mem.Buffer
		want := []mem.Counters{{}}
		t.Repeat(map[string]func(*rapid.T){
			"alloc": func(t *rapid.T) {
				n := rapid.IntRange(0, 5000).Draw(t, "n")
				out = append(out, must(s.Alloc(context.Background(), n)))
				for i := range want {
					w := &want[i]
					w.Bytes, w.TotalBytes, w.Count, w.TotalCount = w.Bytes+int64(n), w.TotalBytes+int64(n), w.Count+1,
						w.TotalCount+1
					w.PeakBytes, w.PeakCount = max(w.PeakBytes, w.Bytes), max(w.PeakCount, w.Count)
				}
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is out")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "i")
				for j := range want {
					want[j].Bytes -= int64(out[i].Len())
					want[j].Count--
				}
				out[i].Release()
				out = append(out[:i], out[i+1:]...)
			},
			"push": func(t *rapid.T) {
				if got := s.Push(); got != want[len(want)-1] {
					t.Fatalf("Push gave %+v, want %+v", got, want[len(want)-1])
				}
				want = append(want, mem.Counters{})
			},
			"pop": func(t *rapid.T) {
				if got := s.Pop(); got != want[len(want)-1] {
					t.Fatalf("Pop gave %+v, want %+v", got, want[len(want)-1])
				}
				if len(want) > 1 {
					want = want[:len(want)-1]
				}
			},
			"": func(t *rapid.T) {
				if got := s.Counters(); got != want[len(want)-1] {
					t.Fatalf("counters %+v, want %+v", got, want[len(want)-1])
				}
			},
		})
		for _, b := range out {
			b.Release()
		}
	})
}

func TestTracking(t *testing.T) {
	tr := must(mem.NewTracking(newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}),
		mem.TrackingConfig{Stacks: true}))
	a, b, c := must(tr.Alloc(t.Context(), 1)), must(tr.Alloc(t.Context(), 22)), must(tr.Alloc(t.Context(), 333))
	b.Release()
	list := tr.Outstanding()
	if len(list) != 2 || list[0].Bytes != 1 || list[1].Bytes != 333 || list[1].Addr != c.Addr() ||
		list[0].When.After(list[1].When) {
		t.Errorf("outstanding %+v", list)
	}
	if !strings.Contains(list[0].Stack, "TestTracking") || strings.Contains(list[0].Stack, "Tracking).Alloc") {
		t.Errorf("the stack of an allocation:\n%s", list[0].Stack)
	}
	if r := tr.Report(); !strings.Contains(r, "333 bytes on stream 0x0 since ") || strings.Contains(r, "22 bytes") {
		t.Errorf("report:\n%s", r)
	}
	a.Release()
	c.Release()
	if r := tr.Report(); r != "" {
		t.Errorf("report at the end:\n%s", r)
	}
	bare := must(mem.NewTracking(mem.Heap, mem.TrackingConfig{}))
	d := must(bare.Alloc(t.Context(), 5))
	if list := bare.Outstanding(); len(list) != 1 || list[0].Stack != "" {
		t.Errorf("without stacks: %+v", list)
	}
	d.Release()
}

// A function that frees something lets an allocation succeed; other errors do not reach it.
func TestOnFailure(t *testing.T) {
	p := newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{SlabBytes: 4096, MaxBytes: 4096})
	held := must(p.Alloc(t.Context(), 4096))
	var asked []int
	o := must(mem.NewOnFailure(p, func(_ context.Context, n int, err error) bool {
		if !errors.Is(err, mem.ErrOutOfMemory) {
			t.Errorf("asked about %v", err)
		}
		asked = append(asked, n)
		if held == nil {
			return false
		}
		held.Release()
		held = nil
		return true
	}))
	b := must(o.Alloc(t.Context(), 3000))
	if fmt.Sprint(asked) != "[3000]" || b.Len() != 3000 {
		t.Errorf("asked %v", asked)
	}
	if _, err := o.Alloc(t.Context(), 4096); !errors.Is(err, mem.ErrOutOfMemory) || len(asked) != 2 {
		t.Errorf("given up with %v after %v", err, asked)
	}
	b.Release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.Alloc(ctx, 1); !errors.Is(err, context.Canceled) || len(asked) != 2 {
		t.Errorf("cancelled: %v, asked %v", err, asked)
	}
}

func TestAllocLog(t *testing.T) {
	var text bytes.Buffer
	l := must(mem.NewAllocLog(must(mem.NewLimit(mem.NewMmap(mem.MmapConfig{}), 4096)), &text, mem.AllocLogConfig{}))
	b := must(l.Alloc(t.Context(), 1000))
	addr := fmt.Sprintf("%#x", b.Addr())
	if _, err := l.Alloc(t.Context(), 4000); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Error(err)
	}
	b.Release()
	if err := l.Flush(); err != nil {
		t.Error(err)
	}
	lines := regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{6}`).ReplaceAllString(text.String(), "TIME")
	want := "Thread,Time,Action,Pointer,Size,Stream\n0,TIME,allocate," + addr + ",1000,0x0\n0,TIME,allocate " +
		"failure,0x0,4000,0x0\n0,TIME,free," + addr + ",1000,0x0\n"
	if lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
}

type brokenWriter struct{ after int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.after--; w.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// A log that cannot be written says so once and stops nobody.
func TestAllocLogBroken(t *testing.T) {
	l := must(mem.NewAllocLog(mem.Heap, &brokenWriter{after: 1}, mem.AllocLogConfig{Flush: true}))
	for range 3 {
		must(l.Alloc(t.Context(), 10)).Release()
	}
	if err := l.Flush(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("flush: %v", err)
	}
}

// Adaptors stand on each other in any order; all of them let go with the last view.
func TestAdaptorsStacked(t *testing.T) {
	limit := must(mem.NewLimit(newPool(t, mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{}), 1<<20))
	track := must(mem.NewTracking(limit, mem.TrackingConfig{}))
	stats := must(mem.NewStatistics(track))
	b := must(stats.Alloc(t.Context(), 5000))
	s := b.Slice(1, 2)
	b.Release()
	if mem.InUse(limit) == 0 || len(track.Outstanding()) != 1 || stats.Counters().Count != 1 {
		t.Error("let go while a view is left")
	}
	s.Release()
	if mem.InUse(limit) != 0 || len(track.Outstanding()) != 0 ||
		stats.Counters() != (mem.Counters{PeakBytes: 5000, TotalBytes: 5000, PeakCount: 1, TotalCount: 1}) {
		t.Errorf("after the end: %d, %+v", mem.InUse(limit), stats.Counters())
	}
}
