package taskbench

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/bench/benchpeer"
)

func TestRandomGraph(t *testing.T) {
	dag := randomGraph(5000, 3)
	for i, deps := range dag {
		if i < dagRoots {
			if len(deps) != 0 {
				t.Fatalf("task %d depends on %v", i, deps)
			}
			continue
		}
		if len(deps) < 2 || len(deps) > 4 {
			t.Fatalf("task %d has %d dependencies", i, len(deps))
		}
		sorted := slices.Sorted(slices.Values(deps))
		if len(slices.Compact(sorted)) != len(deps) || slices.Max(deps) >= i || slices.Min(deps) < 0 {
			t.Fatalf("task %d depends on %v", i, deps)
		}
	}
	ends := sinks(dag)
	if len(ends) == 0 || ends[len(ends)-1] != 4999 {
		t.Errorf("sinks %v", ends)
	}
	if slices.EqualFunc(dag, randomGraph(5000, 4), slices.Equal) {
		t.Error("another seed makes the same graph")
	}
}

// Python draws the same graph and computes the same values.
func TestPythonDrawsTheSame(t *testing.T) {
	program, err := benchpeer.FindProgram(PeerName, benchpeer.ScriptTasks, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	const n, seed = 3000, 12345
	cmd := exec.CommandContext(context.Background(), program.Python, "-c", `
import json, bench_tasks as b
dag = b.random_dag(3000, 12345)
v = []
for i, deps in enumerate(dag):
    v.append(b.mix(i, *[v[d] for d in deps]))
print(json.dumps({"dag": dag, "values": v}))`)
	cmd.Dir = filepath.Dir(program.Script)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		DAG    [][]int
		Values []int64
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	dag := randomGraph(n, seed)
	var values []int64
	for i, deps := range dag {
		if !slices.Equal(deps, got.DAG[i]) {
			t.Fatalf("task %d depends on %v here and on %v in Python", i, deps, got.DAG[i])
		}
		var in []int64
		for _, d := range deps {
			in = append(in, values[d])
		}
		values = append(values, mixed(int64(i), in))
	}
	if !slices.Equal(values, got.Values) {
		t.Error("values differ")
	}
}

func TestMetrics(t *testing.T) {
	got, err := parseMetrics(strings.NewReader(`# HELP dask_scheduler_tasks Number of tasks
# TYPE dask_scheduler_tasks gauge
dask_scheduler_tasks{state="memory"} 100000.0
dask_scheduler_tasks{state="waiting"} 2
dask_scheduler_tasks{state="forgotten"} 7

dask_scheduler_clients 1e+00
`))
	if err != nil {
		t.Fatal(err)
	}
	if tasksIn(got, "memory") != 100000 || got["dask_scheduler_clients"] != 1 {
		t.Errorf("%v", got)
	}
	if _, err := parseMetrics(strings.NewReader("a b\n")); err == nil {
		t.Error("a metric without a number is taken")
	}
}
