package rpc

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// answer has a field of each kind that Assign sets.
type answer struct {
	Status   string
	Data     []byte
	Any      any
	Map      msgpack.Map
	Flag     bool
	Count    int
	Small    uint8
	Rate     float64
	Interval time.Duration `rpc:"heartbeat-interval"`
	Names    []string
	ByName   map[string]int64
	Inner    *struct{ X int }
	List     []struct{ Action string }
}

func TestAssign(t *testing.T) {
	got := answer{Status: "before", Count: 7}
	err := Assign(msgpack.MapOf("status", "OK", "data", []byte("x"), "any", int64(5), "map", msgpack.MapOf("a", nil),
		"flag", true, "small", int64(200), "rate", int64(2), "heartbeat-interval", 0.5, "names", []any{"a", "b"},
		"by_name", msgpack.MapOf("k", int64(-1)), "inner", msgpack.MapOf("x", int64(3), "y", int64(4)),
		"list", []any{msgpack.MapOf("action", "compute")}, "unknown", int64(1)), &got)
	want := answer{Status: "OK", Data: []byte("x"), Any: int64(5), Map: msgpack.MapOf("a", nil), Flag: true, Count: 7,
		Small: 200, Rate: 2, Interval: 500 * time.Millisecond, Names: []string{"a", "b"},
		ByName: map[string]int64{"k": -1}, Inner: &struct{ X int }{3}, List: []struct{ Action string }{{"compute"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if err := Assign(msgpack.MapOf("status", nil, "inner", nil), &got); err != nil || got.Status != "" ||
		got.Inner != nil {
		t.Errorf("nil: got %+v, %v, want zero values", got, err)
	}
}

func TestAssignRejects(t *testing.T) {
	for want, v := range map[string]any{
		"want rpc.answer":      []any{},
		`"status": `:           msgpack.MapOf("status", int64(1)),
		`"small": `:            msgpack.MapOf("small", int64(256)),
		`"names": element 2: `: msgpack.MapOf("names", []any{"a", nil, int64(1)}),
		`"inner": "x": `:       msgpack.MapOf("inner", msgpack.MapOf("x", "1")),
		`"heartbeat-interval"`: msgpack.MapOf("heartbeat-interval", 1e300),
		`"list": element 0: `:  msgpack.MapOf("list", []any{"x"}),
	} {
		var to answer
		if err := Assign(v, &to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want one with %q", v, err, want)
		}
	}
	for _, to := range []any{nil, answer{}, (*answer)(nil)} {
		if err := Assign(msgpack.Map{}, to); err == nil {
			t.Errorf("Assign to a %T: no error", to)
		}
	}
}

// FuzzAssign puts whatever a peer may answer into a struct.
func FuzzAssign(f *testing.F) {
	for _, v := range []any{nil, []any{1}, msgpack.MapOf("status", "OK", "inner", msgpack.MapOf("x", 1), "by_name",
		msgpack.MapOf("k", 1), "list", []any{msgpack.MapOf("action", "x")}), msgpack.MapOf("by_name",
		msgpack.MapOf([]any{1}, 1), "heartbeat-interval", 1e300)} {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := msgpack.Decode(b)
		if err != nil {
			return
		}
		var to answer
		if err := Assign(v, &to); err != nil {
			return
		}
		if _, ok := v.(msgpack.Map); !ok && v != nil {
			t.Errorf("%v was assigned to a struct", v)
		}
	})
}
