package client_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/testkit/freeport"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
)

// logLines is a log that can be read while it is written.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logLines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// wait waits until the log has a text.
func (l *logLines) wait(t testing.TB, ctx context.Context, text string) {
	t.Helper()
	for !strings.Contains(l.String(), text) {
		select {
		case <-ctx.Done():
			t.Fatalf("the log has no %q; got:\n%s", text, l.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestConnectLogs connects before the scheduler has started: the log has address and cause, and the client connects
// when the scheduler has started.
func TestConnectLogs(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := "tcp://" + freeport.Address(t)
	var log logLines
	type result struct {
		c   *client.Client
		err error
	}
	done := make(chan result, 1)
	go func() {
		c, err := client.Connect(ctx, address, client.Config{Logger: log.logger()})
		done <- result{c, err}
	}()
	log.wait(t, ctx, "scheduler not reachable; still trying")
	if got := log.String(); !strings.Contains(got, address) || !strings.Contains(got, "connection refused") {
		t.Errorf("the log is\n%s\nwant %s and the cause", got, address)
	}
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{address}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer closeScheduler(t, s)
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if err := r.c.Close(); err != nil {
		t.Error(err)
	}
}
