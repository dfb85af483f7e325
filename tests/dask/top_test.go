package dask

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.millstream.dev/cli"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/worker"
)

// `millstream top` shows a Dask scheduler with a Dask and a Go worker: tasks by state, threads, memory.
func TestTop(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	dask := r.DaskWorker(s.Address)
	ours := r.StartWorker(s.Address, worker.Config{Threads: 3})
	r.Script(s.Address, `
kept = client.map(lambda x: x + 1, range(4), workers=[args[0]])
bad = client.submit(operator.truediv, 1, 0, workers=[args[0]])
raises("error", ZeroDivisionError, bad.result, "by zero")
check("results", client.gather(kept), [1, 2, 3, 4])
client.publish_dataset(kept=kept, bad=[bad])
`, dask.Address)
	line := append([]string{"top", s.Address, "--json", "--interval", "100ms"}, r.Flags()...)
	var out, errs bytes.Buffer
	code := cli.Run(r.Context, line, strings.NewReader(""), &out, &errs)
	var top struct {
		Address string
		Threads int64
		Tasks   map[string]int64
		Workers []struct {
			Address, Status string
			Threads         int64
			Memory          struct{ Used int64 }
		}
		Failures struct {
			Erred int64 `json:"tasks_erred"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &top); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: got %s%s", code, err, &out, &errs)
	}
	if top.Address != s.Address || top.Threads != 4 || top.Tasks["memory"] != 4 || top.Failures.Erred != 1 {
		t.Errorf("got %s, want %s with 4 threads, 4 results and 1 error", &out, s.Address)
	}
	threads := map[string]int64{}
	for _, w := range top.Workers {
		threads[w.Address] = w.Threads
		if w.Status != "running" || w.Memory.Used <= 0 {
			t.Errorf("worker: got %+v, want it running, with its memory", w)
		}
	}
	if threads[dask.Address] != 1 || threads[ours.Address()] != 3 {
		t.Errorf("threads: got %v, want 1 of %s and 3 of %s", threads, dask.Address, ours.Address())
	}
}
