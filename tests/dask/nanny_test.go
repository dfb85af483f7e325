package dask

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

const nannyPreload = `
import os
import click

@click.command()
@click.option("--value", type=int, default=0)
def dask_setup(nanny, value):
    nanny.preloaded = value
    nanny.env["FROM_PRELOAD"] = str(value)
    os.environ["FROM_ENVIRON"] = "yes"

def dask_teardown(nanny):
    print("preload torn down", type(nanny).__name__, flush=True)
`

// Nanny plugins, run(nanny=True), preloads of nannies, UploadDirectory and PipInstall have the same results with Dask's
// nannies and with Go nannies, under the same scheduler.
func TestNannyPlugins(t *testing.T) {
	for _, kind := range []string{"dask", "go"} {
		t.Run(kind, func(t *testing.T) {
			r := rig.New(t)
			r.Env = []string{"DASK_DISTRIBUTED__NANNY__PRELOAD_ARGV=['--value', '7']"}
			s := r.Scheduler()
			preload := filepath.Join(t.TempDir(), "pre_nanny.py")
			if err := os.WriteFile(preload, []byte(nannyPreload), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{"--name", "w", "--nanny", "--preload-nanny", preload, "--local-directory", t.TempDir()}
			var w *rig.Process
			if kind == "dask" {
				w = r.DaskWorker(s.Address, args...)
			} else {
				w = r.Worker(s.Address, args...)
			}
			r.Python(s.Address, "nannies.py", t.TempDir())
			<-w.Done()
			if log := w.Log(); !strings.Contains(log, "preload torn down Nanny") {
				t.Errorf("log of the nanny: no dask_teardown in\n%s", log)
			}
		})
	}
}

// A plugin that is registered before a nanny joins is set up before its worker starts.
func TestNannyPluginsLater(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	r.Script(s.Address, `
from distributed.diagnostics.plugin import Environ
check("no nanny", client.register_plugin(Environ({"EARLY": "1"})), {})
`)
	r.Worker(s.Address, "--nanny")
	r.Script(s.Address, `
import os
check("plugin of a nanny that joins", list(client.run(lambda: os.environ.get("EARLY")).values()), ["1"])
check("plugins", list(client.run(lambda dask_worker: len(dask_worker.plugins), nanny=True).values()), [1])
`)
}
