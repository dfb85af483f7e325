package client_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/client"
)

// logText is a log that tests can read.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestUnknownWorkerIsTold(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	var log logText
	c, err := client.Connect(r.ctx, r.scheduler.Address(),
		client.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	f := inc.Submit(r.ctx, c, client.Val(1), client.WithWorkers("w0"))
	if _, err := f.Result(r.ctx); err != nil {
		t.Fatal(err)
	}
	waits := inc.Submit(r.ctx, c, client.Val(2), client.WithWorkers("w00"))
	eventually(t, "a warning", func() bool { return strings.Contains(log.String(), "worker=w00") })
	if strings.Contains(log.String(), "worker=w0 ") || waits.IsDone() {
		t.Errorf("log %s", log.String())
	}
}
