package spanstest_test

import (
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/spans/spanstest"
	"go.millstream.dev/internal/testkit/leak"
)

func TestFill(t *testing.T) {
	leak.Check(t)
	o := spanstest.Realistic(7, 3, 20_000)
	o.Start = time.Unix(1_700_000_000, 0)
	s, err := spans.Open(spans.Config{Origin: o.Start, Now: o.Stop().Add(time.Hour).Local})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := spanstest.Fill(s, o)
	m := s.Meta()
	if m.Spans != int64(n) || m.Dropped != 0 || n < o.Tasks || n > o.Tasks*5/4 {
		t.Errorf("got %d spans and %d dropped, want %d of %d tasks and 0", m.Spans, m.Dropped, n, o.Tasks)
	}
	sum := s.Summary(0, m.Last, spans.AllRows)
	want := map[uint8][2]int64{spans.Transfer: {1500, 2500}, spans.DiskRead: {50, 150}, spans.Failed: {5, 40},
		spans.Deserialize: {300, 500}, spans.FirstPrefix: {200, 5000}}
	for c, bounds := range want {
		if got := sum.Categories[c].Count; got < bounds[0] || got > bounds[1] {
			t.Errorf("category %d: got %d spans, want %v", c, got, bounds)
		}
	}
	if got, want := m.Last, o.Stop().Sub(o.Start).Microseconds(); got < want/2 || got > want*2 {
		t.Errorf("last: got %d µs, want about %d", got, want)
	}
	threads := 0
	for _, r := range s.Rows() {
		if r.Kind == spans.ThreadRow {
			threads++
		}
	}
	if threads != 21 {
		t.Errorf("got %d threads, want 21", threads)
	}
}
