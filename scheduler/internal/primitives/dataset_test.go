package primitives

import (
	"errors"
	"fmt"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Datasets hold their keys while they are published, in both forms of the requests.
func TestDatasets(t *testing.T) {
	r := start(t)
	if v := r.Call("publish_put", "name", "one", "keys", []any{"x", "y"}, "data", "value"); get(v, "status") != "OK" ||
		get(v, "name") != "one" {
		t.Errorf("publish_put of one: got %v", v)
	}
	r.Call("publish_put", "names", []any{"two", []any{"t", 3}}, "keys", []any{[]any{"z"}, []any{}}, "data",
		[]any{"v2", int64(3)})
	if got := fmt.Sprint(len(r.Call("publish_list").([]any))); got != "3" {
		t.Errorf("list: got %s names, want 3", got)
	}
	if v := r.Call("publish_get", "name", "one"); get(v, "data") != "value" || len(get(v, "keys").([]any)) != 2 {
		t.Errorf("publish_get of one: got %v", v)
	}
	if v := r.Call("publish_get", "names", []any{"two", "never"}).([]any); get(v[0], "data") != "v2" || v[1] != nil {
		t.Errorf("publish_get of two: got %v", v)
	}
	if v := r.Call("publish_get", "name", "never"); v != nil {
		t.Errorf("get none: got %v, want nil", v)
	}
	r.Do(func() {
		if a, b := r.Wants.Of("published-one"), r.Wants.Of("published-two"); len(a) != len("[x y]") || b != "[z]" {
			t.Errorf("held keys: got %s and %s", a, b)
		}
	})
	r.Fails("already exists", "publish_put", "name", "one", "keys", []any{}, "data", "w")
	before := r.bytes()
	r.Call("publish_put", "name", "one", "keys", []any{"x", "y"}, "data", "valuf", "override", true)
	if got := r.bytes(); got != before {
		t.Errorf("replaced by one of the same size: got %d bytes, want %d", got, before)
	}
	r.Call("publish_delete", "name", "one")
	r.Call("publish_delete", "names", []any{"two", []any{"t", 3}, "never"})
	r.Do(func() {
		if r.Wants.Registered("published-one") || r.Wants.Registered("published-two") {
			t.Error("deleted datasets: still hold keys")
		}
	})
	if c, n := r.counts(), r.bytes(); c.Datasets != 0 || n != 0 {
		t.Errorf("after deletion: got %d datasets, %d bytes, want none", c.Datasets, n)
	}
	r.Fails("names", "publish_put", "names", []any{"a"}, "keys", []any{}, "data", []any{"x"})
	r.Fails("not a list", "publish_put", "names", []any{"a"}, "keys", []any{"x"}, "data", []any{"x"})
	r.Fails("TypeError", "publish_put", "name", "a", "keys", []any{msgpack.MapOf("k", 1)}, "data", "x")
	r.Fails("TypeError", "publish_get", "name", msgpack.MapOf("a", 1))
	r.Fails("TypeError", "publish_delete", "name", msgpack.MapOf("a", 1))
	deep := any("x")
	for range 600 {
		deep = []any{deep}
	}
	r.Fails("nested", "publish_put", "name", "deep", "keys", []any{}, "data", deep)
	r.Journal.Refuse(errors.New("no"))
	r.Fails("no", "publish_put", "name", "a", "keys", []any{"x"}, "data", "x")
	r.Journal.Refuse(nil)
	if c, n := r.counts(), r.bytes(); c.Datasets != 0 || n != 0 {
		t.Errorf("after rejections: got %d datasets, %d bytes, want none", c.Datasets, n)
	}
}

// releases records the released keys.
type releases struct {
	Clients
	keys *[]task.Key
}

func (r *releases) Release(name string, keys ...task.Key) {
	*r.keys = append(*r.keys, keys...)
	r.Clients.Release(name, keys...)
}

func (r *releases) Forget(name string) {
	*r.keys = append(*r.keys, "all of "+task.Key(name))
	r.Clients.Forget(name)
}

// A dataset that replaces another keeps the common keys; one whose record is rejected changes nothing.
func TestDatasetOverride(t *testing.T) {
	r := start(t)
	put := func(data string, keys ...any) {
		t.Helper()
		r.Call("publish_put", "name", "d", "keys", keys, "data", data, "override", true)
	}
	wanted := func() (keys string) {
		r.Do(func() { keys = r.Wants.Of("published-d") })
		return keys
	}
	put("one", "x", "y")
	var released []task.Key
	r.Do(func() { r.datasets.Clients = &releases{r.Wants, &released} })
	put("two", "y", "z")
	r.Do(func() {
		if len(released) != 1 || released[0] != task.NewKey("x") {
			t.Errorf("released keys: got %q, want x only", released)
		}
	})
	before, keys := r.bytes(), wanted()
	r.Journal.Refuse(errors.New("disk full"))
	r.Fails("disk full", "publish_put", "name", "d", "keys", []any{"w"}, "data", "three", "override", true)
	r.Journal.Refuse(nil)
	if v := r.Call("publish_get", "name", "d"); get(v, "data") != "two" {
		t.Errorf("dataset after a rejected record: got %v, want the previous one", v)
	}
	if got := wanted(); got != keys || r.bytes() != before {
		t.Errorf("after a rejected record: got keys %s, want %s; got %d bytes, want %d", got, keys, r.bytes(), before)
	}
	if v := r.again(t).Call("publish_get", "name", "d"); get(v, "data") != "two" {
		t.Errorf("after a restart: got %v, want two", v)
	}
}

// A request with a point of its client's stream waits until the stream has been read up to it.
func TestFlush(t *testing.T) {
	r := start(t)
	r.Do(func() { r.Wants.Desire("c") })
	put := r.call("publish_put", "name", "d", "keys", []any{}, "data", "x", "client", "c", "uid", "u1")
	r.Until("the request waits", func() bool { return len(r.datasets.flushes) == 1 })
	if c := r.counts(); c.Datasets != 0 {
		t.Error("published before the stream has caught up")
	}
	if err := r.op(t, "c", "op", "publish_flush_batched_send", "uid", "u1"); err != nil {
		t.Fatal(err)
	}
	if x := <-put; x.err != nil {
		t.Fatal(x.err)
	}
	// A point before the request, one of a disconnected client, and one with several waiters.
	if err := r.op(t, "c", "op", "publish_flush_batched_send", "uid", "u2"); err != nil {
		t.Fatal(err)
	}
	r.Call("publish_delete", "name", "d", "client", "c", "uid", "u2")
	r.Call("publish_put", "name", "e", "keys", []any{}, "data", "x", "client", "gone", "uid", "u3")
	waits := []<-chan answer{r.call("publish_wait_flush", "uid", "u4"), r.call("publish_wait_flush", "uid", "u4")}
	r.Until("the requests wait", func() bool { return len(r.datasets.flushes) == 1 })
	if err := r.op(t, "c", "op", "publish_flush_batched_send", "uid", "u4"); err != nil {
		t.Fatal(err)
	}
	for _, w := range waits {
		if x := <-w; x.err != nil {
			t.Error(x.err)
		}
	}
	r.Do(func() {
		for i := range 2 * maxFlushes {
			r.datasets.flushReceived(fmt.Sprint(i))
		}
		if n := len(r.datasets.flushes); n > maxFlushes {
			t.Errorf("points without a request: got %d, want at most %d", n, maxFlushes)
		}
		clear(r.datasets.flushes)
		for i := range maxFlushes + 1 {
			r.datasets.flushPoint(fmt.Sprint(i))
		}
		if n := len(r.datasets.flushes); n > maxFlushes {
			t.Errorf("points that never arrive: got %d, want at most %d", n, maxFlushes)
		}
	})
}

func TestDatasetReplay(t *testing.T) {
	r := start(t)
	v, err := wire.EncodeValue([]byte("closed"), wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Call("publish_put", "name", "d", "keys", []any{"x", []any{"y", 1}}, "data", v)
	r.Call("publish_put", "name", "gone", "keys", []any{}, "data", 1)
	n := r.again(t)
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
	n.Do(func() {
		if got := n.Wants.Of("published-d"); len(got) < len("[x (y, 1)]") {
			t.Errorf("held keys: got %s", got)
		}
		if d := n.datasets.byName[mustName("d")]; fmt.Sprintf("%T", d.data) != "*wire.Serialized" {
			t.Errorf("got %T, want a value that is still closed", d.data)
		}
		if known, err := n.Replay("publish_delete", msgpack.MapOf("name", "gone")); !known || err != nil {
			t.Errorf("Replay: got %v, error %v", known, err)
		}
		if known, err := n.Replay("publish_put", msgpack.MapOf("name", "bad", "keys", []any{msgpack.Map{}})); !known ||
			err == nil {
			t.Errorf("keys that are none: got %v, %v, want an error", known, err)
		}
	})
	if c := n.counts(); c.Datasets != 1 {
		t.Errorf("got %d datasets, want 1", c.Datasets)
	}
}
