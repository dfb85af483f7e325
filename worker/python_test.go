package worker_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/worker"
)

// dask is a process with a Dask scheduler, client and worker.
type dask struct {
	t      *testing.T
	stdin  io.Writer
	stdout *bufio.Reader
}

func startDask(t *testing.T) *dask {
	t.Helper()
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		python = filepath.Join("..", ".local", "venv", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("no Python with distributed at %s; run scripts/setup peers", python)
	}
	cmd := exec.Command(python, filepath.Join("testdata", "dask_peer.py"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = io.Discard
	if os.Getenv("LOUD") != "" {
		cmd.Stderr = os.Stderr
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		late.Stop()
	})
	return &dask{t, stdin, bufio.NewReader(stdout)}
}

// ask sends a command and returns its reply.
func (d *dask) ask(op string, args map[string]any) map[string]any {
	d.t.Helper()
	command := map[string]any{"op": op}
	for k, v := range args {
		command[k] = v
	}
	line, err := json.Marshal(command)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.stdin.Write(append(line, '\n')); err != nil {
		d.t.Fatal(err)
	}
	reply, err := d.stdout.ReadBytes('\n')
	if err != nil {
		d.t.Fatalf("%s: %v (LOUD=1 shows Python's log)", op, err)
	}
	var answer map[string]any
	if err := json.Unmarshal(reply, &answer); err != nil {
		d.t.Fatalf("%s: %v: %s", op, err, reply)
	}
	if answer["ok"] != true {
		d.t.Fatalf("%s: %v", op, answer["error"])
	}
	return answer
}

// A Go worker joins a Dask scheduler: it registers, sends heartbeats, stores scattered data, serves it to clients and
// Python workers, fetches from these, and rejects Python tasks with a reason.
func TestDaskScheduler(t *testing.T) {
	d := startDask(t)
	address := d.ask("start", nil)["address"].(string)
	begin := func(name string) *worker.Worker {
		w, err := worker.Start(testContext(t), worker.Config{Scheduler: address, Name: name, Threads: 2,
			MemoryLimit: 1 << 40, LocalDirectory: t.TempDir(), Logger: quiet(), Validate: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		})
		return w
	}
	w, other := begin("go-1"), begin("go-2")
	workers := d.ask("wait", map[string]any{"workers": 2})["workers"].(map[string]any)
	seen, ok := workers[w.Address()].(map[string]any)
	if !ok || seen["nthreads"] != 2.0 || seen["name"] != "go-1" || seen["memory_limit"] != float64(1<<40) {
		t.Fatalf("workers of the scheduler: got %v", workers)
	}
	at := map[string]any{"address": w.Address()}
	if m := d.ask("beat", at); m["memory"].(float64) <= 0 {
		t.Errorf("metrics %v", m)
	}
	for _, direct := range []bool{false, true} {
		holders := d.ask("scatter", map[string]any{"address": w.Address(), "direct": direct})["holders"]
		if list := holders.([]any); len(list) != 1 || list[0] != w.Address() {
			t.Errorf("scattered to %v", holders)
		}
	}
	python := d.ask("python_worker", nil)["address"].(string)
	if m := d.ask("use", nil); m["total"] != m["want"] {
		t.Errorf("data of the Go worker in a Python task: got %v, want %v", m["total"], m["want"])
	}
	if m := d.ask("replicate", map[string]any{"n": 3}); m["least"] != 3.0 {
		t.Errorf("replicas: got %v, want 3", m["least"])
	}
	if m := d.ask("fetch_made", map[string]any{"address": other.Address()}); !slices.Contains(m["holders"].([]any),
		any(other.Address())) || !slices.Contains(m["holders"].([]any), any(python)) {
		t.Errorf("holders of a Python result: got %v", m["holders"])
	}
	if m := d.ask("submit", at); !strings.Contains(m["error"].(string), "cannot run Python tasks") {
		t.Errorf("Python task on a Go worker: got %v", m)
	}
	if m := d.ask("run", at); !strings.Contains(fmt.Sprint(m["result"]), "not run") {
		t.Errorf("Client.run on a Go worker: %v", m)
	}
	if m := d.ask("tools", at); m["logs"].(float64) < 1 {
		t.Errorf("tools %v", m)
	}
	d.ask("release", nil)
	// One worker is retired by the scheduler, one retires itself.
	d.ask("retire", at)
	<-w.Done()
	if !errors.Is(w.Err(), worker.ErrSchedulerClosed) {
		t.Errorf("reason of the end: got %v", w.Err())
	}
	if err := other.Retire(testContext(t)); err != nil {
		t.Error(err)
	}
	last := begin("go-3")
	d.ask("end", nil)
	<-last.Done()
	if !errors.Is(last.Err(), worker.ErrSchedulerLost) && !errors.Is(last.Err(), worker.ErrSchedulerClosed) {
		t.Errorf("reason of the end without a scheduler: got %v", last.Err())
	}
}
