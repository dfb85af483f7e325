package dask

import (
	"os"
	"path/filepath"
	"testing"

	"go.millstream.dev/secure"
	"go.millstream.dev/tests/dask/rig"
)

// A SpecCluster, which every cluster manager of distributed.deploy is built on, scales, adapts and closes around our
// scheduler.
func TestSchedulerSpecCluster(t *testing.T) {
	r := rig.New(t)
	r.Python(r.Scheduler().Address, "spec_cluster.py")
}

// Clusters of the Python package start our scheduler as their own.
func TestDeployScheduler(t *testing.T) {
	r := rig.New(t)
	command, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	certs := t.TempDir()
	if _, err := ca.WriteFiles(certs); err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(rig.Root(), "internal", "dask", "python")
	if res := r.Python("", "deploy.py", modules, command, certs); len(res.Checks) < 14 {
		t.Errorf("%d checks were made", len(res.Checks))
	}
}
