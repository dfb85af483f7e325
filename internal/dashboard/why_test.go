package dashboard

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/dashboard/spans"
)

// findings returns the findings about a history, by kind.
func findings(t *testing.T, s *Server) map[string]Finding {
	t.Helper()
	v, err := s.why(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Finding{}
	for _, f := range v.(map[string]any)["findings"].([]Finding) {
		out[f.Kind] = f
	}
	return out
}

func TestWhy(t *testing.T) {
	s := New(newStore(t), &fakeSource{deps: map[string][]string{"sum-1": {"inc-1", "inc-2", "unknown"}}})
	got := findings(t, s)
	for kind, want := range map[string]struct {
		title, text string
		start, stop int64
	}{
		"critical-path": {"2 tasks, 2 s", "computed for 1.8 s of 2 s (90 %)", 0, 2e6},
		"prefix":        {"inc has 55 %", "2 tasks took 1.1 s in all", 0, 1e6},
		"transfer":      {"0.2 s over cma", "1 MB between b and a, 5 MB/s", 1e6, 12e5},
		"balance":       {"Worker a computed 1.8 times", "for 1.8 s", 0, 2e6},
		"headroom":      {"50 %", "2 threads could compute for 4 s in 2 s and did for 2 s", 0, 2e6},
	} {
		f, ok := got[kind]
		if !ok || !strings.Contains(f.Title, want.title) || !strings.Contains(f.Text, want.text) || len(f.Rows) == 0 {
			t.Errorf("%s: got %+v, want %q and %q", kind, f, want.title, want.text)
		}
		if f.Start != want.start || f.Stop != want.stop {
			t.Errorf("%s: got %d to %d, want %d to %d", kind, f.Start, f.Stop, want.start, want.stop)
		}
	}
}

// Only the computation after the last idle time counts.
func TestWhyLastRun(t *testing.T) {
	store := newStore(t)
	b := new(spans.Batch)
	b.Task(store.Worker("tcp://a", "a"), 10, []byte("late-1"), store.Prefix("late"), at(20_000), at(21_000), 8, 0)
	store.Put(b)
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := findings(t, New(store, nil))
	if f := got["prefix"]; !strings.Contains(f.Title, "late has 100 %") || f.Start != 20e6 {
		t.Errorf("prefix: got %+v, want that of the last computation", f)
	}
	for _, kind := range []string{"transfer", "balance", "headroom", "critical-path"} {
		if f, ok := got[kind]; ok {
			t.Errorf("%s: got %+v, want none", kind, f)
		}
	}
}

// Threads that wait are idle, and the reasons are named. A failed task without dependencies that ended last does not
// hide the critical path.
func TestWhyWaits(t *testing.T) {
	store := newStore(t)
	b := new(spans.Batch)
	a := store.Worker("tcp://a", "a")
	b.Wait(a, 10, []byte("sum-2"), spans.Waiting, at(2000), at(2300))
	b.Wait(a, 10, []byte("sum-2"), spans.WaitingSlot, at(2300), at(2400))
	b.Task(a, 10, []byte("sum-2"), store.Prefix("sum"), at(2400), at(2500), 8, 0)
	b.Task(a, 10, []byte("bad-1"), store.Prefix("bad"), at(2500), at(2600), 8, spans.FlagError)
	store.Put(b)
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := findings(t, New(store, &fakeSource{deps: map[string][]string{"sum-2": {"sum-1"}, "sum-1": {"inc-1"}}}))
	for _, want := range []string{"did for 2.2 s", "Waiting for data took 0.3 s", "Waiting for a slot took 0.1 s"} {
		if f := got["headroom"]; !strings.Contains(f.Text, want) {
			t.Errorf("headroom: got %q, want %q", f.Text, want)
		}
	}
	if f := got["critical-path"]; !strings.Contains(f.Title, "3 tasks") || f.Stop != 25e5 {
		t.Errorf("critical path: got %+v, want 3 tasks up to 2.5 s", f)
	}
}

// Small times and numbers of bytes have units that fit.
func TestWhyUnits(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{seconds(0), "0 s"}, {seconds(7), "7 µs"}, {seconds(53_300), "53.3 ms"}, {seconds(1_234_567), "1.23 s"},
		{decimal(0, "B"), "0 B"}, {decimal(167, "B"), "167 B"}, {decimal(999.7, "B"), "1 kB"},
		{decimal(3130, "B/s"), "3.13 kB/s"}, {decimal(5e12, "B"), "5 TB"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
