package comms

import (
	"path/filepath"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// daskRig returns a rig whose processes have the library.
func daskRig(t *testing.T, dir string) *rig.Rig {
	t.Helper()
	r := rig.New(t)
	r.Env = append(r.Env, "MILLSTREAM_LIBRARY="+filepath.Join(dir, "libmillstream.so"))
	return r
}

// testDask: communicators of four Python workers in a cluster of Dask processes.
func testDask(t *testing.T, dir string) {
	for program, part := range map[string]string{"comms_forms.py": "forms", "comms.py": "everything"} {
		t.Run(part, func(t *testing.T) {
			r := daskRig(t, dir)
			s := r.DaskScheduler()
			for range 4 {
				r.DaskWorker(s.Address)
			}
			r.Python(s.Address, program, part)
		})
	}
}

// testReplaced: ranks are killed in collectives, their nannies start others, and the communicator is formed again.
// MILLSTREAM_COMMS_ROUNDS is the number of deaths.
func testReplaced(t *testing.T, dir string) {
	r := daskRig(t, dir)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--nanny", "--nworkers", "4")
	r.Python(s.Address, "comms_forms.py", "replaced")
}

// testOurScheduler: the same through a Millstream scheduler, in short.
func testOurScheduler(t *testing.T, dir string) {
	r := daskRig(t, dir)
	s := r.Scheduler()
	for range 2 {
		r.DaskWorker(s.Address)
	}
	r.Python(s.Address, "comms.py", "short")
}

// testLearn: KMeans, PCA and LinearRegression on dask arrays of three Python workers.
func testLearn(t *testing.T, dir string) {
	r := daskRig(t, dir)
	s := r.DaskScheduler()
	for range 3 {
		r.DaskWorker(s.Address)
	}
	golden := filepath.Join(rig.Root(), "frame", "kmeans", "testdata", "golden.json")
	if res := r.Python(s.Address, "learn.py", golden); len(res.Checks) < 150 {
		t.Errorf("got %d checks, want all", len(res.Checks))
	}
}
