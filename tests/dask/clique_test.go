package dask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/clique/native"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

// Functions of ranks that the programs below run.
var (
	cliqueTotal = clique.Func("clique.total",
		func(ctx context.Context, r *clique.Rank, in []float64) ([]float64, error) {
			out := make([]float64, len(in))
			return out, r.Do(ctx, clique.AllReduce(clique.Of(in), clique.Of(out), clique.Sum))
		})
	_ = clique.Func("clique.fails", func(ctx context.Context, r *clique.Rank, who int) (int, error) {
		if r.Rank() == who {
			return 0, errors.New("no luck")
		}
		return r.Rank(), r.Do(ctx, clique.Barrier())
	})
)

// cliqueWorkers starts Go workers of a scheduler.
func cliqueWorkers(r *rig.Rig, scheduler string, n int) {
	for i := range n {
		r.StartWorker(scheduler, worker.Config{Threads: 1, Name: fmt.Sprintf("go-%d", i)})
	}
}

// A Go client forms a clique of Go workers in a cluster of Dask's.
func TestCliqueOnDask(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--nthreads", "1")
	cliqueWorkers(r, s.Address, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	c := r.Client(s.Address)
	q, err := clique.Form(ctx, c, clique.Options{Workers: []string{"go-0", "go-1", "go-2"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := cliqueTotal.Run(ctx, q, [][]float64{{1}, {2}, {4}})
	if err != nil || len(out) != 3 || out[0][0] != 7 || out[2][0] != 7 {
		t.Errorf("%v, %v", out, err)
	}
	if err := q.Dissolve(ctx); err != nil {
		t.Error(err)
	}
	// A worker of Python's cannot be a rank: the error says which, and nothing is left behind.
	if _, err := clique.Form(ctx, c, clique.Options{}); err == nil {
		t.Error("a worker of Python's has become a rank")
	}
}

// mock compiles the algorithm of package native and tells workers of this process where it is.
func mock(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"millstream_native.h": native.Header, "sums.cpp": native.MockSource} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("c++", "-shared", "-fPIC", "-O1", "-o", filepath.Join(dir, "libsums.so"),
		filepath.Join(dir, "sums.cpp"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv(native.PathVariable, dir)
}

// A Python client forms cliques of Go workers, runs functions of Go's and of a shared library on all ranks, and gets
// results and errors, on Dask's scheduler and on ours.
func TestCliqueFromPython(t *testing.T) {
	for _, ours := range []bool{false, true} {
		t.Run(fmt.Sprintf("ours=%t", ours), func(t *testing.T) {
			r := rig.New(t)
			mock(t)
			var s *rig.Process
			if ours {
				s = r.Scheduler()
			} else {
				s = r.DaskScheduler()
			}
			cliqueWorkers(r, s.Address, 3)
			r.Script(s.Address, cliqueScript)
		})
	}
}

const cliqueScript = `
client.wait_for_workers(3)
q = millstream.clique(client, name="py")
check("size", (q.size, [m.rank for m in q.members], q.id[:3]), (3, [0, 1, 2], "py-"))
check("order", q.workers, sorted(q.workers))
check("workers", set(q.workers), set(client.ncores()))
out = q.run("clique.total", [np.array([1.0, 1.0]), np.array([2.0, 1.0]), np.array([4.0, 1.0])])
check("total", [list(x) for x in out], [[7.0, 3.0]] * 3)
f = q.submit("clique.total", [[1.0], [2.0], [3.0]])
check("futures are inputs", [list(x) for x in q.run(millstream.go("clique.total"), f)], [[18.0]] * 3)
raises("too few", ValueError, lambda: q.run("clique.total", [[1.0]]), "1 inputs for 3 ranks")

columns = [[np.arange(10.0), np.ones(10)] for _ in range(3)]
out = q.run("millstream.clique.native", columns, "libsums.so:sums", "")
check("native: rank 0 has the sums", [[list(c) for c in r] for r in out], [[[135.0], [30.0]], [], []])
raises("a library elsewhere", millstream.CliqueError, lambda: q.run("millstream.clique.native", columns, "../libsums.so:sums", ""), "without a folder")
q = q.reform()
check("reformed", q.size, 3)

try:
    q.run("clique.fails", [1, 1, 1])
    check("it failed", False, True)
except millstream.CliqueError as e:
    check("who failed", sorted(e.ranks), [0, 1, 2])
    check("they name the rank", all("rank 1 (" in str(e.ranks[r]) and "no luck" in str(e.ranks[r]) for r in (0, 2)), True)
q2 = q.reform()
check("goes on", [list(x) for x in q2.run("clique.total", [[1.0]] * 3)], [[3.0]] * 3)
q2.dissolve()
raises("dissolved", millstream.CliqueError, lambda: q2.run("clique.total", [[1.0]] * 3), "no part in this clique")
raises("unknown worker", millstream.CliqueError, lambda: millstream.clique(client, workers=["tcp://127.0.0.1:1"]), "no such worker")
with millstream.clique(client, workers=q.workers[:2], backend="comm") as two:
    check("two", [list(x) for x in two.run("clique.total", [[1.0]] * 2)], [[2.0]] * 2)
`

// The notebook of the helper package: a Dask DataFrame in, a native algorithm on all ranks, a Dask DataFrame out.
func TestCliqueNotebook(t *testing.T) {
	r := rig.New(t)
	mock(t)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--nthreads", "1")
	cliqueWorkers(r, s.Address, 2)
	r.Python(s.Address, "notebook.py", filepath.Join(rig.Root(), "python", "notebooks", "clique.ipynb"))
}
