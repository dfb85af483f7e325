package spans_test

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/spans/spanstest"
)

var benchStart = time.Unix(1_700_000_000, 0)

func benchConfig(o spanstest.Options, dir string) spans.Config {
	return spans.Config{Dir: dir, Origin: o.Start, Now: o.Stop().Add(24 * time.Hour).Local}
}

// BenchmarkBatch measures what the scheduler's loop pays for a task.
func BenchmarkBatch(b *testing.B) {
	key := []byte("\xd9\x2cread-parquet-0123456789abcdef0123456789abcdef")
	batch := new(spans.Batch)
	s, err := spans.Open(benchConfig(spanstest.Options{Start: benchStart}, ""))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w, p := s.Worker("w", ""), s.Prefix("p")
	at := benchStart.UnixNano()
	b.ReportAllocs()
	for i := range b.N {
		batch.Task(w, 7, key, p, at, at+1000, 8, 0)
		if i%512 == 511 {
			batch = s.Put(batch)
		}
	}
}

// BenchmarkIngest measures what the store pays for a task: rows, pyramid, compression and disk.
func BenchmarkIngest(b *testing.B) {
	o := spanstest.Realistic(1000, 1, 1_000_000)
	o.Start = benchStart
	for range b.N {
		b.StopTimer()
		s, err := spans.Open(benchConfig(o, b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		run := spanstest.New(s, o)
		var batches []*spans.Batch
		for {
			batch := run.Take()
			if batch.Len() == 0 {
				break
			}
			batches = append(batches, batch)
		}
		runtime.GC()
		b.StartTimer()
		for i, batch := range batches {
			s.Put(batch)
			if i%16 == 15 {
				_ = s.Sync(context.Background())
			}
		}
		_ = s.Sync(context.Background())
		b.StopTimer()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*o.Tasks), "ns/task")
		s.Close()
	}
}

// BenchmarkHistory fills a history of 10 M tasks of 1,000 workers, reopens it and paints tiles.
func BenchmarkHistory(b *testing.B) {
	for _, tasks := range []int{1_000_000, 10_000_000} {
		for _, threads := range []int{1, 4} {
			b.Run(fmt.Sprintf("tasks=%d/threads=%d", tasks, threads), func(b *testing.B) {
				for range b.N {
					benchHistory(b, tasks, threads)
				}
			})
		}
	}
}

func benchHistory(b *testing.B, tasks, threads int) {
	o := spanstest.Realistic(1000, threads, tasks)
	o.Start = benchStart
	cfg := benchConfig(o, b.TempDir())
	s, err := spans.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	spanstest.Fill(s, o)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	m := s.Meta()
	if m.Dropped > 0 {
		b.Fatalf("%d spans dropped", m.Dropped)
	}
	runtime.GC()
	var before, after runtime.MemStats
	s = nil
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin := time.Now()
	s, err = spans.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportMetric(time.Since(begin).Seconds(), "s-open")
	m = s.Meta()
	tile := func(level, index int64, rows spans.Range, group int) []byte {
		p, err := s.Tile(context.Background(), level, index, rows, group)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	level := int64(bits.Len64(uint64(m.Last)) - 8) // of a tile with the whole history
	tile(level, 0, spans.AllRows, 0)
	b.ReportMetric(time.Since(begin).Seconds(), "s-reopen") // until the picture of the whole history
	b.ReportMetric(float64(m.Disk)/float64(tasks), "B/task")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB-heap")

	// Tiles in the middle of the history, of every level: first, and again after others; and the overview.
	var worst, again, overview time.Duration
	var worstLevel, size int
	for level := range int64(30) {
		for _, group := range []int{0, 5} {
			index := (m.First + m.Last) / 2 >> (level + 8)
			begin := time.Now()
			p := tile(level, index, spans.AllRows, group)
			took := time.Since(begin)
			if took > worst {
				worst, worstLevel, size = took, int(level), len(p)
			}
			if level >= 16 && (m.Last-m.First)>>level < 512 && (m.Last-m.First)>>level >= 64 {
				overview = max(overview, took)
			}
			begin = time.Now()
			tile(level, index, spans.Range{From: 0, To: 1 << 20}, group)
			again = max(again, time.Since(begin))
		}
	}
	b.ReportMetric(float64(worst.Microseconds())/1e3, "ms-tile")
	b.ReportMetric(float64(worstLevel), "worst-level")
	b.ReportMetric(float64(size), "B-tile")
	b.ReportMetric(float64(again.Microseconds())/1e3, "ms-tile-cached")
	b.ReportMetric(float64(overview.Microseconds())/1e3, "ms-overview")
	begin = time.Now()
	mid := (m.First + m.Last) / 2
	got := s.Spans(mid, mid+1e6, spans.AllRows, 10_000)
	b.ReportMetric(float64(time.Since(begin).Microseconds())/1e3, "ms-spans")
	if len(got) == 0 {
		b.Fatal("no spans in the middle of the history")
	}
	begin = time.Now()
	s.Summary(m.First, m.Last, spans.AllRows)
	b.ReportMetric(float64(time.Since(begin).Microseconds())/1e3, "ms-summary")
	b.ReportMetric(0, "ns/op")
}
