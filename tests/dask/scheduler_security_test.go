package dask

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// What `millstream scheduler --tls-dir` prints is all that Python needs: a client by the
// Security(…) expression, a worker and another client by the environment. The folder's name
// is one that shells and Python have to be careful with.
func TestSchedulerSecurity(t *testing.T) {
	r := rig.With(t, rig.Setting{Protocol: "tcp", Release: rig.Current().Release})
	dir := filepath.Join(t.TempDir(), "it's a $HOME")
	s := r.Scheduler("--protocol", "tls", "--tls-dir", dir)
	if !strings.HasPrefix(s.Address, "tls://") {
		t.Fatalf("the scheduler is at %s", s.Address)
	}
	var security string
	var exports []string
	for line := range strings.Lines(s.Log()) {
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, "Python: "); ok {
			security = text
		}
		if strings.HasPrefix(line, "  export ") {
			exports = append(exports, line)
		}
	}
	if security == "" || len(exports) < 8 {
		t.Fatalf("it prints %q and %q", security, exports)
	}
	shell := func(command ...string) *exec.Cmd {
		cmd := exec.CommandContext(r.Context, "/bin/sh", append([]string{"-c", strings.Join(exports, "\n") +
			"\nexec \"$@\"", "sh"}, command...)...)
		cmd.Dir = t.TempDir()
		return cmd
	}
	worker := shell(r.Interpreter, "-m", "distributed.cli.dask_worker", s.Address, "--host", "127.0.0.1",
		"--dashboard-address", "127.0.0.1:0", "--nthreads", "1", "--no-nanny", "--name", "by-environment")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	const program = `
from distributed import Client, Security
with Client(%s, timeout="60s") as client:
    client.wait_for_workers(1, timeout=60)
    assert client.submit(lambda x: x + 1, 1).result() == 2
    assert list(client.map(abs, [-1]))[0].result() == 1
    [w] = client.scheduler_info()["workers"].values()
    print("computed on", w["name"])
`
	address := "'" + s.Address + "'"
	for name, cmd := range map[string]*exec.Cmd{
		"expression": exec.CommandContext(r.Context, r.Interpreter, "-c",
			strings.Replace(program, "%s", address+", security="+security, 1)),
		"environment": shell(r.Interpreter, "-c", strings.Replace(program, "%s", address, 1)),
	} {
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "computed on by-environment") {
			t.Errorf("by %s: %v\n%s", name, err, out)
		}
	}
	// Without either the door stays shut.
	bare := exec.CommandContext(r.Context, r.Interpreter, "-c", "from distributed import Client; Client("+address+
		", timeout='5s')")
	bare.Dir = t.TempDir()
	if out, err := bare.CombinedOutput(); err == nil {
		t.Errorf("a client without certificates is let in: %s", out)
	}
	// A scheduler that finds the certificates prints the same.
	again := r.Scheduler("--protocol", "tls", "--tls-dir", dir)
	if !strings.Contains(again.Log(), "Python: "+security+"\n") {
		t.Errorf("the second time it prints %s", again.Log())
	}
}

// A Python worker that has the certificate of a worker only can do within tasks what
// worker_client is for, and cannot direct the cluster.
func TestWorkerCertificate(t *testing.T) {
	r := rig.With(t, rig.Setting{Protocol: "tcp", Release: rig.Current().Release})
	s := r.Scheduler("--protocol", "tls", "--tls-dir", t.TempDir())
	var exports []string
	for line := range strings.Lines(s.Log()) {
		if strings.HasPrefix(line, "  export ") {
			exports = append(exports, strings.TrimSuffix(line, "\n"))
		}
	}
	shell := func(before string, command ...string) *exec.Cmd {
		script := strings.Join(exports, "\n") + "\n" + before + "\nexec \"$@\""
		cmd := exec.CommandContext(r.Context, "/bin/sh", append([]string{"-c", script, "sh"}, command...)...)
		cmd.Dir = t.TempDir()
		return cmd
	}
	const base = "DASK_DISTRIBUTED__COMM__TLS__"
	onlyWorker := "export " + base + "CLIENT__CERT=\"$" + base + "WORKER__CERT\" " + base + "CLIENT__KEY=\"$" + base +
		"WORKER__KEY\""
	worker := shell(onlyWorker, r.Interpreter, "-m", "distributed.cli.dask_worker", s.Address, "--host", "127.0.0.1",
		"--dashboard-address", "127.0.0.1:0",
		"--nthreads", "2", "--no-nanny")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}()
	program := `
from distributed import Client
def inside():
    from distributed import worker_client, Lock, Queue, Variable, Event
    with worker_client() as c:
        with Lock("lock"):
            x = c.submit(pow, 2, 10, pure=False).result()
        [y] = c.gather([c.scatter(5)])
        q = Queue("queue", client=c); q.put(7)
        v = Variable("variable", client=c); v.set(8)
        e = Event("event", client=c); e.set()
        c.publish_dataset(9, name="dataset")
        refused = []
        for call in (c.shutdown, c.restart, lambda: c.retire_workers(names=["other"]), lambda: c.run(print), lambda: c.run_on_scheduler(print)):
            try:
                call()
            except Exception as err:
                refused.append(type(err).__name__)
        return x, y, q.get(), v.get(), e.is_set(), c.get_dataset("dataset"), refused
with Client("` + s.Address + `", timeout="60s") as client:
    client.wait_for_workers(1, timeout=60)
    print("got", client.submit(inside).result(timeout=60))
    assert client.submit(abs, -3).result(timeout=60) == 3
`
	out, err := shell("", r.Interpreter, "-c", program).CombinedOutput()
	want := "got (1024, 5, 7, 8, True, 9, ['PermissionError', 'PermissionError', 'PermissionError', " +
		"'PermissionError', 'PermissionError'])"
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v\n%s\nwant %s", err, out, want)
	}
}
