package scheduler

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/workers"
)

// A nanny's report arrives before or after the end of the worker's stream. The cause is one short line of text. The
// report affects no other worker, and a token is shown to no peer.
func TestDeathReports(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{AllowedFailures: -1})
	c := connect(t, s, "client-1")
	hostile := "exit code 3\n\x1b[31m\x00" + strings.Repeat("ä", 2*workers.MaxCause)
	for i, before := range []bool{true, false} {
		token := fmt.Sprint("secret-", i)
		w := join(t, s, fmt.Sprint("w", i), with("extra",
			msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash(), "death-token", token))))
		key := fmt.Sprint("x", i)
		c.submit([]node{{key: key, spec: "hang"}})
		w.expectOp("compute-task")
		if id := fmt.Sprint(c.call("identity")); strings.Contains(id, token) {
			t.Errorf("identity: got the token in %s, want it hidden", id)
		}
		report := func(token, cause string) { c.call(DeathOp, "token", token, "cause", cause) }
		report("", "an empty token")
		report("unknown", "an unknown token")
		report(token, " \n")
		if before {
			report(token, hostile)
			w.crash()
		} else {
			w.crash()
			report(token, hostile)
		}
		report(token, "a second report")
		m := c.expectKey("task-erred", key)
		e, _ := m.Get("exception")
		b, _ := open(e).([]byte)
		text := fmt.Sprint(unpickle(t, b).Args...)
		_, cause, _ := strings.Cut(text, "at "+w.address+": ")
		if !strings.HasPrefix(cause, "exit code 3  [31m ää") || len(cause) > workers.MaxCause+8 ||
			!utf8.ValidString(cause) || !strings.HasSuffix(cause, "…") {
			t.Errorf("reported before the end %v: got cause %.80q (%d bytes) in %.200q, want one short line", before,
				cause, len(cause),
				text)
		}
	}
}

func TestCleanCause(t *testing.T) {
	for in, want := range map[string]string{"": "", " a\tb\n": "a b", "\xff\xfe": "?", "ok": "ok"} {
		if got := workers.CleanCause(in); got != want {
			t.Errorf("cleanCause(%q): got %q, want %q", in, got, want)
		}
	}
}

// A worker whose nanny never reports is removed nevertheless, and closing the scheduler does not wait.
func TestDeathNotReported(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{AllowedFailures: -1})
	c := connect(t, s, "client-1")
	w := join(t, s, "w", with("extra", msgpack.MapOf("millstream",
		msgpack.MapOf("registry", task.Hash(), "death-token", "t"))))
	c.submit([]node{{key: "x", spec: "hang"}})
	w.expectOp("compute-task")
	w.crash()
	m := c.expectKey("task-erred", "x")
	e, _ := m.Get("exception")
	b, _ := open(e).([]byte)
	if text := fmt.Sprint(unpickle(t, b).Args...); !strings.Contains(text, "connection lost") {
		t.Errorf("got %q, want connection lost", text)
	}
}

// A worker that ends because of its memory counts against its tasks; one that leaves on purpose does not.
func TestCloseStreamReason(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{AllowedFailures: -1})
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "hang"}})
	a := join(t, s, "a")
	a.expectOp("compute-task")
	a.send(msgpack.MapOf("op", "close-stream"))
	a.crash()
	b := join(t, s, "b")
	b.expectOp("compute-task")
	b.send(msgpack.MapOf("op", "close-stream", "reason", "memory limit of 1 MiB"))
	b.crash()
	m := c.expectKey("task-erred", "x")
	e, _ := m.Get("exception")
	raw, _ := open(e).([]byte)
	if text := fmt.Sprint(unpickle(t, raw).Args...); !strings.Contains(text, "1 worker died") ||
		!strings.Contains(text, "memory limit of 1 MiB") {
		t.Errorf("got %q, want 1 death by the memory limit", text)
	}
}

// Timeouts that callers choose are replies: the log has no warning of them.
func TestTimeoutsAreQuiet(t *testing.T) {
	leak.Check(t)
	var log bytes.Buffer
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := connect(t, s, "client-1")
	c.call("queue_create", "name", "q", "maxsize", 0)
	c.fails("is empty", "queue_get", "name", "q", "timeout", 0.01)
	c.fails("is not set", "variable_get", "name", "v", "timeout", 0.01)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "handler failed") {
		t.Errorf("got a warning, want none:\n%s", log.String())
	}
}
