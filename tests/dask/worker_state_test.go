package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// Code on a Go worker sees the attributes that Worker and WorkerState have in Dask, with the tasks of the worker.
func TestWorkerSidecarState(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	theirs := r.DaskWorker(s.Address, "--name", "theirs")
	ours := r.Worker(s.Address, "--name", "ours")
	r.Python(s.Address, "worker_state.py", theirs.Address, ours.Address)
}
