package topics

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
)

type rig struct {
	*hosttest.Host
	*Topics
	sent []string // client, topic and message of sent events; owner: the loop
}

func start(t *testing.T, length int, limit int64) *rig {
	r := &rig{Host: hosttest.New(t)}
	r.Topics = New(Host{Loop: r.Loop, Log: r.Host.Log, Length: length, Bytes: limit,
		Send: func(client string, m msgpack.Map) {
			e, _ := m.Get("event")
			r.sent = append(r.sent, fmt.Sprint(client, " ", m.GetString("topic"), " ", e.([]any)[1]))
		}})
	r.Serve(r.Register)
	return r
}

// messages returns those of a topic, oldest first.
func messages(list []any) (out []any) {
	for _, e := range list {
		out = append(out, e.([]any)[1])
	}
	return out
}

// Events are kept for their topic, up to its length, and returned on request.
func TestEvents(t *testing.T) {
	r := start(t, 3, 1<<20)
	for i := range 5 {
		r.Call("log_event", "topic", "a", "msg", i)
	}
	r.Call("log_event", "topic", []any{"b", "c"}, "msg", msgpack.MapOf("x", 1))
	if got := fmt.Sprint(messages(r.Call("events", "topic", "a").([]any))); got != "[2 3 4]" {
		t.Errorf("a: got %s, want the last three", got)
	}
	all := r.Call("events").(msgpack.Map)
	if len(all) != 3 || !all.Has("b") || !all.Has("c") {
		t.Errorf("all events: got %v", all)
	}
	if l := r.Call("events", "topic", "never").([]any); len(l) != 0 {
		t.Errorf("unknown topic: got %v, want none", l)
	}
	r.Fails("not a string", "log_event", "topic", []any{1}, "msg", 1)
	r.Fails("not a string", "log_event", "topic", 7, "msg", 1)
	r.Do(func() {
		if n := len(r.List("never")); n != 0 {
			t.Errorf("List of an unknown topic: got %d, want 0", n)
		}
		before := r.bytes
		r.Forget("a")
		r.Forget("a")
		if len(r.List("a")) != 0 || r.bytes >= before {
			t.Errorf("removed topic: got %v, %d bytes of %d", r.List("a"), r.bytes, before)
		}
	})
}

// Subscribers receive events until they unsubscribe or leave.
func TestSubscribers(t *testing.T) {
	r := start(t, 10, 1<<20)
	r.Do(func() {
		for _, s := range [][2]string{{"a", "c1"}, {"a", "c2"}, {"b", "c1"}} {
			if err := r.Subscribe(s[0], s[1]); err != nil {
				t.Error(err)
			}
		}
		r.Publish("1", "a", "b", "c")
		if n := len(r.sent); n != 3 {
			t.Errorf("sent: got %v, want three", r.sent)
		}
		r.sent = nil
		r.Unsubscribe("a", "c1")
		r.Unsubscribe("never", "c1")
		r.Publish("2", "a")
		if got := fmt.Sprint(r.sent); got != "[c2 a 2]" {
			t.Errorf("sent: got %s, want one to c2", got)
		}
		r.UnsubscribeAll("c1")
		if n, known := r.Subscribers("b"); n != 0 || !known {
			t.Errorf("b: got %d, %v, want 0 subscribers", n, known)
		}
		if n, known := r.Subscribers("a"); n != 1 || !known {
			t.Errorf("a: got %d, %v, want 1 subscriber", n, known)
		}
		if _, known := r.Subscribers("never"); known {
			t.Error("unknown topic: got known")
		}
	})
}

// A message of a worker has its address, unless the topic has.
func TestFromWorker(t *testing.T) {
	r := start(t, 10, 1<<20)
	r.Do(func() {
		for _, topic := range []string{"w", "other"} {
			if err := r.PublishFrom(topic, msgpack.MapOf("x", 1), "w"); err != nil {
				t.Error(err)
			}
		}
		if err := r.PublishFrom("plain", "text", "w"); err != nil {
			t.Error(err)
		}
		for topic, want := range map[string]string{"w": "", "other": "w"} {
			if m, _ := messages(r.List(topic))[0].(msgpack.Map); m.GetString("worker") != want {
				t.Errorf("%s: got %v, want worker %q", topic, m, want)
			}
		}
	})
}

// Events are bounded in bytes: of one topic, of all, and of one event.
func TestBytes(t *testing.T) {
	const limit = 64 << 10
	r := start(t, 1<<20, limit)
	r.Do(func() {
		if err := r.Subscribe("big", "c"); err != nil {
			t.Fatal(err)
		}
		r.Publish(strings.Repeat("x", limit/8), "big")
		if len(r.sent) != 1 || len(r.List("big")) != 0 {
			t.Errorf("large event: sent to %d, kept %d, want it sent and not kept", len(r.sent), len(r.List("big")))
		}
		for range 1000 {
			r.Publish(strings.Repeat("y", 500), "one")
		}
		if n := r.byName["one"].bytes; n > limit/8 {
			t.Errorf("bytes of one topic: got %d, want at most %d", n, limit/8)
		}
		for i := range 400 {
			r.Publish(strings.Repeat("z", 500), fmt.Sprint("topic-", i%40))
			if r.bytes > limit {
				t.Fatalf("bytes of all topics: got %d, want at most %d", r.bytes, limit)
			}
			var sum int64
			for _, topic := range r.byName {
				sum += topic.bytes
			}
			if sum != r.bytes {
				t.Fatalf("bytes of topics: got %d, want the counted %d", sum, r.bytes)
			}
		}
		if !r.Logged("events dropped") {
			t.Error("log: got no line about dropped events")
		}
	})
}

// Topics without subscribers are removed for new ones; if all have subscribers, new ones are rejected.
func TestManyTopics(t *testing.T) {
	r := start(t, 1, 1<<30)
	r.Do(func() {
		for i := range Max + 10 {
			r.Publish(1, fmt.Sprint(i))
		}
		if len(r.byName) > Max {
			t.Errorf("topics: got %d, want at most %d", len(r.byName), Max)
		}
		clear(r.byName)
		for i := range Max {
			if err := r.Subscribe(fmt.Sprint(i), "c"); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Subscribe("one more", "c"); err == nil {
			t.Error("one topic too many: got no error")
		}
		r.Publish(1, "one more")
	})
}

// The ring of a topic keeps its order and its count of bytes while it drops and moves.
func TestRing(t *testing.T) {
	var x topic
	for i := range 1000 {
		x.add(event{msg: i, bytes: 10}, 7, 1<<20)
		list := messages(x.list())
		if list[len(list)-1] != i || len(list) != min(i+1, 7) || x.bytes != int64(10*len(list)) {
			t.Fatalf("after %d events: got %v, %d bytes", i+1, list, x.bytes)
		}
	}
	if x.count != 1000 || cap(x.events) > 200 {
		t.Errorf("got a count of %d and room for %d, want 1000 and few", x.count, cap(x.events))
	}
}
