package profile

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/config"
)

// until waits for a condition.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

//go:noinline
func spin(stop *atomic.Bool) (n int) {
	for !stop.Load() {
		n++
	}
	return n
}

//go:noinline
func block(c chan struct{}) { <-c }

// blocked returns the number of goroutines that wait in block.
func blocked() (n int) {
	text := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		first, _, _ := strings.Cut(g, "\n")
		if strings.Contains(first, "[chan receive") && strings.Contains(g, ".block(") {
			n++
		}
	}
	return n
}

//go:noinline
func down(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	down(n-1, f)
}

// Goroutines of a task, and those that it starts, are counted by the prefix of its key; others as those of the server.
func TestRecorder(t *testing.T) {
	var active, stop atomic.Bool
	r := New(Config{Interval: time.Millisecond, Cycle: 20 * time.Millisecond, Active: active.Load})
	ended, wait := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { r.Run(ended) })
	all.Go(func() {
		r.Begin("sum")
		all.Go(func() { spin(&stop) })
		all.Go(func() { block(wait) })
		down(50, func() { block(wait) }) // only deep stacks are taken for tasks without the function of a worker
		r.End()
		block(wait)
	})
	until(t, "goroutines of the task that wait", func() bool { return blocked() == 2 })
	active.Store(true)
	var tree Tree
	sum := "sum"
	until(t, "the function of a task in the profile", func() bool {
		tree = Tree{}
		r.AddTo(&tree, Query{Key: &sum})
		return strings.Contains(text(&tree), ".spin:")
	})
	if strings.Contains(text(&tree), ".block:") {
		t.Errorf("got %s, want no goroutines that wait", text(&tree))
	}
	counts := r.Counts(0, nil)
	if len(counts) == 0 || counts[len(counts)-1].Keys["sum"] == 0 {
		t.Errorf("counts: got %v, want some of sum", counts)
	}
	stop.Store(true)
	close(wait)
	active.Store(false)

	stop2 := atomic.Bool{}
	all.Go(func() { spin(&stop2) })
	until(t, "a goroutine in the profile of the server", func() bool {
		tree = Tree{}
		r.AddServerTo(&tree, Query{Key: &sum})
		return strings.Contains(text(&tree), ".spin:")
	})
	if strings.Contains(text(&tree), "(*Recorder)") {
		t.Errorf("got %s, want no goroutine of the recorder", text(&tree))
	}
	stop2.Store(true)
	close(ended)
	all.Wait()
}

// A recorder that is off takes no samples and sets no labels.
func TestRecorderOff(t *testing.T) {
	r := New(Config{Interval: -1})
	r.Run(nil) // returns at once
	r.Begin("x")
	r.End()
	var tree Tree
	r.AddTo(&tree, Query{})
	if tree.Count() != 0 || r.labels.Load() != nil {
		t.Errorf("got %d samples and labels %v, want none", tree.Count(), r.labels.Load())
	}
	if d, _ := r.Settings(); d >= 0 {
		t.Errorf("interval: got %v, want a negative one", d)
	}
}

func TestLabels(t *testing.T) {
	r := New(Config{})
	for i := range maxLabels + 10 {
		r.Begin(fmt.Sprint("p", i))
	}
	r.Begin(strings.Repeat("x", maxText+1))
	if n := len(*r.labels.Load()); n != maxLabels+1 {
		t.Errorf("got %d labels, want %d and one for others", n, maxLabels)
	}
	r.Begin("a \"quoted\"\tname")
	r.End()
	for line, want := range map[string]string{
		`{"millstream.task":"inc", "millstream.worker":"1"}`: "inc",
		`{"millstream.task":"a \"b\" \t\u00e4", "x":"y"}`:    "a \"b\" \tä",
		`{"x":"y"}`: "", `{"millstream.task":`: "", ``: "", `{"millstream.task":5}`: "",
	} {
		if got := labelIn([]byte(line), taskLabel); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestParseGoroutines(t *testing.T) {
	got := parseGoroutines([]byte("goroutine profile: total 3\n2 @ 0x10 0x2f\n# labels: " +
		`{"millstream.task":"inc", "millstream.worker":"7"}` +
		"\n#\t0x10\tmain.f+0x1\tf.go:1\n\n1 @ 0x5\nx @\n9\n\n1 @\n"))
	want := "[{[16 47] 2 7 inc} {[5] 1  } {[] 1  }]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func FuzzParseGoroutines(f *testing.F) {
	f.Add([]byte("goroutine profile: total 1\n1 @ 0x1 0x2\n# labels: {\"millstream.task\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, r := range parseGoroutines(text) {
			framesOf(r.stack[:min(len(r.stack), 10)])
			if len(r.stack) > len(text) {
				t.Errorf("got %d frames of %d bytes", len(r.stack), len(text))
			}
		}
	})
}

// The frames between the start of a goroutine and the function of its task are not shown.
func TestTaskStack(t *testing.T) {
	frame := func(name string) *Frame { return &Frame{ID: name, Name: name, Text: name} }
	names := func(list []*Frame) (out []string) {
		for _, f := range list {
			out = append(out, f.Name)
		}
		return out
	}
	outer := []string{"go.millstream.dev/internal/task.(*Call).Run",
		"go.millstream.dev/worker/internal/execution.(*Run).invoke", callMark,
		"go.millstream.dev/worker/internal/execution.(*Pool).execute", "go.millstream.dev/worker.(*Worker).start.func1",
		"runtime.goexit"}
	for _, c := range []struct{ stack, want []string }{
		{append([]string{"runtime.gopark", "runtime.chanrecv", "main.wait", "main.f",
			"go%2emillstream%2edev.call[...]"},
			outer...), []string{"main.f", "main.wait", "runtime.chanrecv"}},
		{append([]string{"go.millstream.dev/worker_test.f"}, outer...), []string{"go.millstream.dev/worker_test.f"}},
		{append([]string{"os.ReadFile", "go.millstream.dev/internal/engine/worker/store.(*Entry).Open"}, outer[1:]...),
			[]string{"go.millstream.dev/internal/engine/worker/store.(*Entry).Open", "os.ReadFile"}},
		{outer, []string{"go.millstream.dev/internal/task.(*Call).Run"}},
		{[]string{"runtime.gopark", "main.g", "main.f.func1", "runtime.goexit"}, nil},
		{[]string{"main.g", "main.f.func1", "runtime.goexit"}, []string{"main.f.func1", "main.g"}},
		{append([]string{"runtime.gopark", sidecarMark}, outer[2:]...), nil},
		{nil, nil},
	} {
		var stack []*Frame
		for _, name := range c.stack {
			stack = append(stack, frame(name))
		}
		if got := names(taskStack(stack)); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.stack, got, c.want)
		}
	}
}

func TestFromConfig(t *testing.T) {
	for _, c := range []struct {
		set             map[string]any
		interval, cycle time.Duration
		fails           bool
	}{
		{nil, 0, 0, false},
		{map[string]any{"interval": "20ms", "cycle": "2s"}, 20 * time.Millisecond, 2 * time.Second, false},
		{map[string]any{"interval": int64(30)}, 30 * time.Millisecond, 0, false},
		{map[string]any{"cycle": 1.5}, 0, 1500 * time.Microsecond, false},
		{map[string]any{"enabled": false, "interval": "20ms"}, -1, 0, false},
		{map[string]any{"interval": "-1s"}, -time.Second, 0, true},
		{map[string]any{"enabled": "perhaps"}, 0, 0, true},
	} {
		cfg, err := config.Load(config.Options{Paths: []string{}, Env: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range c.set {
			if _, err := cfg.Set(map[string]any{"distributed.worker.profile." + k: v}); err != nil {
				t.Fatal(err)
			}
		}
		interval, cycle, err := FromConfig(cfg)
		if (err != nil) != c.fails || !c.fails && (interval != c.interval || cycle != c.cycle) {
			t.Errorf("%v: got %v, %v, %v, want %v, %v", c.set, interval, cycle, err, c.interval, c.cycle)
		}
	}
}

// BenchmarkBegin measures what a task pays for the labels of its goroutine.
func BenchmarkBegin(b *testing.B) {
	r := New(Config{})
	for b.Loop() {
		r.Begin("inc")
		r.End()
	}
}

// BenchmarkSnapshot measures a sample of a process with goroutines that wait.
func BenchmarkSnapshot(b *testing.B) {
	for name, read := range map[string]func() []record{"labeled": readLabeled, "plain": readPlain} {
		for _, n := range []int{30, 300} {
			b.Run(fmt.Sprintf("%s/goroutines=%d", name, n), func(b *testing.B) {
				r := New(Config{})
				wait := make(chan struct{})
				var all sync.WaitGroup
				for range n {
					all.Go(func() {
						r.Begin("inc")
						block(wait)
					})
				}
				for b.Loop() {
					read()
				}
				close(wait)
				all.Wait()
			})
		}
	}
}
