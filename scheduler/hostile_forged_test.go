package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/primitives"
)

// A worker cannot announce the result of a task that another one runs: neither by add-keys with adopt, nor by the
// report of a run that does not exist.
func TestForgedResults(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		log := &logText{}
		logger := slog.New(slog.NewTextHandler(log, nil))
		s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, Journal: dir, Validate: true,
			Logger: logger, Reattach: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.close(context.Background(), false) })
		honest := idle(t, s, "honest")
		forger := idle(t, s, "forger")
		c := connect(t, s, "c")
		c.submit([]node{{key: "x", spec: "x", notes: onlyOn("honest")}})
		m := honest.expectKey("compute-task", "x")
		forger.send(msgpack.MapOf("op", "add-keys", "keys", names("x"), "nbytes", []any{1}, "adopt", true,
			"stimulus_id", "forged"))
		forger.expectOp("remove-replicas")
		until(t, "the log names the worker", func() bool { return log.has("worker=" + forger.address) })
		finish := func(w *testWorker, run any) {
			w.send(msgpack.MapOf("op", "task-finished", "key", "x", "run_id", run, "status", "OK", "nbytes", 1, "type",
				nil, "typename", "int",
				"metadata", msgpack.Map{}, "thread", 1, "startstops", []any{}, "stimulus_id", "forged"))
		}
		finish(forger, 5)
		forger.expectOp("free-keys")
		finish(forger, -1)
		forger.waitClosed()
		state, _ := loop.Ask(t.Context(), s.loop, func() (string,
			error) {
			return s.state.Task("\xa1x").State().String(), nil
		})
		if state != "processing" {
			t.Errorf("the task of the honest worker: got %s, want processing", state)
		}
		run, _ := m.Get("run_id")
		finish(honest, run)
		c.expectKey("key-in-memory", "x")
	}
}

// A journal with a record that cannot be replayed prevents the start of the scheduler, with a hint; a repair leaves it
// out.
func TestPoisonedJournal(t *testing.T) {
	dir := t.TempDir() + "/journal"
	s := journaled(t, dir)
	c := connect(t, s, "c")
	c.call("variable_set", "name", "before", "client", "c", "key", nil, "data", 1)
	long := make([]any, primitives.MaxMetadataPath+1)
	for i := range long {
		long[i] = "n"
	}
	// In the form of an earlier release.
	for _, keys := range [][]any{long, {"x", nil}} {
		_ = s.loop.Do(t.Context(), func() { s.journal.Note("set_metadata", msgpack.MapOf("keys", keys, "value", 1)) })
	}
	if _, err := s.journal.Journal().Append(journal.Kind(99), []byte("from another world")); err != nil {
		t.Fatal(err)
	}
	c.call("variable_set", "name", "after", "client", "c", "key", nil, "data", 2)
	crash(t, s)
	_, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, Journal: dir})
	if err == nil || !strings.Contains(err.Error(), "millstream journal repair") {
		t.Fatalf("start: got %v, want an error that names the repair", err)
	}
	found, err := CheckJournal(dir)
	if err != nil || len(found.Problems) != 3 {
		t.Fatalf("check: got %+v, %v, want 3 problems", found, err)
	}
	done, err := RepairJournal(dir)
	if err != nil || len(done.Problems) != 3 || done.Backup == "" {
		t.Fatalf("repair: got %+v, %v, want 3 problems and a backup", done, err)
	}
	s = journaled(t, dir)
	c = connect(t, s, "c")
	for name, want := range map[string]int64{"before": 1, "after": 2} {
		v := c.call("variable_get", "name", name, "client", "c", "timeout", 5).(msgpack.Map)
		if got, _ := v.Get("value"); got != want {
			t.Errorf("variable %s: got %v, want %d", name, got, want)
		}
	}
	if _, err := CheckJournal(dir); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("check of a journal in use: got %v, want ErrLocked", err)
	}
}
