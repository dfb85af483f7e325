package dask

import (
	"regexp"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

// The life of a worker without Python in a cluster of Dask's: where tasks go once the plugin is installed, broadcasts,
// replicas, stealing, pausing, the dashboard, and retiring. At the end Dask's scheduler has no error to tell of.
func TestWorkerLife(t *testing.T) {
	r := rig.New(t)
	without := r.Sub(t)
	without.Env = []string{"PYTHONPATH=" + rig.Root() + "/tests/dask/peers",
		"DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING_INTERVAL=50ms"}
	s := without.DaskScheduler()
	py := without.DaskWorker(s.Address, "--nthreads", "1")
	a := r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-a", Dashboard: "127.0.0.1:0",
		MemoryLimit: 1 << 30})
	b := r.StartWorker(s.Address, worker.Config{Threads: 1, Name: "go-b", MemoryLimit: 1 << 30,
		Resources: map[string]float64{"b": 1}})
	m := regexp.MustCompile(`dashboard at: +http://([^/\s]+)`).FindStringSubmatch(s.Log())
	if m == nil {
		t.Fatalf("no dashboard in\n%s", s.Log())
	}
	r.Python(s.Address, "goworker.py", m[1], py.Address, a.Address(), b.Address())
	if t.Failed() {
		return
	}
	select {
	case <-b.Done(): // it was retired
	case <-r.Context.Done():
		t.Error("the worker that was retired has not ended")
	}
	for _, line := range strings.Split(s.Log(), "\n") {
		if strings.Contains(line, "ERROR") || strings.Contains(line, "CRITICAL") {
			t.Errorf("Dask's scheduler: %s", line)
		}
	}
}

// Client.restart of a worker with a nanny: another process takes its place.
func TestWorkerNanny(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	w := r.Worker(s.Address, "--nanny", "--no-python", "--name", "go-0")
	r.Script(s.Address, `
upper = millstream.go("upper")
def workers(): return client.scheduler_info(n_workers=-1)["workers"]
check("it has a nanny", workers()[args[0]]["nanny"], lambda v: v is not None and v != args[0])
f = client.submit(upper, "a", resources={"go": 1})
check("before", f.result(), "A")
client.restart(timeout=120)
check("another process", set(workers()) != {args[0]} and len(workers()) == 1)
check("after", client.submit(upper, "b", resources={"go": 1}).result(), "B")
[address] = workers()
check("one of them", client.restart_workers([address], timeout=120), {address: "OK"})
check("after that", client.submit(upper, "c", resources={"go": 1}).result(), "C")
check("logs of nannies", any("killed" in line for log in client.get_worker_logs(nanny=True).values() for _, line in log))
class Plugin(distributed.NannyPlugin):
    def setup(self, nanny): pass
raises("plugins for nannies", NotImplementedError, lambda: client.register_plugin(Plugin(), name="p"), "use a WorkerPlugin")
# The release of the last result goes another way; until it has come there is data that can go nowhere, and the worker stays.
until("retired, and not replaced", lambda: (client.retire_workers(list(workers())), not workers())[1])
`, w.Address)
	if err := w.Wait(); err != nil {
		t.Errorf("the nanny ended with %v", err)
	}
}
