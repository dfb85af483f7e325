package primitives

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

func TestMetadata(t *testing.T) {
	r := start(t)
	r.Fails("KeyError", "get_metadata", "keys", []any{"a"})
	if v := r.Call("get_metadata", "keys", []any{"a"}, "default", "d"); v != "d" {
		t.Errorf("default: got %v, want d", v)
	}
	r.Fails("KeyError", "get_metadata", "keys", []any{"a"}, "default", "__no_default__")
	r.Call("set_metadata", "keys", []any{"a", "b", 3}, "value", "deep")
	r.Call("set_metadata", "keys", []any{"a", "c"}, "value", 1)
	if v := r.Call("get_metadata", "keys", []any{"a", "b", 3}); v != "deep" {
		t.Errorf("got %v, want deep", v)
	}
	if v, _ := r.Call("get_metadata", "keys", []any{}).(msgpack.Map); len(v) != 1 {
		t.Errorf("all metadata: got %v, want one entry", v)
	}
	r.Fails("KeyError", "get_metadata", "keys", []any{"a", "c", "below a value"})
	r.Fails("at least one key", "set_metadata", "keys", []any{}, "value", 1)
	var all msgpack.Map
	r.Do(func() { all = r.Metadata() })
	before := fmt.Sprint(all)
	r.Call("set_metadata", "keys", []any{"a", "b"}, "value", 2) // replaces what is below
	if after := fmt.Sprint(all); after != before {
		t.Errorf("returned map: got %s, want it unchanged: %s", after, before)
	}
	n := r.again(t)
	if v := n.Call("get_metadata", "keys", []any{"a", "b"}); v != int64(2) {
		t.Errorf("after a restart: got %v, want 2", v)
	}
	if got, want := n.bytes(), r.bytes(); got != want {
		t.Errorf("after a restart: got %d bytes, want %d", got, want)
	}
	n.Do(func() {
		for _, keys := range []any{nil, []any{}, []any{"x", nil}, make([]any, MaxMetadataPath+1)} {
			if known, err := n.Replay("set_metadata", msgpack.MapOf("keys", keys, "value", 1)); !known || err == nil {
				t.Errorf("keys %v: got %v, %v, want an error", keys, known, err)
			}
		}
	})
}

// The counted bytes of metadata are the size of the tree, whatever is set in whatever order.
func TestMetadataGrowth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree msgpack.Map
		empty, _ := val.Size(tree)
		counted := int64(0)
		name := rapid.SampledFrom([]any{"a", "b", int64(1), []any{"t", int64(2)}})
		value := rapid.SampledFrom([]any{"x", int64(7), nil, msgpack.Map{}, msgpack.MapOf("a", "yy"), []any{"list"}})
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			keys := rapid.SliceOfN(name, 1, 4).Draw(t, "keys")
			v := value.Draw(t, "value")
			counted += metadataGrowth(tree, keys, v)
			tree = setPath(tree, keys, v)
			if got, ok := lookUp(tree, keys); !ok || !msgpack.Equal(got, v) {
				t.Fatalf("%v at %v: got %v, %v", v, keys, got, ok)
			}
			if size, _ := val.Size(tree); counted != size-empty {
				t.Fatalf("after %v was set at %v: got %d counted bytes, want %d", v, keys, counted,
					size-empty)
			}
		}
	})
}
