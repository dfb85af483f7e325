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

// Functions on the scheduler see its state and call its methods as those of Dask's scheduler.
func TestSchedulerFacade(t *testing.T) {
	for name, args := range map[string][]string{
		"dashboard": {"--dashboard-address", "127.0.0.1:0"}, "no dashboard": {"--no-dashboard"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig.New(t)
			s := r.Scheduler(args...)
			for range 2 {
				r.DaskWorker(s.Address, "--nthreads", "1", "--resources", "A=2")
			}
			if res := r.Python(s.Address, "facade.py"); len(res.Checks) < 50 {
				t.Errorf("%d checks were made", len(res.Checks))
			}
		})
	}
}

// Scheduler plugins of a client receive events and messages, and neither stop nor slow the scheduler.
func TestSchedulerPlugins(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	for range 2 {
		r.DaskWorker(s.Address, "--nthreads", "1")
	}
	if res := r.Python(s.Address, "scheduler_plugins.py"); len(res.Checks) < 40 {
		t.Errorf("%d checks were made", len(res.Checks))
	}
}

// The memory of the cluster and dumps of its state, with Dask workers and with ours.
func TestClusterState(t *testing.T) {
	for name, start := range map[string]func(r *rig.Rig, scheduler string){
		"dask": func(r *rig.Rig, scheduler string) { r.DaskWorker(scheduler, "--nthreads", "1") },
		"go": func(r *rig.Rig, scheduler string) {
			r.Worker(scheduler, "--nthreads", "1", "--python", r.Interpreter)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rig.New(t)
			s := r.Scheduler()
			for range 2 {
				start(r, s.Address)
			}
			if res := r.Python(s.Address, "cluster_state.py"); len(res.Checks) < 60 {
				t.Errorf("%d checks were made", len(res.Checks))
			}
		})
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
