package tracker

import (
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// nodesOf decodes the graph of an update-graph.
func nodesOf(t testing.TB, d wire.Dict) (keys []string, r *taskgraph.Reader) {
	t.Helper()
	v, _ := d.Get("expr_ser")
	s, ok := v.(*wire.Serialized)
	if !ok {
		t.Fatalf("expr_ser is a %T, want *wire.Serialized", v)
	}
	r, err := taskgraph.Read(s)
	if err != nil {
		t.Fatal(err)
	}
	var n taskgraph.Node
	for r.Next(&n) {
		keys = append(keys, task.Key(n.Key).String()+"="+string(n.Spec))
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return keys, r
}

func TestSubmitJoins(t *testing.T) {
	c := empty(t)
	a, b := submit(t, c, "a"), submit(t, c, "b", k("a"))
	again := submit(t, c, "a") // already held: not sent twice
	if again != a || a == b {
		t.Fatal("the states of keys are mixed up")
	}
	m := sent(t, c)
	wantOps(t, m, "update-graph")
	keys, r := nodesOf(t, m[0])
	if len(keys) != 2 || keys[0] != "a=spec-a" || keys[1] != "b=spec-b" || r.Registry != "r" {
		t.Errorf("the graph has %v for registry %q, want a and b for r", keys, r.Registry)
	}
	if got := keyList(t, m[0]); len(got) != 2 || got[0] != "a" || got[1] != "b" {
		t.Errorf("wanted %v, want [a b]", got)
	}
	for field, want := range map[string]any{"fifo_timeout": "1s", "actors": false, "submitting_task": nil,
		"internal_priority": nil} {
		if got, ok := m[0].Get(field); !ok || got != want {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	submit(t, c, "c")
	m = sent(t, c) // tasks are not added to a sent graph
	wantOps(t, m, "update-graph")
	if keys, _ := nodesOf(t, m[0]); len(keys) != 1 || keys[0] != "c=spec-c" {
		t.Errorf("the second graph has %v, want c", keys)
	}
}

func TestSubmitOptionsAndAnnotations(t *testing.T) {
	c := empty(t)
	for _, name := range []string{"a", "b"} {
		if _, err := c.Submit(k(name), []byte("s"), nil, &taskgraph.Annotations{Retries: 2},
			Options{FIFO: "2s", Actors: true, Submitting: k("parent")}); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, c, "plain")
	m := sent(t, c)
	wantOps(t, m, "update-graph", "update-graph")
	if v, _ := m[0].Get("actors"); v != true {
		t.Errorf("actors is %v, want true", v)
	}
	if v := m[0].GetString("submitting_task"); v != "parent" {
		t.Errorf("submitting_task is %q, want parent", v)
	}
	_, r := nodesOf(t, m[0])
	if len(r.Annotations) != 1 || r.Annotations[0].Retries != 2 {
		t.Errorf("annotations %+v, want one set with two retries", r.Annotations)
	}
	if _, r := nodesOf(t, m[1]); len(r.Annotations) != 0 {
		t.Errorf("annotations %+v of a plain task, want none", r.Annotations)
	}
}

// A canceled key is sent again when it is submitted again.
func TestSubmitAfterCancel(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	if err := c.Cancel([]*State{a}, false); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, c, a, Canceled)
	if s := submit(t, c, "a"); s != a {
		t.Fatal("a canceled key that is held has another state")
	}
	wantStatus(t, c, a, Pending)
	wantOps(t, sent(t, c), "update-graph", "cancel-keys", "update-graph")
}

func TestSubmitSlab(t *testing.T) {
	c := empty(t)
	held := submit(t, c, "b")
	canceled := submit(t, c, "c")
	if err := c.Cancel([]*State{canceled}, false); err != nil {
		t.Fatal(err)
	}
	sent(t, c)
	g := NewGraph(Options{FIFO: "1s"}, false)
	var keys task.Key
	var ends []int32
	for _, name := range []string{"a", "b", "", "c"} { // one could not be encoded
		if name != "" {
			keys += k(name)
			g.Writer().Spec(k(name), []byte("s"), nil, taskgraph.None, taskgraph.None)
		}
		ends = append(ends, int32(len(keys)))
	}
	handles := make([]Handle, 4)
	if err := c.SubmitSlab(g, keys, ends, handles); err != nil {
		t.Fatal(err)
	}
	if handles[0].State().Key() != k("a") || handles[1].State() != held || handles[2].State() != nil ||
		handles[3].State() != canceled {
		t.Errorf("the handles have keys %+v, want a, b, none, c", handles)
	}
	wantStatus(t, c, canceled, Pending)
	m := sent(t, c)
	wantOps(t, m, "update-graph")
	if got := keyList(t, m[0]); len(got) != 3 {
		t.Errorf("wanted %v, want three keys", got)
	}
	c.ReleaseSlab(handles)
	m = sent(t, c) // b and c are held by the first futures
	wantOps(t, m, "client-releases-keys")
	if got := keyList(t, m[0]); len(got) != 1 || got[0] != "a" {
		t.Errorf("released %v, want [a]", got)
	}
	if err := c.SubmitSlab(NewGraph(Options{}, false), "", []int32{0, 0}, make([]Handle, 2)); err != nil {
		t.Fatal(err)
	}
	if got := sent(t, c); got != nil {
		t.Errorf("a slab without keys sends %v", opsOf(got))
	}
}

func TestSubmitGraphWantsSome(t *testing.T) {
	c := empty(t)
	g := NewGraph(Options{FIFO: "60s"}, true)
	for _, name := range []string{"a", "b"} {
		g.Writer().Spec(k(name), []byte("s"), nil, taskgraph.None, taskgraph.None)
	}
	handles := make([]Handle, 1)
	if err := c.SubmitGraph(g, []task.Key{k("b")}, handles); err != nil {
		t.Fatal(err)
	}
	m := sent(t, c)
	wantOps(t, m, "update-graph")
	if got := keyList(t, m[0]); len(got) != 1 || got[0] != "b" {
		t.Errorf("wanted %v, want [b]", got)
	}
	if keys, _ := nodesOf(t, m[0]); len(keys) != 2 {
		t.Errorf("the graph has %v, want two nodes", keys)
	}
	if c.keys.Get(k("a")) != nil {
		t.Error("a key that no future holds is tracked")
	}
}

// Graphs whose tasks have ended are dropped; others are kept for the next scheduler.
func TestGraphsAreForgotten(t *testing.T) {
	c := empty(t)
	submit(t, c, "a")
	sent(t, c)
	submit(t, c, "b")
	sent(t, c)
	if len(c.graphs) != 2 {
		t.Fatalf("%d graphs are kept, want 2", len(c.graphs))
	}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w"}))
	submit(t, c, "c")
	sent(t, c)
	if len(c.graphs) != 2 {
		t.Errorf("%d graphs are kept after one has ended, want 2", len(c.graphs))
	}
	if c.keys.Len() != 3 || c.queued != 0 {
		t.Errorf("%d keys and %d queued bytes, want 3 and 0", c.keys.Len(), c.queued)
	}
}

// A task that cannot be sent to Dask fails; other messages are sent.
func TestRefusedGraph(t *testing.T) {
	c := empty(t)
	c.Connected(Identity{})
	bad, err := c.Submit(k("bad"), []byte("MS\x01"), nil, &taskgraph.Annotations{}, Options{FIFO: "1s"})
	if err != nil {
		t.Fatal(err)
	}
	bad2, err := c.Submit(k("bad2"), []byte("MS\x01\xc1"), nil, &taskgraph.Annotations{}, Options{FIFO: "2s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Queue(&message.HeartbeatClient{}); err != nil {
		t.Fatal(err)
	}
	_, m := c.Take()
	if m == nil {
		t.Fatal("nothing is sent, want the other message")
	}
	wantStatus(t, c, bad2, Failed)
	if err := c.KeyErr(bad2); err == nil || err.Error()[:17] != "client: task bad2" {
		t.Errorf("the error is %v, want one about task bad2", err)
	}
	_ = bad // three bytes are not a call of a Go function but a pickle
}
