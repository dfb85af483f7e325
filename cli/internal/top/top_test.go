package top

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var update = flag.Bool("update", false, "write the expected views")

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// worker returns the identity of worker i, in the form of both schedulers.
func worker(i int, gpu bool) msgpack.Map {
	m := msgpack.MapOf("cpu", 10.5*float64(i), "memory", int64(i)<<30, "managed_bytes", int64(i)<<20, "spilled_bytes",
		msgpack.MapOf("memory", int64(0), "disk", int64(i)<<10), "task_counts",
		msgpack.MapOf("executing", int64(i), "ready", int64(2*i), "memory", int64(100*i)),
		"host_net_io", msgpack.MapOf("read_bps", 1e6*float64(i), "write_bps", 5e5))
	d := msgpack.MapOf("name", int64(i), "status", "running", "nthreads", int64(4), "memory_limit", int64(8)<<30,
		"last_seen", float64(start.Unix())-1.5)
	if gpu {
		m = append(m, msgpack.MapOf("gpu_utilization", int64(30*i), "gpu_memory_used", int64(i)<<33, "gpu-memory-total",
			int64(40)<<30)...)
		d = append(d, msgpack.Pair{Key: "gpu", Value: msgpack.MapOf("name", "Fake GPU", "memory-total", int64(40)<<30)})
	}
	return append(d, msgpack.Pair{Key: "metrics", Value: m})
}

func workers(n int) msgpack.Map {
	all := msgpack.Map{}
	for i := range n {
		all = append(all, msgpack.Pair{Key: fmt.Sprintf("tcp://10.0.0.%d:4000", i), Value: worker(i, i > 1)})
	}
	return all
}

// identity is that of a Millstream scheduler; the counters grow with bytes.
func identity(n int, bytes int64) msgpack.Map {
	return msgpack.MapOf("type", "Scheduler", "id", "Scheduler-1", "address", "tcp://10.0.0.99:8786", "started",
		float64(start.Unix()-3723), "workers", workers(n), "millstream", msgpack.MapOf("v", int64(1), "tasks",
			msgpack.MapOf("processing", int64(6), "memory", int64(300), "erred", int64(2)), "transitions", bytes/1000,
			"transfers", msgpack.MapOf("tcp", []any{bytes, int64(10), 1.5}, "ucx", []any{10 * bytes, int64(3), 0.1}),
			"failures", msgpack.MapOf("suspicious", int64(1), "workers-removed", int64(4))))
}

func pair(n int) *Snapshot {
	first := New(start, identity(n, 1_000_000), nil, nil)
	return New(start.Add(2*time.Second), identity(n, 5_000_000), nil, first)
}

// The views of fixed snapshots at fixed sizes are as expected; -update writes them.
func TestViews(t *testing.T) {
	dask := msgpack.MapOf("id", "Scheduler-2", "address", "tls://10.0.0.98:8786", "started", float64(start.Unix()-60),
		"workers", msgpack.MapOf("tls://10.0.0.1:1", worker(1, false)))
	prefixes := msgpack.MapOf("inc", msgpack.MapOf("memory", int64(3), "erred", int64(1), "released", int64(0)), "add",
		msgpack.MapOf("memory", int64(4)))
	for name, c := range map[string]struct {
		s *Snapshot
		v View
	}{
		"wide":    {pair(4), View{Width: 150, Height: 30, Sort: 'n', Keys: true, Interval: 2 * time.Second}},
		"narrow":  {pair(4), View{Width: 60, Height: 14, Sort: 'm', Keys: true, Interval: time.Second}},
		"scroll":  {pair(30), View{Width: 100, Height: 20, Sort: 'c', Offset: 5, Keys: true, Interval: time.Second}},
		"piped":   {pair(3), View{Sort: 'n', Reverse: true}},
		"problem": {pair(1), View{Width: 80, Height: 24, Sort: 'n', Keys: true, Problem: "connection refused"}},
		"empty":   {pair(0), View{Width: 80, Height: 24, Sort: 'n', Keys: true, Paused: true}},
		"dask":    {New(start, dask, prefixes, nil), View{Width: 120, Height: 24, Sort: 'n'}},
		"counts":  {New(start, dask, nil, nil), View{Width: 120, Height: 24, Sort: 'n'}},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(c.s.Lines(c.v), "\n") + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || got != string(want) {
				t.Errorf("%v; got\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// Every key sorts, with the largest number or the first name first, and r reverses the order.
func TestSort(t *testing.T) {
	s := pair(5)
	for key, want := range map[rune]string{'n': "01234", 't': "43210", 'c': "43210", 'm': "43210", 'g': "43210",
		'b': "43210", 'a': "01234", 'd': "43210"} {
		if !Sorts(key) {
			t.Errorf("%c does not sort", key)
		}
		for _, reverse := range []bool{false, true} {
			got := ""
			for _, w := range s.sorted(View{Sort: key, Reverse: reverse}) {
				got += w.Name
			}
			expected := []byte(want)
			if reverse {
				slices.Reverse(expected)
			}
			if key != 'g' && got != string(expected) || key == 'g' && reverse == (got[0] == '4') {
				t.Errorf("%c, reversed %v: got %s, want %s", key, reverse, got, expected)
			}
		}
	}
	if Sorts('q') || Sorts('r') || Sorts('p') || Sorts('j') || Sorts('k') {
		t.Error("a key sorts and does something else")
	}
}

// A restarted scheduler begins to count at zero; rates are never negative.
// Workers whose name is their address can be told apart in a narrow terminal.
func TestWorkerName(t *testing.T) {
	for _, test := range []struct{ name, address, want string }{
		{"alice", "tcp://127.0.0.1:36599", "alice"},
		{"tcp://127.0.0.1:36599", "tcp://127.0.0.1:36599", "~7.0.0.1:36599"},
		{"", "tls://10.0.0.1:99", "10.0.0.1:99"},
		{"", "worker-1", "worker-1"},
		{"", "", ""},
		{"", "tcp://[fe80::é]:40000", "~e80::é]:40000"},
	} {
		if got := workerName(&Worker{Name: test.name, Address: test.address}); got != test.want {
			t.Errorf("%q at %s: got %q, want %q", test.name, test.address, got, test.want)
		}
	}
}

func TestRates(t *testing.T) {
	s := pair(1)
	if s.Transitions != 2000 || s.Transfers[0].Rate != 2e6 || s.Transfers[1].Rate != 2e7 {
		t.Errorf("got %v transitions/s and %+v, want 2000, 2e6 and 2e7 bytes/s", s.Transitions, s.Transfers)
	}
	again := New(start.Add(4*time.Second), identity(1, 1000), nil, s)
	if again.Transitions != 0 || again.Transfers[0].Rate != 0 {
		t.Errorf("smaller counters: got %+v, want rates of 0", again)
	}
	id := identity(1, 9_000_000)
	id.Set("id", "Scheduler-7")
	if other := New(start.Add(4*time.Second), id, nil, s); other.Transfers[0].Rate != 0 {
		t.Errorf("another scheduler: got %+v, want rates of 0", other.Transfers)
	}
}

// Peers choose names, states and numbers: none may reach the terminal, wrap lines or break the view.
func TestHostile(t *testing.T) {
	bad := "\x1b[2J\x1b]0;title\x07\r\n\u202e漢\xff" + strings.Repeat("x", 500)
	m := msgpack.MapOf("cpu", math.NaN(), "memory", math.Inf(1), "task_counts", msgpack.MapOf(bad, "text"),
		"gpu_memory_used", "text", "gpu_utilization", -1e300, "spilled_bytes", int64(3), "host_net_io", []any{1})
	id := msgpack.MapOf("address", bad, "id", int64(4), "started", "never", "workers", msgpack.Map{
		{Key: bad, Value: msgpack.MapOf("name", bad, "status", bad, "metrics", m, "nthreads", "x", "last_seen", 1e300)},
		{Key: int64(5), Value: "no map"}, {Key: []any{1}, Value: msgpack.MapOf("metrics", nil)}},
		"millstream", msgpack.MapOf("tasks", msgpack.MapOf(bad, int64(math.MaxInt64), "b", int64(math.MinInt64)),
			"transfers", msgpack.MapOf(bad, []any{int64(-5), 1e308}, "short", []any{}, "x", "y"), "failures", bad))
	s := New(start, id, nil, New(start, id, nil, nil))
	for _, width := range []int{0, 1, 2, 10, 79, 500} {
		for height := range 30 {
			lines := s.Lines(View{Width: width, Height: height, Sort: 'g', Keys: height%2 == 0, Problem: bad})
			if height > 0 && len(lines) > max(height, 1) {
				t.Errorf("%d by %d: got %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if width > 0 && utf8.RuneCountInString(l) > width || strings.ContainsFunc(l, func(r rune) bool {
					return r < ' ' || r > 0x1100 || r == 0x7f
				}) {
					t.Fatalf("%d by %d: got %q", width, height, l)
				}
			}
		}
	}
	if _, err := json.Marshal(s); err != nil {
		t.Errorf("JSON: %v", err)
	}
}

func FuzzNew(f *testing.F) {
	b, err := msgpack.Append(nil, identity(2, 5))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := msgpack.Decode(b)
		if err != nil {
			return
		}
		m, _ := v.(msgpack.Map)
		s := New(start, m, m, New(start, m, nil, nil))
		for _, l := range s.Lines(View{Width: 40, Height: 20, Sort: 'c', Keys: true}) {
			if utf8.RuneCountInString(l) > 40 {
				t.Errorf("got %q", l)
			}
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
	})
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]string{"qm": "qm", "\x1b[A\x1b[B": "kj", "\x1bOAx": "kx", "\x1b[5~\x1b[6~": "KJ",
		"\x1b": "", "\x1b[": "", "\x1b[1;5C+": "+", "\x00\x7f\xff-": "-"} {
		if got := string(decode([]byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 999: "999", 1000: "0.98K", 1536: "1.50K", 20 << 20: "20.0M",
		300 << 30: "300G", 3e18: "2.60E"} {
		if got := size(in); got != want {
			t.Errorf("%v: got %s, want %s", in, got, want)
		}
	}
}
