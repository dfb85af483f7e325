package worker_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker"
)

// logBuffer is the output of a logger that may be read concurrently.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// A function that ignores its timeout: the task ends with the timeout, the thread is free for others, the log and the
// metrics report it, and nothing is left when the function returns.
func TestTimeoutIgnored(t *testing.T) {
	leak.Check(t)
	d := direct(t, "inproc://")
	var log logBuffer
	w, seen := d.worker(t, worker.Config{Logger: log.logger(), Dashboard: "127.0.0.1:0"})
	name := gateName(t)
	deaf := compute("deaf", 1, spec(t, stubborn, val(name)), nil)
	deaf.Set("annotations", msgpack.MapOf("timeout", 0.02))
	seen.send(t, deaf)
	e := seen.receive(t, "task-erred")
	for _, want := range []string{"longer than its limit of 20ms", "ignores its context"} {
		if !strings.Contains(e.GetString("exception_text"), want) {
			t.Errorf("got %q, want %q", e.GetString("exception_text"), want)
		}
	}
	seen.send(t, compute("next", 2, spec(t, inc, val(1)), nil))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "next" {
		t.Errorf("got %v, want the end of next", m)
	}
	for _, want := range []string{"level=WARN", "task ignores its context", "key=deaf", "age=", "thread_replaced=true",
		"function="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("got log without %q:\n%s", want, log.String())
		}
	}
	for _, want := range []string{"millstream_worker_tasks_abandoned_total 1\n",
		"millstream_worker_tasks_abandoned 1\n"} {
		if m := metrics(t, w); !strings.Contains(m, want) {
			t.Errorf("got metrics without %q", want)
		}
	}
	close(gates(name))
	until(t, "the function returns", func() bool {
		return strings.Contains(metrics(t, w), "millstream_worker_tasks_abandoned 0\n")
	})
	// There are as many threads as before: a gate blocks the only one.
	second := gateName(t) + "-2"
	seen.send(t, compute("hold", 3, spec(t, stubborn, val(second)), nil),
		compute("after", 4, spec(t, inc, val(1)), nil))
	close(gates(second))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "hold" {
		t.Errorf("got %v, want the end of hold first", m)
	}
	seen.receive(t, "task-finished")
}

// The thread of a canceled function that does not return is replaced after CancelGrace.
func TestCancelIgnored(t *testing.T) {
	leak.Check(t)
	d := direct(t, "inproc://")
	var log logBuffer
	_, seen := d.worker(t, worker.Config{Logger: log.logger(), CancelGrace: time.Millisecond})
	name := gateName(t)
	begun := gates(name + "-begun")
	seen.send(t, compute("deaf", 1, spec(t, stubborn, val(name)), nil))
	<-begun
	seen.send(t, msgpack.MapOf("op", "free-keys", "keys", []any{"deaf"}, "stimulus_id", "x"),
		compute("next", 2, spec(t, inc, val(1)), nil))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "next" {
		t.Errorf("got %v, want the end of next", m)
	}
	if !strings.Contains(log.String(), "task ignores its context") {
		t.Errorf("got log %s, want a warning", log.String())
	}
	close(gates(name))
}

// More functions than threads are replaced for: the tasks end nevertheless, and the threads are free again when the
// functions return.
func TestAbandonedBound(t *testing.T) {
	leak.Check(t)
	d := direct(t, "inproc://")
	var log logBuffer
	_, seen := d.worker(t, worker.Config{Logger: log.logger()})
	name := gateName(t)
	for i := range 17 {
		deaf := compute("deaf-"+string(rune('a'+i)), int64(i+1), spec(t, stubborn, val(name)), nil)
		deaf.Set("annotations", msgpack.MapOf("timeout", 0.001))
		seen.send(t, deaf)
		seen.receive(t, "task-erred")
	}
	if n := strings.Count(log.String(), "thread_replaced=true"); n != 16 {
		t.Errorf("got %d threads replaced, want 16", n)
	}
	seen.send(t, compute("next", 100, spec(t, inc, val(1)), nil))
	close(gates(name))
	if m := seen.receive(t, "task-finished"); m.GetString("key") != "next" {
		t.Errorf("got %v, want the end of next", m)
	}
}

func metrics(t *testing.T, w *worker.Worker) string {
	t.Helper()
	r, err := http.Get("http://" + w.Dashboard() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stubborn waits for a gate and ignores its context. The gate NAME-begun opens when the first call has begun.
var stubborn = task.Register1("worker_test.stubborn", func(_ context.Context, name string) (string, error) {
	begun := gates(name + "-begun")
	select {
	case <-begun:
	default:
		close(begun)
	}
	<-gates(name)
	return name, nil
})
