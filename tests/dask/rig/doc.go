// Package rig starts what the tests of Millstream among Dask's processes need: Dask's own scheduler and workers
// as their commands start them, Python programs that are clients, and our own scheduler, workers and clients, in
// this process or as processes of the test's binary.
//
//	func TestMain(m *testing.M) { rig.Main(m) }
//
//	func TestSubmit(t *testing.T) {
//		r := rig.New(t)
//		s := r.Scheduler()                         // millstream scheduler
//		r.DaskWorker(s.Address, "--nthreads", "2") // dask worker
//		r.Script(s.Address, `check("submit", client.submit(lambda x: x + 1, 1).result(), 2)`)
//		r.Python(s.Address, "arrays.py")           // tests/dask/peers/arrays.py
//	}
//
// Everything ends with the test. What a process wrote to its log is shown when the test fails; LOUD=1 shows it at
// once.
//
// # Settings
//
// MILLSTREAM_DASK_PROTOCOL (tcp, tls, ucxx; default tcp) and MILLSTREAM_DASK_RELEASE (a release of
// tests/interop/dask-versions.txt; default the one of the peers' environment) choose under what all tests of a
// binary run; rig.With chooses for one. Over ucxx the whole binary runs in a network namespace of its own, because
// Dask's UCX listeners bind the wildcard address.
package rig
