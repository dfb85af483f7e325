package taskbench

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/bench/benchfmt"
)

// TestMain is also a process of the benchmark, and a worker of its clusters.
func TestMain(m *testing.M) {
	cluster.Main()
	benchtest.Role(map[string]benchtest.Serve{"peer": Serve, "script": play})
	os.Exit(m.Run())
}

var goStarter = benchtest.Self("peer")

// run measures with small graphs.
func run(t *testing.T, p Programs, o Options) benchfmt.Figures {
	t.Helper()
	o.Quick, o.Rounds, o.Tasks, o.Leaves, o.DAG, o.Submits = true, 1, 500, 64, 200, 10
	o.Scheduler, o.FetchBytes, o.ShuffleBytes, o.ShuffleParts, o.ShuffleWorkers = []int{200, 400}, 4<<20, 4<<20, 4, 3
	return benchtest.Figures(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, nil)
	})
}

// Every case gives its figures.
func TestGo(t *testing.T) {
	got := run(t, Programs{Go: goStarter}, Options{})
	var names []string
	for _, f := range got {
		names = append(names, f.Case+"/"+f.Setting)
		// A difference of processor times may be too small to measure.
		zero := strings.HasSuffix(f.Case, "-rss") || strings.HasSuffix(f.Case, "-heap") ||
			f.Case == dashboardCase+"-cpu"
		if f.Ours < 0 || f.Ours == 0 && !zero {
			t.Errorf("%+v", f)
		}
		if f.Peer != "" && f.Case != "fetch-busy" && f.Case != dashboardCase { // compared with ourselves
			t.Errorf("a peer that did not run: %+v", f)
		}
	}
	want := []string{"map-noop/2 x 1 tls", "tree/2 x 1 tls", "random-dag/2 x 1 tls", "submit-latency/2 x 1 tls",
		"chain/2 x 1 tls"}
	for _, setting := range []string{"tcp", "tcp, journal"} {
		for range 2 {
			want = append(want, "scheduler-only/"+setting, "scheduler-only-rss/"+setting, "scheduler-only-heap/"+
				setting)
		}
		want = append(want, "scheduler-only-linear/"+setting)
	}
	want = append(want, "fetch/idle", "fetch/busy", "fetch-busy/busy", "client-fetch/first", "client-fetch/next",
		"shuffle/3 x 1 tls", "shuffle-again/3 x 1 tls", "dashboard/20 viewers, 50000 tasks/s",
		"dashboard-cpu/20 viewers, 50000 tasks/s")
	if !slices.Equal(names, want) {
		t.Errorf("figures\n%q, want\n%q", names, want)
	}
}

// With a peer each figure has its number, and both sides computed the same.
func TestAgainstDask(t *testing.T) {
	got := run(t, Programs{Go: goStarter, Python: python(t).start}, Options{Peer: true, Cases: []string{randomDAG}})
	if len(got) != 1 {
		t.Fatalf("%d figures: %+v", len(got), got)
	}
	for _, f := range got {
		if f.Peer != PeerName || f.Theirs <= 0 || f.Ours <= 0 || f.Bar == nil {
			t.Errorf("%+v", f)
		}
	}
}

// A process returns the reason if it cannot run a command.
func TestErrorsAreTold(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := &bench{dir: t.TempDir()}
	p, err := b.startProcess(ctx, side{"millstream", goStarter})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for _, tc := range []struct {
		c    command
		want string
	}{
		{command{Do: "dance"}, `unknown command "dance"`},
		{command{Do: mapNoop, N: 1}, "send start first"},
		{command{Do: "usage"}, "no scheduler"},
		{command{Do: "release"}, "no client started"},
		{command{Do: "zero", Address: "pigeon://coop", Workers: 1, Threads: 1}, "pigeon"},
		{command{Do: "profile", Path: "/nowhere/x"}, "nowhere"},
	} {
		if _, err := p.ask(ctx, tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.c, err, tc.want)
		}
	}
	if err := otherProcesses(answer{Pid: 1, Pids: []int{1, 2}}, 2); err == nil {
		t.Error("a worker in the client's process is taken")
	}
}

// Fetches are compared with package ucx where that is measured.
func TestFetchAgainstUCX(t *testing.T) {
	raw := func(context.Context, int64) (float64, error) { return 2.5, nil }
	var names []string
	for _, f := range run(t, Programs{Go: goStarter, RawHost: raw}, Options{Cases: []string{fetch, clientFetch}}) {
		if f.Peer == RawPeer {
			names = append(names, f.Case+"/"+f.Setting)
			if f.Theirs != 2.5 || f.Bar == nil {
				t.Errorf("got %+v, want 2.5 GB/s of the peer and a target", f)
			}
		}
	}
	if want := []string{"fetch/idle", "client-fetch/first", "client-fetch/next"}; !slices.Equal(names, want) {
		t.Errorf("figures with the peer: got %q, want %q", names, want)
	}
}
