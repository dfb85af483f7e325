package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/journal"
	"go.millstream.dev/wire"
)

// rig is a Recovery whose scheduler is a state with clients and a map of settings.
type rig struct {
	*hosttest.Host
	*Recovery
	log      *Log
	clients  map[string]state.ClientID
	workers  []string
	settings map[string]string
	panicked int
}

func startIn(t *testing.T, dir string, reattach time.Duration) *rig {
	r := &rig{Host: hosttest.New(t), clients: map[string]state.ClientID{}, settings: map[string]string{}}
	r.log = NewLog(r.Host.Log, func(err error) { t.Errorf("journal: got error %v, want none", err) })
	r.Recovery = New(Host{
		Loop: r.Loop, Log: r.Host.Log, State: r.State, Apply: r.Apply, Replayer: r, Context: t.Context(), Dir: dir,
		Reattach: reattach,
		Panicked: func() { r.panicked++ }, Workers: func() []string { return r.workers },
		Clients: func() map[string]state.ClientID { return maps.Clone(r.clients) },
		Changes: func(f func(op string, args msgpack.Map)) {
			for _, k := range slices.Sorted(maps.Keys(r.settings)) {
				f("set", msgpack.MapOf("name", k, "value", r.settings[k]))
			}
		},
	}, r.log)
	t.Cleanup(func() {
		if err := r.log.Close(); err != nil && !errors.Is(err, journal.ErrClosed) {
			t.Error(err)
		}
	})
	return r
}

// opened returns a rig that has read its journal.
func opened(t *testing.T, dir string) *rig {
	t.Helper()
	r := startIn(t, dir, time.Hour)
	r.Do(func() {
		if err := r.Open(); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

func (r *rig) named(name string) state.ClientID {
	id, ok := r.clients[name]
	if !ok {
		id = r.AddClient(name, nil)
		r.clients[name] = id
	}
	return id
}

func (r *rig) ReplayGraph(client string, raw []byte, expr *wire.Serialized) error {
	g, err := taskgraph.Read(expr)
	if err != nil {
		return err
	}
	var n taskgraph.Node
	ev := state.UpdateGraph{Client: r.named(client), Graph: &state.Graph{}}
	for g.Next(&n) {
		if string(n.Spec) == "MS\x01panic" {
			panic("a node that cannot be")
		}
		ev.Graph.Nodes = append(ev.Graph.Nodes, state.Node{Key: task.Key(slices.Clone(n.Key)),
			Spec: slices.Clone(n.Spec)})
	}
	if ev.Keys, err = graphKeys(raw); err != nil {
		return err
	}
	r.Apply(&ev)
	return errors.Join(g.Err(), ev.Err)
}

func (r *rig) ReplayChange(op string, args msgpack.Map) error {
	if op != "set" {
		return fmt.Errorf("%w: op %s", ErrRecord, op)
	}
	r.settings[args.GetString("name")] = args.GetString("value")
	return nil
}

func (r *rig) ReplayClient(name string, there bool) {
	if there {
		r.named(name)
		return
	}
	if id, ok := r.clients[name]; ok {
		r.Apply(&state.RemoveClient{Client: id})
		delete(r.clients, name)
	}
}

func (r *rig) ReplayDesire(client string, keys []task.Key, release bool) {
	if release {
		r.Apply(&state.ClientReleases{Client: r.named(client), Keys: keys})
		return
	}
	r.Apply(&state.ClientDesires{Client: r.named(client), Keys: keys})
}

func (r *rig) ReplayData(client string, keys []task.Key) {
	r.Apply(&state.ExpectData{Client: r.named(client), Keys: keys})
}

// submit applies and records a graph of single tasks, like a scheduler.
func (r *rig) submit(t *testing.T, client string, names ...string) {
	t.Helper()
	var w taskgraph.Writer
	list := []any{}
	for i, n := range names {
		w.Spec(task.NewKey(n), []byte("MS\x01"+n), nil, taskgraph.None, int64(i))
		list = append(list, n)
	}
	raw, err := msgpack.Append(nil, msgpack.MapOf("op", "update-graph", "keys", list))
	if err != nil {
		t.Fatal(err)
	}
	expr := w.Serialized()
	r.Do(func() {
		if err := r.ReplayGraph(client, raw, expr); err != nil && names[0] != "panic" {
			t.Error(err)
		}
		r.log.Graph(client, raw, expr)
	})
}

// tasks returns the known tasks, in order.
func (r *rig) tasks() string {
	var out []string
	r.Do(func() {
		for t := range r.State.Tasks() {
			out = append(out, t.Key().String())
		}
	})
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (r *rig) close(t *testing.T) {
	t.Helper()
	if err := r.log.Close(); err != nil {
		t.Fatal(err)
	}
}

// The records of a scheduler restore its state in the next one.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	r := opened(t, dir)
	r.submit(t, "c", "a", "b")
	r.Do(func() {
		r.log.Client("gone", true)
		r.log.Client("gone", false)
		r.ReplayDesire("c", keys("b"), true)
		r.log.Release("c", keys("b"))
		r.log.Data("c", keys("data"))
		r.log.Desire("other", keys("a"))
		if err := r.log.Change("set", msgpack.MapOf("name", "n", "value", "v")); err != nil {
			t.Error(err)
		}
		r.log.Worker("tcp://stays", true)
		r.log.Worker("tcp://left", true)
		r.log.Worker("tcp://left", false)
	})
	r.close(t)
	n := opened(t, dir)
	if got := n.tasks(); got != "a data" {
		t.Errorf("tasks: got %s, want a and data", got)
	}
	n.Do(func() {
		if len(n.clients) != 2 || n.settings["n"] != "v" || n.Missing() != 1 {
			t.Errorf("got clients %v, settings %v, %d workers missing", n.clients, n.settings, n.Missing())
		}
		if n.log.Epoch() != 2 {
			t.Errorf("epoch: got %d, want 2", n.log.Epoch())
		}
	})
}

// Tasks are held back until the previous workers have reconnected, or their time is over.
func TestHold(t *testing.T) {
	dir := t.TempDir()
	r := opened(t, dir)
	r.Do(func() {
		r.log.Worker("tcp://a", true)
		r.log.Worker("tcp://b", true)
	})
	r.close(t)
	n := opened(t, dir)
	n.Do(func() {
		n.Begin()
		if !n.Returning("tcp://a") || n.Returning("tcp://c") || !n.holding {
			t.Error("previous workers: not waited for")
		}
		n.workers = []string{"tcp://a", "tcp://b"}
		n.Back("tcp://a")
		n.Tick()
		if !n.holding || n.Missing() != 1 || n.Returning("tcp://a") {
			t.Errorf("one of two is back: got holding %v, %d missing", n.holding, n.Missing())
		}
		n.Back("tcp://b")
		n.Tick()
		if !n.holding {
			t.Error("last worker: got no time to announce its results")
		}
		if left := n.until.Sub(n.Loop.Now()); left > announceTime {
			t.Errorf("all are back: got %v left, want at most %v", left, announceTime)
		}
		n.until = n.Loop.Now()
		n.Tick()
		if n.holding {
			t.Error("all are back: tasks are still held")
		}
		n.Back("tcp://late") // ignored
	})
	n.close(t)

	late := startIn(t, dir, time.Nanosecond)
	late.Do(func() {
		if err := late.Open(); err != nil {
			t.Fatal(err)
		}
		late.Begin()
	})
	late.Until("the time is over", func() bool { late.Tick(); return !late.holding })
	if !late.Logged("workers have not reconnected") {
		t.Error("log: got no line about workers that have not reconnected, want one")
	}
	late.close(t)
	last := opened(t, dir)
	last.Do(func() {
		if last.Missing() != 0 {
			t.Errorf("missing workers: got %d, want 0", last.Missing())
		}
		last.Begin()
		if last.holding {
			t.Error("tasks are held for no worker")
		}
	})
}

// A snapshot restores the same state as the records that it replaces, and takes less space.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	r := opened(t, dir)
	r.submit(t, "c", "kept", "released")
	r.submit(t, "c", "dead")
	r.submit(t, "left", "theirs")
	r.Do(func() {
		for i := range 100 {
			r.settings["n"] = fmt.Sprint(i)
			r.log.Note("set", msgpack.MapOf("name", "n", "value", r.settings["n"]))
		}
		r.ReplayDesire("c", keys("released", "dead"), true)
		r.log.Release("c", keys("released", "dead"))
		r.ReplayDesire("c", keys("theirs"), false)
		r.log.Desire("c", keys("theirs"))
		r.ReplayClient("left", false)
		r.log.Client("left", false)
		r.ReplayData("c", keys("scattered"))
		r.log.Data("c", keys("scattered"))
		r.workers = []string{"tcp://w"}
		r.log.Worker("tcp://w", true)
	})
	want := r.tasks()
	var snap *Snapshot
	r.Do(func() {
		var err error
		if snap, err = r.Snapshot(); err != nil {
			t.Fatal(err)
		}
	})
	if err := snap.Write(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.close(t)
	n := opened(t, dir)
	if got := n.tasks(); got != want || got != "kept scattered theirs" {
		t.Errorf("tasks: got %s, want %s", got, want)
	}
	n.Do(func() {
		if _, ok := n.clients["left"]; ok || len(n.clients) != 1 {
			t.Errorf("clients: got %v, want c alone", n.clients)
		}
		if n.settings["n"] != "99" || n.Missing() != 1 {
			t.Errorf("got settings %v, %d workers", n.settings, n.Missing())
		}
		c := n.State.Client(n.clients["c"])
		if c.NumWanted() != 3 {
			t.Errorf("keys of c: got %d, want kept, theirs and scattered", c.NumWanted())
		}
	})
}

// A snapshot that fails leaves the journal unchanged.
func TestSnapshotFails(t *testing.T) {
	dir := t.TempDir()
	r := opened(t, dir)
	r.submit(t, "c", "x")
	r.host.Changes = func(f func(op string, args msgpack.Map)) { f("set", msgpack.MapOf("name", func() {})) }
	r.Do(func() {
		if _, err := r.Snapshot(); err == nil {
			t.Error("setting that cannot be encoded: got no error")
		}
	})
	r.host.Changes = func(func(string, msgpack.Map)) {}
	var snap *Snapshot
	r.Do(func() { snap, _ = r.Snapshot() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := snap.Write(ctx); err == nil {
		t.Error("Write with a canceled context: got no error")
	}
	r.close(t)
	if got := opened(t, dir).tasks(); got != "x" {
		t.Errorf("tasks: got %s, want x", got)
	}
}

// A record that cannot be replayed prevents the start, with a hint; a panic is one of its errors.
func TestPoisoned(t *testing.T) {
	for what, write := range map[string]func(r *rig){
		"unknown op": func(r *rig) { r.Do(func() { r.log.Note("explode", msgpack.Map{}) }) },
		"newer kind": func(r *rig) {
			r.Do(func() {
				if _, err := r.log.Journal().Append(journal.Kind(99), appendNameRecord(nil, "x", nil)); err != nil {
					t.Error(err)
				}
			})
		},
	} {
		dir := t.TempDir()
		r := opened(t, dir)
		write(r)
		r.close(t)
		n := startIn(t, dir, 0)
		n.Do(func() {
			if err := n.Open(); !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), "journal repair") {
				t.Errorf("%s: got %v, want ErrRecord with a hint", what, err)
			}
		})
	}
	r := startIn(t, t.TempDir(), 0)
	r.Do(func() {
		replay := r.Replay()
		var w taskgraph.Writer
		w.Spec(task.NewKey("x"), []byte("MS\x01panic"), nil, taskgraph.None, 0)
		data := slices.Concat(graphParts("c", []byte{0x80}, w.Serialized())...)
		if err := replay(journal.Record{Kind: recordGraph, Data: data}); !errors.Is(err, ErrRecord) ||
			!strings.Contains(err.Error(), "panicked") {
			t.Errorf("a panic: got %v, want ErrRecord", err)
		}
		if r.panicked != 1 {
			t.Errorf("calls of Panicked: got %d, want 1", r.panicked)
		}
		if err := replay(journal.Record{Kind: recordClient, Data: appendNameRecord(nil, "c", nil)}); err != nil {
			t.Errorf("replay after a panic: got error %v, want none", err)
		}
	})
}
