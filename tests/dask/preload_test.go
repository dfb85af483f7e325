package dask

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/tests/dask/rig"
)

const schedulerPreload = `
import click

@click.command()
@click.option("--value", type=int, default=0)
def dask_setup(scheduler, value):
    scheduler.preloaded = value
    scheduler.handlers["preloaded"] = lambda: {"value": value, "type": scheduler.type}

def dask_teardown(scheduler):
    print("preload torn down", len(scheduler.workers), flush=True)
`

const workerPreload = `
def dask_setup(worker):
    worker.preloaded = worker.name
    print("preload of", worker.name, flush=True)
`

// Preloaded modules run in the Python processes of the scheduler and of Go workers: at the start, with their arguments,
// and again in a new process.
func TestPreload(t *testing.T) {
	r := rig.New(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s := r.Scheduler("--preload", write("pre.py", schedulerPreload), "--preload-argv=--value", "--", "7")
	w := r.Worker(s.Address, "--name", "w", "--preload", write("pre_worker.py", workerPreload))
	for end := time.Now().Add(rig.Patience); !strings.Contains(w.Log(), "preload of w"); {
		if time.Now().After(end) {
			t.Fatal("the preload of the worker has not run without a task")
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.Script(s.Address, `
from checks import until

value = lambda: client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.preloaded)
check("dask_setup", value(), 7)
check("handler", client.sync(client.scheduler.preloaded), {"value": 7, "type": "Scheduler"})
check("worker", list(client.run(lambda dask_worker: dask_worker.preloaded).values()), ["w"])
raises("crash", Exception, lambda: client.run_on_scheduler(lambda: __import__("os")._exit(3)))

def again():
    try:
        return value() == 7
    except Exception:
        return False  # the process has not ended yet

until("in a new process", again)
client.shutdown()
`)
	<-s.Done()
	if log := s.Log(); !strings.Contains(log, "preload torn down") {
		t.Errorf("log of the scheduler: no dask_teardown in\n%s", log)
	}
}
