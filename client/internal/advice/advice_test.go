package advice

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func newAdvice(limit int64, workers []Worker, err error) (*Advice, *strings.Builder) {
	log := new(strings.Builder)
	return New(Config{Limit: limit, Context: context.Background(), Log: slog.New(slog.NewTextHandler(log, nil)),
		Workers: func(context.Context) ([]Worker, error) { return workers, err }}), log
}

func TestSizes(t *testing.T) {
	a, log := newAdvice(100, nil, nil)
	a.CheckSize("small", 99)
	if log.Len() > 0 {
		t.Errorf("99 bytes of 100 are logged: %s", log)
	}
	a.CheckSize("large", 100)
	a.CheckSize("large", 1000)
	a.CheckNode(task.NewKey("node"), 500)
	a.CheckNode(task.NewKey("node"), 500)
	if got := strings.Count(log.String(), "client.Scatter"); got != 2 {
		t.Errorf("%d warnings, want one for each name: %s", got, log)
	}
	for _, part := range []string{"function=large", "bytes=100 ", "limit=100", "function=node"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log is %q, want %s in it", log, part)
		}
	}
	never, log := newAdvice(-1, nil, nil)
	never.CheckSize("f", 1<<40)
	never.CheckNode(task.NewKey("k"), 1<<40)
	if log.Len() > 0 {
		t.Errorf("logged without a limit: %s", log)
	}
}

func TestWorkers(t *testing.T) {
	workers := []Worker{{Address: "tcp://10.0.0.1:4000", Name: "alice"},
		{Address: "inproc://x", Name: "bob", Host: "here"}}
	for name, known := range map[string]bool{
		"tcp://10.0.0.1:4000": true, "10.0.0.1:4000": true, "10.0.0.1": true, "alice": true, "bob": true, "here": true,
		"inproc://x": true, "carol": false, "10.0.0.2": false, "": false,
	} {
		a, log := newAdvice(1, workers, nil)
		a.CheckWorkers(&taskgraph.Annotations{Workers: []string{name}})
		a.CheckWorkers(&taskgraph.Annotations{Workers: []string{name}})
		a.Close()
		want := 1
		if known {
			want = 0
		}
		if got := strings.Count(log.String(), "WARN"); got != want {
			t.Errorf("%q: %d warnings, want %d: %s", name, got, want, log)
		}
	}
}

func TestWorkersThatAreNotLookedFor(t *testing.T) {
	for name, notes := range map[string]*taskgraph.Annotations{
		"none": {}, "others allowed": {Workers: []string{"carol"}, AllowOtherWorkers: true},
	} {
		a, log := newAdvice(1, nil, nil)
		a.CheckWorkers(notes)
		a.Close()
		if log.Len() > 0 {
			t.Errorf("%s: logged %s", name, log)
		}
	}
	a, log := newAdvice(1, nil, errors.New("no scheduler"))
	a.CheckWorkers(&taskgraph.Annotations{Workers: []string{"carol"}})
	a.Close()
	if log.Len() > 0 {
		t.Errorf("a failed lookup is logged: %s", log)
	}
	a.CheckWorkers(&taskgraph.Annotations{Workers: []string{"dave"}}) // starts no goroutine after Close
}
