package ucxbench

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

func TestOptionsDefaults(t *testing.T) {
	var o Options
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(o.Cases, "idle-cpu") || len(o.Cases) != len(cases)-2 {
		t.Errorf("cases %v", o.Cases)
	}
	if !slices.Equal(o.Settings, []string{"shm", "tcp", "auto"}) || !slices.Equal(o.Mems, []string{"heap", "buffer"}) ||
		o.Rounds != 5 || o.Window != 32 || o.Goroutines != 64 || o.IdleTime != 5*time.Second {
		t.Errorf("%+v", o)
	}
	before := o
	if err := o.Complete(); err != nil || !slices.Equal(o.Cases, before.Cases) {
		t.Errorf("a second Complete changed %+v to %+v (%v)", before, o, err)
	}
	quick := Options{Quick: true, Cases: []string{"stream-lat"}, Rounds: 7}
	if err := quick.Complete(); err != nil || !slices.Equal(quick.Cases, []string{"stream-lat"}) || quick.Rounds != 7 ||
		quick.RoundTime != 50*time.Millisecond {
		t.Errorf("quick overrides what was chosen: %+v, %v", quick, err)
	}
}

// A quick run of the default choice leaves out comparisons; one with a choice
// of its own never does.
func TestQuickSparesPeers(t *testing.T) {
	lat, _ := FindCase("tag-lat")
	bw, _ := FindCase("tag-bw")
	spin, adaptive := Job{Case: lat, Mode: "spin"}, Job{Case: lat, Mode: "adaptive"}
	quick := Options{Quick: true}
	for range 2 {
		if err := quick.Complete(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		peer string
		job  Job
		want bool
	}{
		{"ucx_perftest", spin, true}, {"ucx_perftest", adaptive, false}, {"ucxx-async", spin, false},
		{"ucxx-async", adaptive, true},
		{"ucxx-core", Job{Case: bw, Mode: "adaptive"}, false},
	} {
		if got := quick.compares(tc.peer, tc.job); got != tc.want {
			t.Errorf("%s %v: %v", tc.peer, tc.job, got)
		}
	}
	for _, o := range []Options{{}, {Quick: true, Cases: []string{"tag-lat"}},
		{Quick: true, Modes: []string{"adaptive"}}} {
		if err := o.Complete(); err != nil || !o.compares("ucx_perftest", adaptive) || !o.compares("ucxx-async", spin) {
			t.Errorf("%+v leaves out a peer (%v)", o, err)
		}
	}
}

func TestOptionsNameTheMistake(t *testing.T) {
	for want, o := range map[string]Options{
		`unknown case "tag-latency"; known: tag-lat`: {Cases: []string{"tag-latency"}},
		`unknown setting "ib"`:                       {Settings: []string{"ib"}},
		`unknown mode "poll"`:                        {Modes: []string{"poll"}},
		`unknown memory "gpu"`:                       {Mems: []string{"gpu"}},
		`unknown endpoint "tcp"`:                     {Endpoints: []string{"tcp"}},
		`unknown peer "mpi"`:                         {Peers: []string{"mpi"}},
		"rounds must be at least 1":                  {Rounds: -1},
		"window must be at least 1":                  {Window: -1},
		"goroutines must be at least 1":              {Goroutines: -1},
		"round must be positive":                     {RoundTime: -1},
		"exceeds the maximum payload of 4 GiB":       {Sizes: []int64{1 << 40}},
	} {
		if err := o.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// Jobs of one group are neighbors: a pair of processes is started once.
func TestJobsAreGrouped(t *testing.T) {
	o := Options{Settings: []string{"tcp", "cuda_ipc", "shm"}, Modes: []string{"adaptive", "spin"},
		Mems: []string{"cuda", "heap"}, Endpoints: []string{"lifeline", "sockaddr"}}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	jobs, err := o.jobs()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[group]bool{}
	last := group{}
	for _, j := range jobs {
		if g := j.group(); g != last {
			if seen[g] {
				t.Fatalf("group %+v comes twice", g)
			}
			seen[g], last = true, g
		}
		switch {
		case j.Setting == "cuda_ipc" && !onDevice(j.Mem), j.Setting == "shm" && j.Endpoint == EndpointSockaddr,
			j.Case.Name == "put-lat" && onDevice(j.Mem):
			t.Errorf("meaningless job %v", j)
		}
	}
	if len(seen) != 2*2*2+1*2*2+2*2 {
		t.Errorf("%d groups: %v", len(seen), seen)
	}
	if jobs[0].Setting != "tcp" || jobs[len(jobs)-1].Setting != "shm" {
		t.Error("the requested order is not kept")
	}
}

func TestJobsSizes(t *testing.T) {
	o := Options{Cases: []string{"tag-lat", "tag-bw", "idle-cpu", "stream-lat"}, Settings: []string{"shm"},
		Mems: []string{"heap"}, Sizes: []int64{0, 100}}
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	jobs, err := o.jobs()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range jobs {
		got = append(got, j.Case.Name+" "+benchfmt.FormatSize(j.Size))
	}
	if want := []string{"tag-lat 0 B", "tag-lat 100 B", "tag-bw 100 B", "idle-cpu 8 B",
		"stream-lat 100 B"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	none := Options{Settings: []string{"cuda_ipc"}, Mems: []string{"heap"}}
	if err := none.Complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := none.jobs(); err == nil || !strings.Contains(err.Error(), "nothing to measure") {
		t.Errorf("error %v", err)
	}
}

func TestSettingEnv(t *testing.T) {
	for _, tc := range []struct{ setting, mem, want string }{
		{"auto", "heap", ""}, {"auto", "cuda", ""}, {"shm", "heap", "UCX_TLS=self,shm"},
		{"shm", "cuda", "UCX_TLS=self,shm,cuda_copy"},
		{"tcp", "buffer", "UCX_TLS=self,tcp"}, {"tcp", "cuda", "UCX_TLS=self,tcp,cuda_copy"},
		{"cuda_ipc", "cuda", "UCX_TLS=self,shm,tcp,cuda_ipc,cuda_copy"},
	} {
		env, err := SettingEnv(tc.setting, tc.mem)
		if err != nil || strings.Join(env, " ") != tc.want {
			t.Errorf("%+v: %q, %v", tc, env, err)
		}
	}
	if _, err := SettingEnv("rc", "heap"); err == nil || !strings.Contains(err.Error(), "known: shm") {
		t.Errorf("error %v", err)
	}
}

func TestValue(t *testing.T) {
	second := func(ops int64) Sample { return Sample{Seconds: 1, Operations: ops, CPUSeconds: 0.005} }
	for _, tc := range []struct {
		name string
		size int64
		s    Sample
		want float64
	}{
		{"tag-lat", 8, second(1e6), 0.5}, // a round trip of 1 µs
		{"get-lat", 8, second(1e6), 1},
		{"tag-bw", 1e6, second(1000), 1},
		{"tag-rate", 8, second(500_000), 500_000},
		{"tag-batch-rate", 8, second(500_000), 500_000},
		{"idle-cpu", 8, second(0), 0.5},
	} {
		c, err := FindCase(tc.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := value(Job{Case: c, Size: tc.size}, tc.s)
		if err != nil || math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v, %v; want %v", tc.name, got, err, tc.want)
		}
	}
	lat, _ := FindCase("tag-lat")
	if _, err := value(Job{Case: lat}, Sample{Seconds: 1}); err == nil {
		t.Error("a sample without operations has a value")
	}
}

func TestCases(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] || c.About == "" || c.API == "" {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
		suffix := map[Kind]string{Latency: "-lat", Bandwidth: "-bw", Rate: "-rate", Idle: "-cpu"}[c.Kind]
		if !strings.HasSuffix(c.Name, suffix) || c.Unit() == "" {
			t.Errorf("%s is a %s", c.Name, c.Kind)
		}
		if (c.Better() == benchfmt.Higher) != (c.Kind == Bandwidth || c.Kind == Rate) {
			t.Errorf("%s: better is %s", c.Name, c.Better())
		}
	}
	if _, err := FindCase("x"); err == nil {
		t.Error("found a case named x")
	}
}

func TestTail(t *testing.T) {
	var tl tail
	for _, s := range []string{"one\n", "two\nthree\n", "four\n"} {
		tl.Write([]byte(s))
	}
	if got := tl.String(); got != "two; three; four" {
		t.Errorf("%q", got)
	}
	tl.Write([]byte(strings.Repeat("x", 2*tailSize)))
	if len(tl.text) != tailSize {
		t.Errorf("keeps %d bytes", len(tl.text))
	}
}
