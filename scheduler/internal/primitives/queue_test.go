package primitives

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

func values(v any) (out []any) {
	list, _ := v.([]any)
	for _, x := range list {
		out = append(out, get(x, "value"))
	}
	return out
}

// Records are returned in the order in which they were put.
func TestQueueOrder(t *testing.T) {
	r := start(t)
	for _, op := range []string{"queue_put", "queue_get", "queue_qsize"} {
		r.Fails("KeyError", op, "name", "q")
	}
	r.Call("queue_create", "name", "q")
	empty := r.bytes()
	for i := range 5 {
		r.Call("queue_put", "name", "q", "data", int64(i))
	}
	if n := r.Call("queue_qsize", "name", "q"); n != int64(5) {
		t.Errorf("size: got %v, want 5", n)
	}
	if v := get(r.Call("queue_get", "name", "q"), "value"); v != int64(0) {
		t.Errorf("the first: got %v, want 0", v)
	}
	if got := fmt.Sprint(values(r.Call("queue_get", "name", "q", "batch", int64(2)))); got != "[1 2]" {
		t.Errorf("batch of two: got %s, want [1 2]", got)
	}
	if got := fmt.Sprint(values(r.Call("queue_get", "name", "q", "batch", true))); got != "[3 4]" {
		t.Errorf("batch of all: got %s, want [3 4]", got)
	}
	if v, ok := r.Call("queue_get", "name", "q", "batch", true).([]any); !ok || len(v) != 0 {
		t.Errorf("all of none: got %v, want an empty list", v)
	}
	if got := r.bytes(); got != empty {
		t.Errorf("an empty queue: got %d bytes, want %d", got, empty)
	}
	r.Fails("queue is empty", "queue_get", "name", "q", "timeout", 0.001)
	r.Fails("integer batch sizes", "queue_get", "name", "q", "timeout", 1, "batch", int64(2))
	r.Fails("batch", "queue_get", "name", "q", "batch", "many")
}

// A bounded queue makes producers wait, and gives each record to one consumer.
func TestQueueBound(t *testing.T) {
	r := start(t)
	r.Call("queue_create", "name", "q", "maxsize", 2)
	r.Call("queue_put", "name", "q", "data", "a")
	r.Call("queue_put", "name", "q", "data", "b")
	r.Fails("is full", "queue_put", "name", "q", "data", "c", "timeout", 0.001)
	put := r.call("queue_put", "name", "q", "data", "c", "timeout", 30)
	if v := get(r.Call("queue_get", "name", "q"), "value"); v != "a" {
		t.Errorf("got %v, want a", v)
	}
	if x := <-put; x.err != nil {
		t.Fatal(x.err)
	}
	r.Call("queue_get", "name", "q", "batch", true)
	const n = 50
	var mu sync.Mutex
	seen := map[any]int{}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for range n / 5 {
				v := get(r.Call("queue_get", "name", "q", "timeout", 30), "value")
				mu.Lock()
				seen[v]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		r.Call("queue_put", "name", "q", "data", int64(i), "timeout", 30)
	}
	wg.Wait()
	for i := range n {
		if seen[int64(i)] != 1 {
			t.Errorf("record %d: received %d times, want 1", i, seen[int64(i)])
		}
	}
}

// Records that were not delivered are put back to the front, in order.
func TestQueueGivesBack(t *testing.T) {
	r := start(t)
	r.Call("queue_create", "name", "q")
	for _, v := range []string{"a", "b", "c"} {
		r.Call("queue_put", "name", "q", "data", v)
	}
	before := r.bytes()
	r.Journal.Lose(errors.New("disk full"))
	r.Fails("disk full", "queue_get", "name", "q", "batch", int64(2))
	r.Journal.Lose(nil)
	// A request for more records than present holds them until it disconnects.
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { _, err := r.TryContext(ctx, "queue_get", "name", "q", "batch", int64(5)); got <- err }()
	name, _ := val.NameOf("q")
	r.Until("all are taken", func() bool { return len(r.queues.byName[name].items) == 0 })
	cancel()
	<-got
	r.Until("all are back", func() bool { return len(r.queues.byName[name].items) == 3 })
	if n := r.bytes(); n != before {
		t.Errorf("got %d bytes, want %d", n, before)
	}
	if got := fmt.Sprint(values(r.Call("queue_get", "name", "q", "batch", true))); got != "[a b c]" {
		t.Errorf("got %s, want a, b, c", got)
	}
}

// A queue is kept as long as a client uses it; waiters then receive an error.
func TestQueueRelease(t *testing.T) {
	r := start(t)
	r.Call("queue_create", "name", "q")
	r.Call("queue_create", "name", "q", "maxsize", 7) // another client; the first bound stays
	r.Call("queue_put", "name", "q", "data", "x")
	release := func() {
		t.Helper()
		if err := r.op(t, "c", "op", "queue_release", "name", "q"); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if n := r.Call("queue_qsize", "name", "q"); n != int64(1) {
		t.Errorf("size: got %v, want 1", n)
	}
	r.Call("queue_get", "name", "q")
	name, _ := val.NameOf("q")
	var calm loop.Signal
	wait := r.call("queue_get", "name", "q")
	r.Until("one waits", func() bool { return r.queues.byName[name].changed != calm })
	release()
	if x := <-wait; x.err == nil {
		t.Errorf("one that waits: got %v, want an error", x.v)
	}
	if n, c := r.bytes(), r.counts(); n != 0 || c.Queues != 0 {
		t.Errorf("after the last release: got %d bytes, %d queues, want none", n, c.Queues)
	}
	release() // no effect
}

// A future in a queue is held until each of its receivers has confirmed it.
func TestQueueFutures(t *testing.T) {
	r := start(t)
	r.task("x")
	r.Call("queue_create", "name", "q")
	r.Call("queue_put", "name", "q", "key", "x")
	r.Call("queue_put", "name", "q", "key", "x")
	if m := r.Call("queue_get", "name", "q"); get(m, "type") != "Future" || get(m, "state") != "memory" {
		t.Errorf("queue_get: got %v, want a future in memory", m)
	}
	for i, want := range []string{"[x]", "[x]", "[]", "[]"} {
		r.Do(func() {
			if got := r.Wants.Of("queue-q"); got != want {
				t.Errorf("after %d confirmations: got held keys %s, want %s", i, got, want)
			}
		})
		if err := r.op(t, fmt.Sprint("client-", i), "op", "queue-future-release", "name", "q", "key", "x"); err != nil {
			t.Fatal(err)
		}
	}
	r.Do(func() {
		if got := r.Wants.Of("client-0"); got != "[x]" {
			t.Errorf("keys of the first receiver: got %s, want [x]", got)
		}
	})
}

func TestQueueReplay(t *testing.T) {
	r := start(t)
	r.task("x")
	r.Call("queue_create", "name", "q", "maxsize", 4)
	r.Call("queue_create", "name", "q")
	for _, v := range []any{"gone", "a", "b"} {
		r.Call("queue_put", "name", "q", "data", v)
	}
	r.Call("queue_put", "name", "q", "key", "x")
	r.Call("queue_get", "name", "q")
	n := r.again(t)
	n.task("x")
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	n.Call("queue_put", "name", "q", "data", "c", "timeout", 1)
	n.Fails("is full", "queue_put", "name", "q", "data", "d", "timeout", 0.001)
	name, _ := val.NameOf("q")
	n.Do(func() {
		if q := n.queues.byName[name]; q.refs != 2 || q.maxsize != 4 {
			t.Errorf("got %d clients and a bound of %d, want 2 and 4", q.refs, q.maxsize)
		}
		for _, op := range []string{"queue_get", "queue_return", "queue-future-release"} {
			args := msgpack.MapOf("name", "q", "data", "back")
			if op == "queue-future-release" {
				args = msgpack.MapOf("name", "q", "key", "x")
			}
			if known, err := n.Replay(op, args); !known || err != nil {
				t.Errorf("Replay of %s: got %v, error %v", op, known, err)
			}
		}
	})
	if got := fmt.Sprint(values(n.Call("queue_get", "name", "q", "batch", true))); got != "[back b x c]" {
		t.Errorf("got %s, want back, b, x and c", got)
	}
}
