package scheduler

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Variables, queues, events, locks and waiters of locks have a common limit in bytes; released bytes can be used again.
func TestPrimitiveBounds(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{PrimitiveBytes: 64 << 10})
	c := connect(t, s, "c")
	bytes := func() int64 {
		n, err := loop.Ask(t.Context(), s.loop, func() (int64, error) { return s.budget.Bytes(), nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := strings.Repeat("x", 40<<10)
	c.call("variable_set", "name", "v", "client", "c", "key", nil, "data", text)
	c.fails("exceed the limit", "variable_set", "name", "w", "client", "c", "key", nil, "data", text)
	c.call("queue_create", "name", "q", "client", "c", "maxsize", 0)
	c.fails("exceed the limit", "queue_put", "name", "q", "client", "c", "key", nil, "data", text, "timeout", 1)
	c.fails("exceed the limit", "set_metadata", "keys", []any{"m"}, "value", text)
	c.call("variable_set", "name", "v", "client", "c", "key", nil, "data", "short")
	c.call("set_metadata", "keys", []any{"m"}, "value", text)
	c.call("set_metadata", "keys", []any{"m"}, "value", nil)

	before := bytes()
	c.call("multi_lock_acquire", "locks", []any{"l"}, "id", "holder", "timeout", nil, "num_locks", 1)
	held := bytes()
	if held <= before {
		t.Errorf("a lock that is held: got %d bytes, want more than %d", held, before)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	waiter := newPeer(t, s.Address())
	wg.Go(func() {
		_, _ = waiter.try("multi_lock_acquire", "locks", []any{"l"}, "id", strings.Repeat("w", 40<<10), "timeout", nil,
			"num_locks", 1)
	})
	until(t, "the waiter is counted", func() bool { return bytes() >= held+40<<10 })
	c.fails("exceed the limit", "multi_lock_acquire", "locks", []any{"l"}, "id", strings.Repeat("x", 40<<10), "timeout",
		nil, "num_locks", 1)
	c.call("multi_lock_release", "id", strings.Repeat("w", 40<<10))
	c.call("multi_lock_release", "id", "holder")
	until(t, "all counted bytes are released", func() bool { return bytes() == before })
}

// Requests with the name of an unregistered client create no client: it would be kept without limit.
func TestGhostClients(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "c")
	clients := func() int {
		n, err := loop.Ask(t.Context(), s.loop, func() (int, error) { return len(s.clients.ByName), nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := clients()
	w.put("d", "d")
	for _, name := range []string{"ghost", "variable-ghost", "queue-ghost", "fire-and-forget"} {
		c.fails("is not registered", "update_data", "who_has", msgpack.MapOf("d", names(w.address)), "nbytes",
			msgpack.MapOf("d", 1), "client", name)
		c.fails("is not registered", "scatter", "data", msgpack.MapOf("e", wire.Serialize{Value: "e"}), "workers", nil,
			"client", name, "timeout", 5)
	}
	if n := clients(); n != before {
		t.Errorf("clients: got %d, want %d", n, before)
	}
}

// A scheduler starts from a journal that was truncated within a record, and logs the number of truncated bytes.
func TestTornJournal(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir() + "/journal"
	s := journaled(t, dir)
	c := connect(t, s, "c")
	c.call("variable_set", "name", "kept", "client", "c", "key", nil, "data", 1)
	c.call("variable_set", "name", "cut", "client", "c", "key", nil, "data", strings.Repeat("x", 1000))
	crash(t, s)
	logs, err := filepath.Glob(dir + "/log-*")
	if err != nil || len(logs) != 1 {
		t.Fatalf("segments: got %v, %v, want one", logs, err)
	}
	info, err := os.Stat(logs[0])
	if err == nil {
		err = os.Truncate(logs[0], info.Size()-10)
	}
	if err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	again := start(t, Config{Journal: dir, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if !log.has("level=WARN msg=\"journal ended within a record; truncated\" bytes=") ||
		log.has(" bytes=0 ") {
		t.Errorf("the log: got %q, want a warning with the bytes that were cut off", log.buf.String())
	}
	c = connect(t, again, "c")
	if got, _ := c.call("variable_get", "name", "kept", "client", "c", "timeout",
		5).(msgpack.Map).Get("value"); got != int64(1) {
		t.Errorf("the variable before: got %v, want 1", got)
	}
}
