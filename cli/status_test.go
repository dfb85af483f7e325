package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
)

// runLine runs a command line and returns its exit code and both outputs.
func runLine(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// A running cluster is shown with its workers and the tasks in each state.
func TestStatus(t *testing.T) {
	leak.Check(t)
	ctx := t.Context()
	c, err := cluster.Local(ctx, cluster.Config{Mode: cluster.Goroutines, Protocol: "tcp", Workers: 2, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	cl, err := c.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close() }()
	f := demoGenerate.Submit(ctx, cl, client.Val(1), client.Val(2))
	defer f.Release() // not earlier: a collected future gives its result up
	if _, err := f.Result(ctx); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runLine(t, "status", c.Address())
	for _, want := range []string{"scheduler  " + c.Address(), "workers    2 with 6 threads", "tasks      1 memory",
		"address", "running"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: got %s%s, want %q in it", code, out, errs, want)
		}
	}
	code, out, errs = runLine(t, "status", c.Address(), "--json")
	var r statusReport
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Threads != 6 || len(r.Workers) != 2 ||
		r.Workers[0].Threads != 3 || r.Tasks["memory"] != 1 {
		t.Errorf("exit code %d, %v: got %s%s, want 2 workers of 3 threads and a result", code, err, out, errs)
	}
	if code, out, errs := runLine(t, "status"); code != ExitUsage ||
		!strings.Contains(errs, "no scheduler; pass an address") {
		t.Errorf("without an address: got %d %s%s, want a usage error", code, out, errs)
	}
	if code, _, errs := runLine(t, "status", "tcp://127.0.0.1:1", "--timeout", "2s"); code != ExitFailure ||
		!strings.Contains(errs, "scheduler at tcp://127.0.0.1:1") || !strings.Contains(errs, "connection refused") {
		t.Errorf("without a scheduler: got %d %s, want a failure that names the address and the cause", code, errs)
	}
}

// A Dask scheduler has no counts of its own: those of workers stand for them.
func TestStatusOfDask(t *testing.T) {
	worker := msgpack.MapOf("nthreads", int64(2), "memory_limit", int64(1<<30), "status", "running", "name", int64(0),
		"metrics", msgpack.MapOf("cpu", 12.5, "memory", int64(5<<20), "task_counts",
			msgpack.MapOf("executing", int64(2), "memory", int64(3))))
	r := newStatus(msgpack.MapOf("address", "tcp://s:1", "started", 1.5, "workers", msgpack.MapOf("tcp://w:1", worker)))
	if r.Threads != 2 || r.Tasks["executing"] != 2 || r.Tasks["memory"] != 3 || r.Workers[0].Name != "0" ||
		r.Workers[0].CPU != 12.5 {
		t.Errorf("got %+v, want the worker's counts", r)
	}
}

func TestHelpOfUnknownCommands(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{"tap --help", `unknown command "tap"`},
		{"schedular --help", "did you mean scheduler?"},
		{"config shaw --help", `unknown command "shaw"`},
		{"config --ucx", "; known to millstream config show"},
	} {
		if code, out, errs := runLine(t, strings.Fields(tc.line)...); code != ExitUsage ||
			!strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: got %d %q %q, want a usage error with %q", tc.line, code, out, errs, tc.want)
		}
	}
	for _, line := range []string{"--help", "help", "help scheduler", "scheduler --help", "config --help",
		"completion --help", "demo --part cluster --help", "version"} {
		if code, out, errs := runLine(t, strings.Fields(line)...); code != 0 || out == "" {
			t.Errorf("%s: got %d %q %q, want help", line, code, out, errs)
		}
	}
	_, out, _ := runLine(t, "worker", "--help")
	if !strings.Contains(out, "--scheduler-file file") {
		t.Errorf("got %s, want the flag's type to be a file", out)
	}
	if _, out, _ := runLine(t, "version"); out != "millstream "+Version()+"\n" {
		t.Errorf("version: got %q, want %q", out, Version())
	}
}
