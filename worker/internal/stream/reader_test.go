package stream

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// encode encodes messages as the scheduler does.
func encode(t testing.TB, orders ...any) *wire.Message {
	t.Helper()
	m, err := wire.Encode(orders, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// first returns the ops of a message, at the first one.
func first(t testing.TB, m *wire.Message) *message.Ops {
	t.Helper()
	ops := message.ReadOps(m.Body())
	if !ops.Next() {
		t.Fatal(ops.Err())
	}
	return &ops
}

func computeTask(more ...any) msgpack.Map {
	m := msgpack.MapOf("op", "compute-task", "key", "k", "run_id", 7, "priority", []any{-1, 2, 3.5}, "stimulus_id", "s",
		"who_has", msgpack.MapOf("a", []any{"tcp://h:1", "tcp://h:2"}, "b", []any{"tcp://h:1"}), "nbytes",
		msgpack.MapOf("b", 20, "a", 10),
		"run_spec", []byte("MS\x01"), "resource_restrictions", msgpack.MapOf("GPU", 1), "actor", true,
		"annotations", msgpack.MapOf("timeout", 2), "span_id", "span")
	for i := 0; i < len(more); i += 2 {
		m.Set(more[i].(string), more[i+1])
	}
	return m
}

func TestReaderTask(t *testing.T) {
	var in Reader
	for range 2 { // the reader reuses its memory
		m := encode(t, computeTask())
		ev, err := in.Task(first(t, m), m)
		if err != nil {
			t.Fatal(err)
		}
		want := state.ComputeTask{Stimulus: "s", Key: task.NewKey("k"), RunID: 7, Priority: state.Priority{-1, 2, 3.5},
			Actor: true,
			Deps: []state.Dep{
				{Key: task.NewKey("a"), NBytes: 10, WhoHas: []string{"tcp://h:1", "tcp://h:2"}},
				{Key: task.NewKey("b"), NBytes: 20, WhoHas: []string{"tcp://h:1"}},
			},
			Spec: []byte("MS\x01"), Resources: []state.Resource{{Name: "GPU", Amount: 1}}, SpanID: "span",
			Annotations: ev.Annotations}
		if !reflect.DeepEqual(*ev, want) {
			t.Errorf("got %+v, want %+v", *ev, want)
		}
		if v, err := msgpack.Decode(ev.Annotations); err != nil || !reflect.DeepEqual(v,
			msgpack.MapOf("timeout", int64(2))) {
			t.Errorf("annotations %v, %v", v, err)
		}
	}
}

// Optional fields that are missing or nil leave their field empty.
func TestReaderTaskBare(t *testing.T) {
	var in Reader
	m := encode(t, msgpack.MapOf("op", "compute-task", "key", "k", "priority", nil, "who_has", nil, "annotations",
		msgpack.Map{}, "run_spec", []byte("x")))
	ev, err := in.Task(first(t, m), m)
	if err != nil {
		t.Fatal(err)
	}
	if ev.Deps != nil || ev.Annotations != nil || ev.Resources != nil || ev.Priority != (state.Priority{}) ||
		string(ev.Spec) != "x" {
		t.Errorf("got %+v", ev)
	}
	m = encode(t, computeTask("nbytes", msgpack.MapOf("a", nil)))
	if ev, err = in.Task(first(t, m), m); err != nil || ev.Deps[0].NBytes != -1 || ev.Deps[1].NBytes != -1 {
		t.Errorf("unknown sizes: got %+v, %v", ev, err)
	}
}

// A pickled task becomes its spec; one that is not a task fails with the reason when it is run.
func TestReaderTaskPickled(t *testing.T) {
	var in Reader
	m := encode(t, computeTask("run_spec", wire.ToPickle{Value: "x"}))
	ev, err := in.Task(first(t, m), m)
	if err != nil || len(ev.Spec) == 0 || ev.Spec[0] != 0x80 || ev.Data != nil {
		t.Errorf("got %+v, %v", ev, err)
	}
	m = encode(t, computeTask("run_spec", 5))
	ev, err = in.Task(first(t, m), m)
	if bad, ok := ev.Data.(error); err != nil || !ok || bad == nil || ev.Spec != nil {
		t.Errorf("got %+v, %v", ev, err)
	}
}

func TestReaderTaskRejects(t *testing.T) {
	for name, m := range map[string]msgpack.Map{
		"priority":              computeTask("priority", "high"),
		"who_has":               computeTask("who_has", []any{1}),
		"nbytes":                computeTask("nbytes", []any{1}),
		"resource_restrictions": computeTask("resource_restrictions", msgpack.MapOf("GPU", "all")),
	} {
		var in Reader
		msg := encode(t, m)
		if ev, err := in.Task(first(t, msg), msg); err == nil || !containsAll(err.Error(), "compute-task", name) {
			t.Errorf("%s: got %+v, %v", name, ev, err)
		}
	}
}

func TestReaderEvents(t *testing.T) {
	a, b := task.NewKey("a"), task.NewKey("b")
	holders := msgpack.MapOf("a", []any{"tcp://h:1"})
	dep := []state.Dep{{Key: a, NBytes: 5, WhoHas: []string{"tcp://h:1"}}}
	unknown := []state.Dep{{Key: a, NBytes: -1, WhoHas: []string{"tcp://h:1"}}}
	var in Reader
	for _, c := range []struct {
		op     string
		fields []any
		want   state.Event
	}{
		{"free-keys", []any{"keys", []any{"a", "b"}}, &state.FreeKeys{Stimulus: "s", Keys: []task.Key{a, b}}},
		{"free-keys", []any{"keys", msgpack.MapOf("__Set__", true, "as-list", []any{"b"})},
			&state.FreeKeys{Stimulus: "s", Keys: []task.Key{b}}},
		{"remove-replicas", []any{"keys", []any{"b"}}, &state.RemoveReplicas{Stimulus: "s", Keys: []task.Key{b}}},
		{"acquire-replicas", []any{"who_has", holders, "nbytes", msgpack.MapOf("a", 5)},
			&state.AcquireReplicas{Stimulus: "s", Deps: dep}},
		{"refresh-who-has", []any{"who_has", holders, "nbytes", msgpack.MapOf("a", 5)},
			&state.RefreshWhoHas{Stimulus: "s", Deps: unknown}},
		{"steal-request", []any{"key", "a"}, &state.StealRequest{Stimulus: "s", Key: a}},
		{"cancel-compute", []any{"key", "b"}, &state.CancelCompute{Stimulus: "s", Key: b}},
		{"remove-worker", []any{"worker", "tcp://h:1"}, &state.RemovePeer{Stimulus: "s", Peer: "tcp://h:1"}},
		{"close", []any{"reason", "over"}, nil},
		{"nonsense", nil, nil},
	} {
		fields := append([]any{"op", c.op, "stimulus_id", "s", "more", []any{1}}, c.fields...)
		ops := first(t, encode(t, msgpack.MapOf(fields...)))
		ev, err := in.Event(ops)
		if err != nil || !reflect.DeepEqual(ev, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.op, ev, err, c.want)
		}
	}
}

// A field of the wrong type is an error that names message and field.
func TestReaderEventRejects(t *testing.T) {
	var in Reader
	for op, c := range map[string]struct {
		m    msgpack.Map
		want string
	}{
		"free-keys":        {msgpack.MapOf("keys", 5), "free-keys: field keys: "},
		"remove-replicas":  {msgpack.MapOf("keys", "a"), "remove-replicas: field keys: "},
		"acquire-replicas": {msgpack.MapOf("who_has", 1), "acquire-replicas: field who_has: "},
		"refresh-who-has": {msgpack.MapOf("who_has", msgpack.MapOf("a", "tcp://h:1")),
			"refresh-who-has: field who_has: "},
		"steal-request":  {msgpack.MapOf("key", msgpack.Map{}), "steal-request: field key: "},
		"cancel-compute": {msgpack.MapOf("stimulus_id", 1), "cancel-compute: field stimulus_id: "},
		"remove-worker":  {msgpack.MapOf("worker", 1), "remove-worker: field worker: "},
	} {
		c.m.Set("op", op)
		if _, err := in.Event(first(t, encode(t, c.m))); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v: got %v, want %s…", op, c.m, err, c.want)
		}
	}
}

// Each address of a peer is stored once.
func TestReaderAddresses(t *testing.T) {
	var in Reader
	raw, err := msgpack.Append(nil, msgpack.MapOf("a", []any{"tcp://h:1", "tcp://h:2"}, "b", []any{"tcp://h:1"}))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		deps, err := in.Deps(raw, nil)
		if err != nil || len(deps) != 2 || !slices.Equal(deps[0].WhoHas, []string{"tcp://h:1", "tcp://h:2"}) ||
			len(in.addresses) != 2 {
			t.Fatalf("got %v, %v with %d addresses", deps, err, len(in.addresses))
		}
		if n := len(deps[0].WhoHas); cap(deps[0].WhoHas) != n {
			t.Errorf("capacity of the holders of one key: got %d, want %d", cap(deps[0].WhoHas), n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = in.Deps(raw, nil) }); n > 0 {
		t.Errorf("got %v allocations for known addresses, want 0", n)
	}
}

// Forget leaves no reference to a message, whose memory may be reused.
func TestReaderForget(t *testing.T) {
	var in Reader
	for op, keys := range map[string]*[]task.Key{"free-keys": &in.free.Keys, "remove-replicas": &in.remove.Keys} {
		if _, err := in.Event(first(t, encode(t, msgpack.MapOf("op", op, "keys", []any{"a", "b"})))); err != nil {
			t.Fatal(err)
		}
		if list := *keys; len(list) != 2 || list[0] == "" {
			t.Fatalf("%s: got keys %v", op, list)
		}
		in.Forget()
		if list := *keys; list[0] != "" || list[1] != "" {
			t.Errorf("%s: got keys %v after Forget, want none", op, list)
		}
	}
}
