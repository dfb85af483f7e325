package commbench

import (
	"context"
	"os"
	"testing"
	"time"

	"go.millstream.dev/bench/internal/benchtest"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
)

// TestMain is also the Go process of a pair.
func TestMain(m *testing.M) {
	benchtest.Role(map[string]benchtest.Serve{"peer": commpeer.Serve})
	os.Exit(m.Run())
}

var goStarter = benchtest.Self("peer")

func run(t *testing.T, p Programs, o Options) benchfmt.Figures {
	t.Helper()
	o.Quick, o.Rounds, o.RoundTime, o.IdleTime, o.echo = true, 1, 10*time.Millisecond, 200*time.Millisecond, 4<<20
	return benchtest.Figures(t, &o, func(ctx context.Context, sink benchfmt.Sink) error {
		return Run(ctx, p, o, sink, nil)
	})
}

// Every case over every setting gives one figure.
func TestGo(t *testing.T) {
	got := run(t, Programs{Go: goStarter}, Options{})
	// Two cases in each of four settings, and the idle listener in three.
	if len(got) != 11 {
		t.Errorf("%d figures: %+v", len(got), got)
	}
	for _, f := range got {
		if f.Peer != "" || f.Ours <= 0 && f.Case != "idle-cpu" {
			t.Errorf("%+v", f)
		}
	}
}

// Settings with a number of stripes are measured by name, and their messages arrive.
func TestStripes(t *testing.T) {
	got := run(t, Programs{Go: goStarter}, Options{Cases: []string{"echo-100MiB"},
		Settings: []string{"ucxx-tcp-1", "ucxx-tcp-4"}})
	if len(got) != 2 {
		t.Errorf("got %d figures, want 2: %+v", len(got), got)
	}
	for _, f := range got {
		if f.Ours <= 0 {
			t.Errorf("%+v", f)
		}
	}
}

// With a peer each figure has its number, also between Go and Python.
func TestAgainstDask(t *testing.T) {
	python, err := benchpeer.FindProgram(PeerName, benchpeer.ScriptComm, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer python.Close()
	programs := Programs{Go: goStarter, Python: python.Start}
	got := run(t, programs, Options{Peer: true, Mixed: true, Cases: []string{"small-rtt", "echo-100MiB"},
		Settings: []string{"tcp"}})
	if len(got) != 6 {
		t.Errorf("%d figures: %+v", len(got), got)
	}
	for _, f := range got {
		if f.Peer != PeerName || f.Theirs <= 0 || f.Ours <= 0 {
			t.Errorf("%+v", f)
		}
	}
}

func TestOptions(t *testing.T) {
	benchtest.Rejects(t, &Options{Cases: []string{"x"}}, &Options{Settings: []string{"x"}}, &Options{Rounds: -1})
	o := Options{}
	if err := o.Complete(); err != nil || o.Rounds != 5 || len(o.Cases) != 3 || len(o.Settings) != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}
