package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// The rig's own processes: Dask with Dask.
func TestRig(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	w := r.DaskWorker(s.Address, "--nthreads", "2")
	res := r.Script(s.Address, `
check("submit", client.submit(lambda x: x + 1, 1).result(), 2)
check("workers", list(client.scheduler_info()["workers"]), [args[0]])
raises("error", ZeroDivisionError, client.submit(operator.truediv, 1, 0).result, "by zero")
tell("release", distributed.__version__)
`, w.Address)
	if len(res.Checks) != 3 {
		t.Errorf("%d checks were made", len(res.Checks))
	}
	if want := r.Release; want != "" && res.Values["release"] != want {
		t.Errorf("Python runs %v, want %s", res.Values["release"], want)
	}
}
