package dask

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/tests/dask/rig"
)

// Every release of Dask that is supported, in short: our scheduler under its client and worker, our worker and client
// with its scheduler. `make interop` runs all tests with each of them.
func TestReleases(t *testing.T) {
	releases := rig.Releases(t)
	if len(releases) < 6 {
		t.Errorf("%d releases are listed, want six at least", len(releases))
	}
	pins, err := os.ReadFile(filepath.Join(rig.Root(), "tests", "interop", "requirements.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range releases {
		if strings.Contains(string(pins), "\ndistributed=="+release+"\n") {
			continue // the peers' own: all tests run with it
		}
		t.Run(release, func(t *testing.T) {
			r := rig.With(t, rig.Setting{Protocol: "tcp", Release: release})
			if r.Older("2025.7.0") {
				refuseRelease(t, r)
			} else {
				serveRelease(r)
			}
			joinRelease(r)
		})
	}
}

// refuseRelease is our scheduler, with a client and a worker that it does not serve: they end at once, and say why.
func refuseRelease(t *testing.T, old *rig.Rig) {
	r := rig.With(t, rig.Setting{Protocol: "tcp"})
	s := r.Scheduler("--no-python")
	for name, args := range map[string][]string{
		"client": {"-c", "import sys, distributed; distributed.Client(sys.argv[1], timeout='60s').scheduler_info()",
			s.Address},
		"worker": {"-m", "distributed.cli.dask_worker", s.Address, "--host", "127.0.0.1", "--dashboard-address",
			"127.0.0.1:0", "--no-nanny"},
	} {
		cmd := exec.CommandContext(old.Context, old.Interpreter, args...)
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if want := "has Dask " + old.Release + ", and Millstream works with 2025.7.0 to"; err == nil ||
			!strings.Contains(string(out), want) {
			t.Errorf("a %s of %s: %v, and it does not say %q:\n%s", name, old.Release, err, want, out)
		}
		if want := name + " "; !strings.Contains(s.Log(), want) || !strings.Contains(s.Log(), "has Dask "+old.Release) {
			t.Errorf("the scheduler's log does not name the %s:\n%s", name, s.Log())
		}
	}
}

// serveRelease is our scheduler, with Python's client and worker.
func serveRelease(r *rig.Rig) {
	s := r.Scheduler()
	r.DaskWorker(s.Address)
	res := r.Script(s.Address, `
check("submit", client.submit(lambda x: x + 1, 1).result(), 2)
check("map", client.gather(client.map(operator.neg, range(20))), [-i for i in range(20)])
x = da.arange(1000, chunks=100)
check("array", int((x + 1).sum().compute()), 500500)
raises("error", ZeroDivisionError, client.submit(operator.truediv, 1, 0).result, "by zero")
tell("release", distributed.__version__)
`)
	if res.Values["release"] != r.Release {
		r.Errorf("Python's client is of %v, want %s", res.Values["release"], r.Release)
	}
	s.Stop()
}

// joinRelease is Python's scheduler, with our worker and client.
func joinRelease(r *rig.Rig) {
	s := r.DaskScheduler()
	r.Worker(s.Address)
	c := r.Client(s.Address)
	f := client.Python[int64]("operator:add").Submit(r.Context, c, 40, 2)
	v, err := f.Result(r.Context)
	if err != nil || v != 42 {
		r.Errorf("operator:add gave %d, %v", v, err)
	}
	f.Release()
}
