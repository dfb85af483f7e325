package dask

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// A SpecCluster, which every cluster manager of distributed.deploy is built on, scales, adapts and closes around our
// scheduler.
func TestSchedulerSpecCluster(t *testing.T) {
	r := rig.New(t)
	r.Python(r.Scheduler().Address, "spec_cluster.py")
}
