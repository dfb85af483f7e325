package inspect

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// at returns the value at a path of names.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for i, name := range path {
		m, _ := v.(msgpack.Map)
		x, ok := m.Get(name)
		if !ok {
			t.Fatalf("%s: not found", strings.Join(path[:i+1], "/"))
		}
		v = x
	}
	return v
}

func TestDump(t *testing.T) {
	r := start(t)
	r.Do(func() {
		y := r.Host.State.Task(task.NewKey("y"))
		r.Host.Apply(&state.TaskErred{Worker: r.worker.ID, Key: y.Key(), RunID: y.RunID(), ExceptionText: "bad"})
		r.worker.Metrics = msgpack.MapOf("m", msgpack.Map{{Key: []any{"a", 1}, Value: 2}})
	})
	d := r.Call("get_cluster_state", "exclude", []any{"actor"})
	for _, c := range []struct {
		path string
		want string
	}{
		{"scheduler|id", "the-id"}, {"scheduler|status", "running"}, {"scheduler|address", "tcp://127.0.0.1:1"},
		{"scheduler|clients", "<Client 'c'>"}, {"scheduler|task_groups|x", "<x: memory: 1>"},
		{"scheduler|events", "hello"}, {"scheduler|log", "[[INFO hello]]"}, {"scheduler|transition_log", "memory"},
		{"scheduler|workers|tcp://w|has_what", "[<TaskState 'x' memory>]"}, {"scheduler|workers|tcp://w|nbytes", "8"},
		{"scheduler|workers|tcp://w|metrics|m", "{('a', 1) 2}"},
		{"scheduler|tasks|x|state", "memory"}, {"scheduler|tasks|x|who_has", "[tcp://w]"},
		{"scheduler|tasks|x|dependents", "[<TaskState 'y' erred>]"}, {"scheduler|tasks|x|waiters", "[]"},
		{"scheduler|tasks|y|state", "erred"}, {"scheduler|tasks|y|exception_text", "bad"},
		{"scheduler|tasks|y|dependencies", "[<TaskState 'x' memory>]"}, {"scheduler|tasks|y|erred_on", "[tcp://w]"},
		{"scheduler|tasks|y|who_wants", "[<Client 'c'>]"},
		{"workers|tcp://w|asked", "dump_state"}, {"versions|workers|tcp://w|asked", "versions"},
		{"versions|scheduler|packages", "[]"},
	} {
		if got := fmt.Sprint(at(t, d, strings.Split(c.path, "|")...)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.path, got, c.want)
		}
	}
	if m := at(t, d, "scheduler", "tasks", "x").(msgpack.Map); m.Has("actor") {
		t.Error("excluded entry: got actor, want none")
	}
	r.Fails("write_from_scheduler=False", "dump_cluster_state_to_url", "url", "s3://x", "exclude", []any{})
}

// A dump reads many tasks in steps, in between which they may go.
func TestDumpSteps(t *testing.T) {
	r := start(t)
	const n = dumpStep + 10
	r.Do(func() {
		var tasks [][]string
		for i := range n {
			tasks = append(tasks, []string{fmt.Sprint("t-", i)})
		}
		r.Submit(r.AddClient("d", nil), tasks...)
	})
	d := r.Call("get_cluster_state")
	if got := len(at(t, d, "scheduler", "tasks").(msgpack.Map)); got != n+2 {
		t.Errorf("tasks: got %d, want %d", got, n+2)
	}
}
