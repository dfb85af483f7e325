package taskbench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
)

// script is what a scripted process answers to each command, in turns.
type script map[string][]answer

// scriptVariable has the script of the test binary in the role "script".
const scriptVariable = "MILLSTREAM_TASKBENCH_SCRIPT"

// play answers commands from the script. What it has no answer for gets an empty one.
func play(_ context.Context, in io.Reader, out io.Writer) error {
	var s script
	if err := json.Unmarshal([]byte(os.Getenv(scriptVariable)), &s); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		var a answer
		if list := s[c.Do]; len(list) > 0 {
			a = list[0]
			if len(list) > 1 {
				s[c.Do] = list[1:]
			}
		}
		if err := json.NewEncoder(out).Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s script) starter(t *testing.T) benchpeer.Starter {
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return benchtest.Self("script", scriptVariable+"="+string(text))
}

var started = answer{Pid: 1, Pids: []int{2, 3}}

func measure(t *testing.T, o Options, ours, theirs script) (benchfmt.Figures, error) {
	t.Helper()
	p := Programs{Go: ours.starter(t)}
	if theirs != nil {
		o.Peer, p.Python = true, theirs.starter(t)
	}
	return benchtest.Run(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, nil)
	})
}

// Figures are rates, ratios are ours to theirs, and bars are looked at.
func TestFiguresOfBothSides(t *testing.T) {
	ours := script{"start": {started}, mapNoop: {{Seconds: 0.5, Tasks: 1000, Check: "x"}},
		submitLatency: {{Seconds: 0.001, Tasks: 5}}}
	theirs := script{"start": {started}, mapNoop: {{Seconds: 20, Tasks: 1000, Check: "x"}},
		submitLatency: {{Seconds: 0.1, Tasks: 5}}}
	got, err := measure(t, Options{Cases: []string{mapNoop, submitLatency}, Rounds: 2}, ours, theirs)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []struct {
		ours, theirs float64
		met          bool
	}{{2000, 50, false}, {1000, 100_000, true}} {
		f := got[i]
		met, known := f.Met()
		if f.Ours != want.ours || f.OursMedian != want.ours || f.Theirs != want.theirs || met != want.met || !known {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

// A round in which something is wrong does not count.
func TestCheatingIsNoticed(t *testing.T) {
	good := script{"start": {started}, mapNoop: {{Seconds: 1, Tasks: 10, Check: "1"}}}
	for name, tc := range map[string]struct {
		ours, theirs script
		want         string
	}{
		"results": {good, script{"start": {started}, mapNoop: {{Seconds: 1, Tasks: 10, Check: "2"}}},
			"results differ"},
		"no time":   {script{"start": {started}, mapNoop: {{Tasks: 10}}}, nil, "invalid duration of 0 s"},
		"processes": {script{"start": {{Pid: 1, Pids: []int{1, 2}}}}, nil, "the client in process 1"},
		"too few":   {script{"start": {{Pid: 1, Pids: []int{2, 2}}}}, nil, "2 workers"},
		"an error":  {good, script{"start": {started}, mapNoop: {{Error: "no luck"}}}, "dask: map-noop: no luck"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := measure(t, Options{Cases: []string{mapNoop}, Rounds: 1}, tc.ours, tc.theirs)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// What looking at the scheduler costs is not the scheduler's.
func TestSchedulerFigures(t *testing.T) {
	round := func(at, step float64, n int64) []answer {
		return []answer{
			{CPU: at, CPUAfter: at + 1, RSS: 1 << 20, Heap: 1 << 20},
			{CPU: at + 1 + step, CPUAfter: at + 3 + step, RSS: 1<<20 + 500*n, Heap: 1<<20 + 400*n},
		}
	}
	// The first round, to warm up, does not count; then 0.02 s and 0.01 s for 10,000 tasks.
	s := script{
		"scheduler": {{Address: "tcp://nowhere:1"}},
		"usage":     append(round(0, 5, 100), round(10, 0.02, 10_000)...),
		"empty":     {{CPU: 9}, {CPU: 13.02 + 0.01}},
	}
	got, err := measure(t, Options{Cases: []string{schedulerOnly}, Scheduler: []int{10_000}}, s, nil)
	if err != nil || len(got) != 6 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []float64{3, 500, 400} {
		for _, f := range []int{i, i + 3} { // without and with a journal
			if math.Abs(got[f].Ours-want) > 1e-6 {
				t.Errorf("%s %s: %v, want %v", got[f].Case, got[f].Setting, got[f].Ours, want)
			}
		}
	}
}

// The busy fetch is measured against the idle one.
func TestFetchFigures(t *testing.T) {
	s := script{"start": {started}, fetch: {{Seconds: 0.01, Bytes: 1e7, Transport: "ucxx"},
		{Seconds: 0.04, Bytes: 1e7, Transport: "ucxx"}}}
	got, err := measure(t, Options{Cases: []string{fetch}, Rounds: 1, FetchBytes: 1e7}, s, nil)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if r, ok := got[2].Ratio(); !ok || r != 0.25 || got[2].Peer != "idle" || got[2].Transport != "ucxx" {
		t.Errorf("%+v", got[2])
	}
	if met, known := got[2].Met(); met || !known {
		t.Error("a quarter is enough")
	}
	for i, want := range []float64{1, 0.25} {
		if got[i].Ours != want {
			t.Errorf("%+v, want %v", got[i], want)
		}
	}
}

func TestUsage(t *testing.T) {
	a, err := usage()
	if err != nil {
		t.Fatal(err)
	}
	if a.CPU <= 0 || a.CPUAfter < a.CPU || a.RSS <= 0 || a.Heap <= 0 {
		t.Errorf("%+v", a)
	}
	var p profile
	if err := p.to(""); err != nil {
		t.Errorf("the end of no profile: %v", err)
	}
	path := t.TempDir() + "/x.pprof"
	if err := p.to(path); err != nil {
		t.Fatal(err)
	}
	if err := p.to(path); err == nil {
		t.Error("two profiles at once")
	}
	if err := p.to(""); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	if err := until(ctx, 60, "three", func() (bool, error) { n++; return n == 3, nil }); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	if err := until(ctx, 0, "the end", func() (bool, error) { return false, nil }); err == nil ||
		!strings.Contains(err.Error(), "condition not met: the end") {
		t.Errorf("%v", err)
	}
	if err := until(ctx, 60, "x", func() (bool, error) { return false, fmt.Errorf("broken") }); err == nil ||
		err.Error() != "broken" {
		t.Errorf("%v", err)
	}
	cancel()
	if err := until(ctx, 60, "x", func() (bool, error) { return false, nil }); err != context.Canceled {
		t.Errorf("%v", err)
	}
}
