package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// The workers of dask-cuda under our scheduler: `dask cuda worker` with two devices, which it does not find here and
// says so, while everything else of it is real: nannies, its preload, its plugins and its questions. dask-cuda has a
// switch of its own for tests without devices.
func TestSchedulerDaskCUDA(t *testing.T) {
	set := rig.Current()
	if set.Protocol == "ucxx" {
		set.Protocol = "tcp" // over UCX dask-cuda wants its CUDA context first of all
	}
	r := rig.With(t, set)
	s := r.Scheduler()
	cuda := r.Sub(t)
	cuda.Env = []string{"CUDA_VISIBLE_DEVICES=0,1", "DASK_CUDA_TEST_DISABLE_DEVICE_SPECIFIC=1"}
	p := cuda.DaskCUDAWorker(s.Address, 2, "--name", "gpu", "--resources", "GPU=1", "--pre-import", "colorsys")
	r.Python(s.Address, "cuda_workers.py", r.Protocol)
	if t.Failed() {
		return
	}
	if err := p.Wait(); err != nil {
		t.Errorf("dask cuda worker ended with %v after its workers were retired", err)
	}
}
