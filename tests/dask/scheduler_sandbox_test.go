package dask

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/tests/dask/rig"
)

// opening is the part of the programs below that runs something while a graph is opened, and returns its result.
const opening = `
import cloudpickle, os, socket, sys, time
from dask import delayed

cloudpickle.register_pickle_by_value(sys.modules["__main__"])


class Opened:
    """What is left of it after a graph was opened is the result of a function, which ran there."""

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def while_opening(client, function, *args):
    future = client.compute(delayed(lambda v: v, pure=False)(delayed(Opened(function, *args), pure=False)))
    return future.result(timeout=180)

`

// Graphs are opened without a network; what clients run on the scheduler has that of the host, and an environment to
// work in. Neither sees the scheduler's keys or its journal.
func TestSchedulerSandbox(t *testing.T) {
	r := rig.New(t)
	packages := t.TempDir()
	// As CuPy does: a cache is made at import, and no import without it.
	writer := `
import os, pathlib, tempfile
cache = os.path.join(os.path.expanduser("~"), ".writer", "cache")
os.makedirs(cache, exist_ok=True)
open(os.path.join(cache, "kernel"), "w").write("x")
for name in ("XDG_CACHE_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR"):
    if name in os.environ:
        pathlib.Path(os.environ[name], "file").write_text("x")
tempfile.mkdtemp()

class Thing:
    value = 7
`
	if err := os.WriteFile(filepath.Join(packages, "writes_at_import.py"), []byte(writer), 0o644); err != nil {
		t.Fatal(err)
	}
	for dir := packages; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	home := t.TempDir()
	r.Env = append(r.Env, "PYTHONPATH="+rig.Root()+"/internal/dask/python:"+rig.Root()+"/tests/dask/peers:"+packages,
		"TZ=Asia/Tokyo",
		"HOME="+home)
	journal, secret := t.TempDir(), filepath.Join(t.TempDir(), "scheduler.json")
	s := r.Scheduler("--journal", journal, "--scheduler-file", secret)
	r.DaskWorker(s.Address)
	r.Script(s.Address, opening+`

def serve():
    import socket, threading
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen()
    def answer():
        c, _ = s.accept()
        c.sendall(b"hello")
        c.close()
    threading.Thread(target=answer, daemon=True).start()
    return s.getsockname()[1]

def reach(port):
    import socket
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
        return "connected"
    except OSError as e:
        return "refused"

def look(path):
    import os
    found = []
    for folder, _, files in os.walk(path):
        found += files
    try:
        open(os.path.join(path, "evil"), "w").close()
        found.append("evil")
    except OSError:
        pass
    return found

def read(path):
    try:
        return open(path).read()
    except OSError as e:
        return ""

def environment():
    import os, shutil, tempfile, time
    tempfile.mkdtemp()
    open(os.path.expanduser("~/file"), "w").write("x")
    return {"sh": shutil.which("sh") is not None, "python": shutil.which("python3") is not None or shutil.which("python") is not None,
            "lang": os.environ["LANG"].lower().replace("-", "").endswith("utf8"), "tz": time.tzname[0], "home": os.path.expanduser("~")}

def main(client):
    journal, secret, home = sys.argv[2:5]
    port = client.run_on_scheduler(serve)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as c:
        check("a port that run_on_scheduler listens on", c.recv(5), b"hello")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        here = s.getsockname()[1]
        check("network of a graph", while_opening(client, reach, here), "refused")
        check("network of run_on_scheduler", client.run_on_scheduler(reach, here), "connected")
    env = client.run_on_scheduler(environment)
    check("PATH", (env["sh"], env["python"]), (True, True))
    check("LANG", env["lang"])
    check("TZ", env["tz"], "JST")
    check("HOME", env["home"] != home)
    check("home outside", os.listdir(home), lambda g: "file" not in g and ".writer" not in g)
    for kind, ask in (("a graph", lambda f, *a: while_opening(client, f, *a)), ("run_on_scheduler", client.run_on_scheduler)):
        check(f"the journal in {kind}", ask(look, journal), [])
        check(f"the scheduler file in {kind}", ask(read, secret), "")
    from writes_at_import import Thing
    check("a package that writes at import", client.compute(delayed(lambda v: v.value)(Thing())).result(timeout=120), 7)
    import dask.array as da
    check("dask.array", int((da.ones(10, chunks=5) + 1).sum().compute()), 20)

main(client)
`, journal, secret, home)
	entries, err := os.ReadDir(journal)
	if err != nil || len(entries) == 0 {
		t.Errorf("the journal has %d files, %v", len(entries), err)
	}
	if _, err := os.Stat(filepath.Join(journal, "evil")); err == nil {
		t.Error("a client has written into the journal")
	}
	log := s.Log()
	for _, text := range []string{"module=millstream.service network=host", "module=millstream.materializer " +
		"network=none"} {
		if !strings.Contains(log, `msg="Python helper sandbox" `+text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// Graphs that take for ever to open, one per core, keep no other from being opened, and their processes end with
// their clients.
func TestSchedulerGraphsThatSleep(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	r.DaskWorker(s.Address)
	res := r.Script(s.Address, opening+`
import signal, subprocess

SLEEPER = """
import sys, time
from dask import delayed
from distributed import Client

class Sleeps:
    def __reduce__(self):
        return time.sleep, (1000,)

client = Client(sys.argv[1])
future = client.compute(delayed(lambda v: v)(delayed(Sleeps())))
print("sent", flush=True)
time.sleep(1000)
"""

FORGETFUL = """
import sys, time
from dask import delayed
from distributed import Client, fire_and_forget

class Slow:
    def __reduce__(self):
        return time.sleep, (2,)

def write(path, slow):
    open(path, "w").close()

client = Client(sys.argv[1])
fire_and_forget(client.compute(delayed(write, pure=False)(sys.argv[2], delayed(Slow()))))
client.close()
"""

def helpers(scheduler):
    """The processes of the scheduler that open graphs."""
    found = set()
    for n in os.listdir("/proc"):
        try:
            with open(f"/proc/{n}/stat") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{n}/cmdline") as f:
                if parent == scheduler and "millstream.materializer" in f.read():
                    found.add(int(n))
        except (OSError, ValueError):
            pass
    return found

def main(client):
    import dask.array as da

    scheduler = int(sys.argv[2])
    count = max(os.cpu_count(), 2)
    sleepers = [subprocess.Popen([sys.executable, "-c", SLEEPER, client.scheduler.address], stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for p in sleepers:
            check("a graph that sleeps", p.stdout.readline(), b"sent\n")
        until("all helpers are busy", lambda: len(helpers(scheduler)) >= count)
        future = client.compute((da.ones(10, chunks=5) + 1).sum())
        check("another graph", int(future.result(timeout=120)), 20)
        check("clients of the others", [p.poll() for p in sleepers], [None] * count)
    finally:
        for p in sleepers:
            p.send_signal(signal.SIGKILL)
            p.wait()
    tell("sleepers", count)
    # A client that leaves at once has still asked for what it does not wait for.
    path = os.path.join(sys.argv[3], "written")
    subprocess.run([sys.executable, "-c", FORGETFUL, client.scheduler.address, path], check=True, timeout=120)
    until("a graph that was forgotten while it was opened", lambda: os.path.exists(path))

main(client)
`, strconv.Itoa(s.PID()), t.TempDir())
	// The process of a graph has ended when its error is logged.
	count, _ := res.Values["sleepers"].(float64)
	for limit := time.Now().Add(rig.Patience); ; time.Sleep(20 * time.Millisecond) {
		left := strings.Count(s.Log(), "client disconnected while its graph was opened")
		if left == int(count) && left > 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%d graphs of clients that have left were given up, want %v", left, count)
		}
	}
}
