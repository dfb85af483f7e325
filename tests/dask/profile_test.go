package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// Profiles and call stacks of an unmodified client have the form of Dask's and show the functions of tasks, with Dask
// workers, Go workers that run Python tasks, and Go functions.
func TestProfile(t *testing.T) {
	r := rig.New(t)
	profiles(r, r.Scheduler(), "millstream")
}

// The same checks with Dask's own scheduler.
func TestProfileDaskScheduler(t *testing.T) {
	r := rig.New(t)
	profiles(r, r.DaskScheduler(), "dask")
}

func profiles(r *rig.Rig, s *rig.Process, kind string) {
	py := r.DaskWorker(s.Address, "--nthreads", "2")
	g := r.Worker(s.Address, "--nthreads", "2", "--python", r.Interpreter)
	r.Python(s.Address, "profile.py", kind, py.Address, g.Address)
}
