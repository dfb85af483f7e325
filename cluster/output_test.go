package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
)

// buffer is a writer that can be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var talk = client.Func("cluster_test.talk", func(ctx context.Context, fatal bool) (string, error) {
	fmt.Println("printed to standard output")
	fmt.Fprint(os.Stderr, "printed to standard ", "error\n")
	log.Println("with package log")
	slog.Debug("with slog.Debug")
	slog.Info("with slog.Info", "answer", 42, slog.Group("g", "why", errors.New("an error")))
	slog.WarnContext(ctx, "with slog.WarnContext")
	fmt.Print("no end of line")
	if fatal {
		log.Fatal("the last words of log.Fatal")
	}
	return string(task.CurrentKey(ctx).String()), nil
})

// Output and log of tasks are written to the terminal of the program, with the worker, and returned by client.Logs.
func TestOutputOfTasks(t *testing.T) {
	leak.Check(t)
	var stdout, stderr, logged buffer
	o := cluster.Config{Workers: 1, Threads: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
		Scheduler: noFailures,
		Nanny:     cluster.WithoutPauses(cluster.NannyConfig{Stdout: &stdout, Stderr: &stderr})}
	ctx, _, cl := start(t, o)
	key, err := talk.Submit(ctx, cl, client.Val(false)).Result(ctx)
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string, b *buffer, want ...string) {
		t.Helper()
		for _, w := range want {
			until(ctx, t, fmt.Sprintf("%q in %s", w, name), func() bool { return strings.Contains(b.String(), w) })
		}
	}
	has("stdout", &stdout, "worker 0: printed to standard output\n")
	has("stderr", &stderr, "worker 0: printed to standard error\n", " with package log\n")
	has("the log", &logged, `level=INFO msg="with slog.Info" worker=0 answer=42 g.why="an error"`,
		`level=WARN msg="with slog.WarnContext" worker=0 key=`+key)
	if strings.Contains(logged.String(), "slog.Debug") {
		t.Errorf("got a record of level DEBUG, want none:\n%s", logged.String())
	}
	logs := func() string {
		all, err := cl.Logs(ctx, client.LogsOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, lines := range all {
			for _, l := range lines {
				fmt.Fprintf(&b, "%s %s\n", l.Level, l.Text)
			}
		}
		return b.String()
	}
	known := func(want ...string) {
		t.Helper()
		for _, w := range want {
			until(ctx, t, fmt.Sprintf("%q in client.Logs", w), func() bool { return strings.Contains(logs(), w) })
		}
	}
	known("INFO stdout: printed to standard output\n", "INFO stderr: printed to standard error\n", "with package log\n",
		"INFO task - INFO - with slog.Info answer=42 g.why=an error\n", "WARNING task - WARN - with "+
			"slog.WarnContext key="+key+"\n")

	// The last line of a process is the cause of its crash, and the logs of its successor include it.
	_, err = talk.Submit(ctx, cl, client.Val(true)).Result(ctx)
	if !errors.Is(err, client.ErrKilledWorker) || !strings.Contains(err.Error(), "exit code 1; last line of "+
		"standard error: ") || !strings.Contains(err.Error(), "the last words of log.Fatal") {
		t.Errorf("got %v, want a crash with the text of log.Fatal", err)
	}
	has("stdout", &stdout, "worker 0: no end of line")
	has("stderr", &stderr, "the last words of log.Fatal\n")
	known("the last words of log.Fatal\n", "stdout: printed to standard output\n")

	_, err = die.Submit(ctx, cl, client.Val(death{How: "panic"})).Result(ctx)
	if !errors.Is(err, client.ErrKilledWorker) || !strings.Contains(err.Error(), "panic: in a goroutine of a task") {
		t.Errorf("got %v, want the panic", err)
	}
	has("stderr", &stderr, "worker 0: panic: in a goroutine of a task\n", "deaths_test.go:")
	if n, err := cl.Logs(ctx, client.LogsOptions{N: 1}); err != nil || len(n) > 1 {
		t.Errorf("got %v, %v, want one line", n, err)
	}
}

// Workers in goroutines redirect nothing.
func TestOutputOfGoroutines(t *testing.T) {
	leak.Check(t)
	handler, writer, flags := slog.Default().Handler(), log.Writer(), log.Flags()
	stdout, stderr := os.Stdout, os.Stderr
	ctx, _, cl := start(t, cluster.Config{Mode: cluster.Goroutines, Workers: 1, Threads: 1})
	if v, err := inc.Submit(ctx, cl, client.Val(1)).Result(ctx); v != 2 || err != nil {
		t.Fatalf("got %v, %v, want 2", v, err)
	}
	if slog.Default().Handler() != handler || log.Writer() != writer || log.Flags() != flags || os.Stdout != stdout ||
		os.Stderr != stderr {
		t.Error("the log of the process was redirected")
	}
}
