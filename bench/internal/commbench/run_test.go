package commbench

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/commpeer"
)

// TestMain is also the Go process of a pair.
func TestMain(m *testing.M) {
	if os.Getenv("MILLSTREAM_COMMBENCH_PEER") != "" {
		if err := commpeer.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func goStarter(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(cmd.Environ(), "MILLSTREAM_COMMBENCH_PEER=1")
	return cmd
}

func run(t *testing.T, p Programs, o Options) benchfmt.Figures {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	o.Quick, o.Rounds, o.RoundTime, o.IdleTime, o.echo = true, 1, 10*time.Millisecond, 200*time.Millisecond, 4<<20
	if err := o.Complete(); err != nil {
		t.Fatal(err)
	}
	var got benchfmt.Figures
	if err := Run(ctx, p, o, &got, nil); err != nil {
		t.Fatal(err)
	}
	return got
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

// With a peer each figure has its number beside ours, also where Go and Python talk.
func TestAgainstDask(t *testing.T) {
	python, script, err := benchpeer.FindPython(PeerName, "tests/interop/peers/bench_comm.py", os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	programs := Programs{Go: goStarter, Python: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, python, script)
	}}
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
	for _, o := range []Options{{Cases: []string{"x"}}, {Settings: []string{"x"}}, {Rounds: -1}} {
		if err := o.Complete(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	o := Options{}
	if err := o.Complete(); err != nil || o.Rounds != 5 || len(o.Cases) != 3 || len(o.Settings) != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}
