package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// Every method of Dask's client that needs no graph, one by one: it works, or says in words that it is not there.
func TestSchedulerOps(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler("--dashboard-address", "127.0.0.1:0")
	r.DaskWorker(s.Address, "--nthreads", "2", "--nanny")
	if res := r.Python(s.Address, "scheduler_ops.py"); len(res.Checks) < 100 {
		t.Errorf("%d checks were made", len(res.Checks))
	}
}

// Shuffles and rechunks of unmodified collections, and what else clients and tasks ask of a scheduler while they
// compute.
func TestSchedulerP2P(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	for range 3 {
		r.DaskWorker(s.Address, "--nthreads", "2")
	}
	r.Python(s.Address, "scheduler_tasks.py")
	if res := r.Python(s.Address, "scheduler_p2p.py"); res.Values["victim"] == nil {
		t.Error("no worker was lost in the middle of a shuffle")
	}
}

// The dashboard shows tasks, transfers and failures of Dask workers.
func TestSchedulerDashboard(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler("--dashboard-address", "127.0.0.1:0")
	for range 2 {
		r.DaskWorker(s.Address, "--nthreads", "1")
	}
	if res := r.Python(s.Address, "dashboard.py"); len(res.Checks) < 20 {
		t.Errorf("%d checks were made", len(res.Checks))
	}
}
