package dask

import (
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// Go workers with sidecars take the place of Dask's own: collections, shuffles, nested
// clients, actors, plugins, all on workers that are Go's.
func TestWorkerSidecar(t *testing.T) {
	r := rig.New(t)
	sidecars(r, r.DaskScheduler())
}

// The same under our scheduler: nothing of Dask's but what the user imports.
func TestSchedulerSidecar(t *testing.T) {
	r := rig.New(t)
	sidecars(r, r.Scheduler())
}

func sidecars(r *rig.Rig, s *rig.Process) {
	for range 2 {
		r.Worker(s.Address, "--nthreads", "2", "--python", r.Interpreter)
	}
	r.Python(s.Address, "sidecar.py", "2")
}

// Sidecars die under load, by SIGKILL and by tasks that end their process: the results are
// right, and a task that kills whoever runs it ends as Dask says.
func TestWorkerSidecarKilled(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	for range 2 {
		r.Worker(s.Address, "--nthreads", "2", "--python", r.Interpreter)
	}
	r.Script(s.Address, `
import os, signal
def slow(i):
    time.sleep(0.05)
    return np.full(1000, i)
futures = client.map(slow, range(40))
for n in range(4):
    time.sleep(0.3)
    pids = sorted(client.run(os.getpid).values())
    os.kill(pids[n % 2], signal.SIGKILL)
check("results", [int(x[0]) for x in client.gather(futures)], list(range(40)))
total = client.submit(lambda xs: int(sum(x.sum() for x in xs)), futures)
check("sum", total.result(60), 780000)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
raises("killer", distributed.KilledWorker, client.submit(die).result, "die")
check("after that", client.submit(lambda: 1).result(60), 1)
`)
}

// Exceptions that end a process end the sidecar, never the client's event loop, wherever the code runs.
func TestWorkerSidecarExits(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	r.Worker(s.Address, "--nthreads", "2", "--python", r.Interpreter)
	r.Script(s.Address, `
import asyncio, sys
def generator_exit():
    raise GeneratorExit
def cancelled():
    raise asyncio.CancelledError
raises("sys.exit", distributed.KilledWorker, client.submit(sys.exit, 3).result, "exit")
check("GeneratorExit", type(client.submit(generator_exit).exception(60)), GeneratorExit)
check("CancelledError", type(client.submit(cancelled).exception(60)), asyncio.CancelledError)
try:
    client.run(sys.exit)
    check("client.run(sys.exit)", "no error", "an error")
except Exception as e:
    check("client.run(sys.exit)", "died" in str(e), True)
try:
    client.run_on_scheduler(sys.exit)
    check("run_on_scheduler(sys.exit)", "no error", "an error")
except Exception as e:
    check("run_on_scheduler(sys.exit)", "SystemExit" in repr(e), True)
check("after that", client.submit(lambda: 1).result(60), 1)
check("and on the scheduler", client.run_on_scheduler(lambda: 2), 2)
`)
}

// Without Python a worker refuses such tasks in words.
func TestWorkerWithoutPython(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	w := r.Worker(s.Address, "--no-python")
	r.Script(s.Address, `
raises("task", RuntimeError, client.submit(lambda: 1).result, "--no-python")
`)
	if log := w.Log(); strings.Contains(log, "panic") {
		t.Error(log)
	}
}

// Tasks and values are unpickled by one thread at a time, as in Dask's workers: classes that look an object up and add
// it when it is missing, as dask.utils.SerializableLock does, have one object for each name.
func TestWorkerSidecarUnpickling(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	r.Worker(s.Address, "--nthreads", "4", "--python", r.Interpreter)
	r.Script(s.Address, `
class Once:
    def __init__(self, token):
        import dask, time
        self.token, known = token, dask.__dict__.setdefault("known_tokens", {})
        if token not in known:
            time.sleep(0.2)  # the others are in time to find nothing
            known[token] = object()
        self.value = known[token]
    def __reduce__(self):
        return Once, (self.token,)
def identity(once, i):
    return id(once.value)
for n in range(3):
    futures = [client.submit(identity, Once(f"task-{n}"), i, pure=False) for i in range(8)]
    check("objects of one token in tasks", len(set(client.gather(futures))), 1)
    values = client.scatter([Once(f"value-{n}") for _ in range(8)], hash=False)
    futures = client.map(identity, values, range(8), pure=False)
    check("objects of one token in values", len(set(client.gather(futures))), 1)
`)
}
