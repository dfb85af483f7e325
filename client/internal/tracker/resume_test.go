package tracker

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// A scheduler without state receives the graphs whose tasks have not ended in their order, then the unsent items, then
// the wanted keys.
func TestResume(t *testing.T) {
	c := empty(t)
	submit(t, c, "ended")
	sent(t, c)
	first := submit(t, c, "first")
	sent(t, c)
	second := submit(t, c, "second", k("first"))
	gone := submit(t, c, "gone")
	sent(t, c)
	if _, err := c.Desire(k("published")); err != nil {
		t.Fatal(err)
	}
	sent(t, c)
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "ended", "workers", []any{"w"}))
	c.Release(NewHandle(gone))
	sent(t, c)
	submit(t, c, "unsent")
	unsent, _ := c.Take()
	submit(t, c, "queued")
	c.Resume(Identity{ID: "S2"}, c.Disconnected(unsent))

	m := sent(t, c)
	wantOps(t, m, "update-graph", "update-graph", "update-graph", "update-graph", "client-desires-keys")
	for i, want := range [][]string{{"first"}, {"second"}, {"unsent"}, {"queued"}, {"ended", "published"}} {
		got := keyList(t, m[i])
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("message %d wants %v, want %v", i, got, want)
		}
	}
	wantStatus(t, c, first, Pending)
	wantStatus(t, c, second, Pending)
}

// Canceled keys are not wanted again.
func TestResumeWithoutCanceled(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	sent(t, c)
	if err := c.Cancel([]*State{a}, false); err != nil {
		t.Fatal(err)
	}
	sent(t, c)
	c.Resume(ours, nil)
	if got := sent(t, c); got != nil {
		t.Errorf("sent %v, want nothing", opsOf(got))
	}
}

// A graph is kept for the next scheduler while one of its tasks runs, not for results that existed before it.
func TestResumeWithoutEnded(t *testing.T) {
	c := empty(t)
	submit(t, c, "a")
	sent(t, c)
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w"}))
	g := NewGraph(Options{}, false)
	g.Writer().Spec(k("a"), []byte("s"), nil, taskgraph.None, taskgraph.None)
	if err := c.SubmitGraph(g, []task.Key{k("a")}, make([]Handle, 1)); err != nil {
		t.Fatal(err)
	}
	wantOps(t, sent(t, c), "update-graph")
	if n := len(c.graphs); n != 0 {
		t.Errorf("%d graphs are kept, want none", n)
	}
	c.Resume(Identity{ID: "S2"}, nil)
	wantOps(t, sent(t, c), "client-desires-keys")
}

// Dask's scheduler forgets a client whose connection ends.
func TestDaskForgets(t *testing.T) {
	c := empty(t)
	c.Connected(Identity{})
	a := submit(t, c, "a")
	c.queued = maxQueued
	if unsent := c.Disconnected([]Item{{raw: message.EmptyMap}}); unsent != nil {
		t.Errorf("%d messages are kept, want none", len(unsent))
	}
	wantStatus(t, c, a, Canceled)
	if err := c.KeyErr(a); !errors.Is(err, ErrCanceled) || !strings.Contains(err.Error(), "scheduler-connection-lost") {
		t.Errorf("the error is %v, want the reason scheduler-connection-lost", err)
	}
	if len(c.graphs) != 0 || c.queued != 0 {
		t.Errorf("%d graphs and %d bytes are queued, want none", len(c.graphs), c.queued)
	}
	c.Resume(Identity{}, nil)
	if got := sent(t, c); got != nil {
		t.Errorf("sent %v, want nothing", opsOf(got))
	}
	submit(t, c, "b")
	if _, m := c.Take(); m == nil {
		t.Error("the client cannot be used again")
	}
}

func TestOursKeepsUnsent(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	if unsent := c.Disconnected([]Item{{raw: message.EmptyMap}}); len(unsent) != 1 {
		t.Errorf("%d messages are kept, want 1", len(unsent))
	}
	wantStatus(t, c, a, Pending)
}

// If a Dask scheduler uses the address now, futures of the previous scheduler cannot be computed.
func TestResumeAtDask(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	unsent, _ := c.Take()
	c.Resume(Identity{}, unsent)
	wantStatus(t, c, a, Canceled)
	if got := sent(t, c); got != nil {
		t.Errorf("sent %v, want nothing", opsOf(got))
	}
}

// shortage returns an entry of millstream-unrunnable.
func shortage(text string, more bool, keys ...any) wire.Dict {
	return wire.NewDict("reason", "workers", "text", text, "tasks", int64(3), "keys", keys, "more", more)
}

func unrunnable(repeat bool, list ...any) wire.Dict {
	return wire.NewDict("op", "millstream-unrunnable", "shortages", list, "repeat", repeat)
}

func TestShortages(t *testing.T) {
	var log strings.Builder
	c := empty(t)
	c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	a, b, done := submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "done")
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "done", "workers", []any{"w"}))
	news := c.ShortageNews()
	receive(t, c, unrunnable(false, shortage("no worker x", false, "a", "done", "stranger")))
	select {
	case <-news:
	default:
		t.Error("ShortageNews not closed after a message")
	}
	all := c.Shortages()
	if len(all) != 1 || all[0].Reason != "workers" || all[0].Text != "no worker x" || all[0].Tasks != 3 ||
		all[0].More ||
		!slices.Equal(all[0].Keys, []task.Key{k("a")}) {
		t.Errorf("shortages %+v, want one of key a", all)
	}
	for _, x := range []struct {
		s    *State
		want string
	}{{a, "no worker x"}, {b, ""}, {done, ""}} {
		if got := c.WhyPending(x.s); got != x.want {
			t.Errorf("%s waits because of %q, want %q", x.s.Key(), got, x.want)
		}
	}
	if got := c.WhyPending(done, b, a); got != "no worker x" {
		t.Errorf("the first reason is %q, want that of a", got)
	}
	warnings := func() int { return strings.Count(log.String(), "no worker can run the tasks") }
	if warnings() != 1 || !strings.Contains(log.String(), "example=a") {
		t.Errorf("the log is %q, want one warning with example a", log.String())
	}
	receive(t, c, unrunnable(false, shortage("no worker x", false, "a")))
	if warnings() != 1 {
		t.Errorf("%d warnings about what has been logged, want 1", warnings())
	}
	receive(t, c, unrunnable(true, shortage("no worker x", false, "a")))
	if warnings() != 2 {
		t.Errorf("%d warnings after a repeated message, want 2", warnings())
	}
	receive(t, c, unrunnable(false, shortage("other", true, "b")))
	if got := c.WhyPending(a); got != "tasks of this client and others wait: other" {
		t.Errorf("a waits because of %q, want the shortage with more keys", got)
	}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "b", "workers", []any{"w"}))
	if got := c.WhyPending(b); got != "" {
		t.Errorf("a key that has ended waits because of %q", got)
	}
	receive(t, c, unrunnable(false))
	if got := c.WhyPending(a); got != "" || c.Shortages() != nil || !strings.Contains(log.String(), "can run again") {
		t.Errorf("a waits because of %q after the end of all shortages; the log is %q", got, log.String())
	}
}

// A restarted scheduler reports shortages again; reports of the previous one are dropped.
func TestShortagesEndWithScheduler(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	receive(t, c, unrunnable(false, shortage("x", false, "a")))
	c.Resume(Identity{ID: "S2"}, nil)
	if got := c.WhyPending(a); got != "" || len(c.Shortages()) != 0 {
		t.Errorf("a waits because of %q, shortages %v, want none", got, c.Shortages())
	}
}

func TestShortagesAreBounded(t *testing.T) {
	c := empty(t)
	var list []any
	for range 3 * maxShortages {
		list = append(list, shortage("x", false))
	}
	receive(t, c, unrunnable(false, list...))
	if got := len(c.Shortages()); got != maxShortages {
		t.Errorf("%d shortages are kept, want %d", got, maxShortages)
	}
	receive(t, c, wire.NewDict("op", "millstream-unrunnable", "shortages", nil))
	if got := len(c.Shortages()); got != 0 {
		t.Errorf("%d shortages of a message without any, want 0", got)
	}
}

func TestEventsAreDelivered(t *testing.T) {
	var topics []string
	var c *Tracker
	c = New(Config{ID: "C", Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Event: func(topic string, event any) {
		topics = append(topics, topic)
		_ = c.Err() // no lock is held
	}})
	receive(t, c, wire.NewDict("op", "event", "topic", "one", "event", []any{1.5, "x"}),
		wire.NewDict("op", "event", "topic", "two", "event", nil))
	if !slices.Equal(topics, []string{"one", "two"}) {
		t.Errorf("events of %v, want one and two in order", topics)
	}
	err := c.Receive(encoded(t, []any{wire.NewDict("op", "event", "topic", "three"), wire.NewDict("op", "close")}))
	if err != ErrStreamClosed || len(topics) != 3 {
		t.Errorf("%v and events %v, want the end of the stream and three events", err, topics)
	}
}

func TestBadMessages(t *testing.T) {
	c := empty(t)
	submit(t, c, "a")
	for name, m := range map[string]*wire.Message{
		"no frames":       {},
		"no list":         encoded(t, "text"),
		"workers":         encoded(t, []any{wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{5})}),
		"key":             encoded(t, []any{wire.NewDict("op", "key-in-memory", "key", nil, "workers", []any{})}),
		"shortages":       encoded(t, []any{wire.NewDict("op", "millstream-unrunnable", "shortages", "nonsense")}),
		"no key":          encoded(t, []any{wire.NewDict("op", "lost-data")}),
		"keys are a text": encoded(t, []any{wire.NewDict("op", "cancelled-keys", "keys", "a")}),
	} {
		if err := c.Receive(m); err == nil {
			t.Errorf("%s: got nil, want an error", name)
		}
	}
	for _, op := range []string{"error", "stream-closed", "close"} {
		if err := c.Receive(encoded(t, []any{wire.NewDict("op", op)})); err != ErrStreamClosed {
			t.Errorf("%s: %v, want ErrStreamClosed", op, err)
		}
	}
}
