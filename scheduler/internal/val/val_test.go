package val

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		in    any
		want  int64
		ok    bool
		float bool // is a number
	}{
		{int64(-3), -3, true, true}, {2.9, 2, true, true}, {-1.0, 0, false, true}, {math.Inf(1), 0, false, true},
		{math.NaN(), 0, false, true}, {1e300, 0, false, true}, {"7", 0, false, false}, {nil, 0, false, false},
		{true, 0, false, false},
	} {
		if got, ok := Integer(c.in); got != c.want || ok != c.ok {
			t.Errorf("Integer(%v): got %d, %v, want %d, %v", c.in, got, ok, c.want, c.ok)
		}
		if _, ok := Number(c.in); ok != c.float {
			t.Errorf("Number(%v): got %v, want %v", c.in, ok, c.float)
		}
	}
	m := msgpack.MapOf("a", int64(5), "b", "x")
	if Field(m, "a") != 5 || Field(m, "b") != 0 || Field(m, "c") != 0 || Field(nil, "a") != 0 {
		t.Error("Field: got values other than integers")
	}
	if s := Seconds(time.UnixMicro(1_500_000)); s != 1.5 {
		t.Errorf("Seconds: got %v, want 1.5", s)
	}
	if OrText("", "b") != "b" || OrText("a", "b") != "a" {
		t.Error("OrText: got the wrong value")
	}
}

func TestNames(t *testing.T) {
	for _, v := range []any{"x", int64(1), []any{"t", int64(2)}, 1.5, true} {
		name, err := NameOf(v)
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		back, err := msgpack.Decode(Raw(name))
		if err != nil || !msgpack.Equal(back, v) {
			t.Errorf("%v: got %v, error %v", v, back, err)
		}
	}
	for _, v := range []any{msgpack.MapOf("a", 1), []any{msgpack.Map{}}} {
		if _, err := NameOf(v); err == nil || !strings.Contains(err.Error(), "TypeError") {
			t.Errorf("%v: got %v, want a TypeError", v, err)
		}
	}
	name, _ := NameOf("x")
	if Label(name) != "x" {
		t.Errorf("Label: got %q, want x", Label(name))
	}
}

func TestKeys(t *testing.T) {
	keys, err := KeyList([]any{"a", []any{"b", int64(1)}})
	if err != nil || len(keys) != 2 || keys[0] != task.NewKey("a") {
		t.Fatalf("KeyList: got %v, error %v", keys, err)
	}
	if _, err := KeyList([]any{&wire.Pickled{Data: []byte("x")}}); err == nil ||
		!strings.Contains(err.Error(), "future.key") {
		t.Errorf("a Python object: got %v, want an error that names future.key", err)
	}
	if _, err := KeyList([]any{msgpack.Map{}}); err == nil {
		t.Error("map as a key: got no error")
	}
	if list := RawKeys(keys); len(list) != 2 || string(list[0].(msgpack.Raw)) != string(keys[0]) {
		t.Errorf("RawKeys: got %v", list)
	}
	if _, err := KeyOf(msgpack.MapOf("k", "x"), "key"); err == nil {
		t.Error("KeyOf of a missing key: got no error")
	}
	if k, err := KeyOf(msgpack.MapOf("key", "x"), "key"); err != nil || k != task.NewKey("x") {
		t.Errorf("KeyOf: got %v, error %v", k, err)
	}
	for raw, want := range map[string]task.Key{"": "", "\xc0": "", "\xa1x": task.NewKey("x")} {
		if k, err := ParseKey(msgpack.Raw(raw)); err != nil || k != want {
			t.Errorf("ParseKey(%q): got %v, %v, want %v", raw, k, err, want)
		}
	}
	if _, err := ParseKey(msgpack.Raw("\x81")); err == nil {
		t.Error("ParseKey of a truncated map: got no error")
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		in   any
		want []string
		ok   bool
	}{
		{nil, nil, true}, {"a", []string{"a"}, true}, {[]any{"a", "b"}, []string{"a", "b"}, true},
		{wire.Set{"a"}, []string{"a"}, true}, {[]any{1}, nil, false}, {7, nil, false},
	} {
		got, err := Texts(c.in)
		if (err == nil) != c.ok || !slices.Equal(got, c.want) {
			t.Errorf("Texts(%v): got %v, %v, want %v", c.in, got, err, c.want)
		}
	}
}

// The size of a value grows with its contents, and its depth is that of its nesting.
func TestSize(t *testing.T) {
	frame := wire.HeapFrame(make([]byte, 100))
	for _, c := range []struct {
		v     any
		least int64
		depth int
	}{
		{nil, 1, 0}, {int64(1), 1, 0}, {"12345", 5, 0}, {[]byte("123"), 3, 0}, {msgpack.Raw("123"), 3, 0},
		{[]any{}, 1, 1}, {[]any{"123", []any{"4"}}, 4, 2}, {wire.Set{"1"}, 1, 1}, {msgpack.MapOf("123", []any{}), 3, 2},
		{msgpack.Map{{Key: []any{"x"}, Value: 1}}, 1, 2},
		{&wire.Serialized{Header: []byte("123"), Frames: []wire.Frame{frame}}, 103, 1},
		{(*wire.Serialized)(nil), 1, 0}, {(*wire.Pickled)(nil), 1, 0}, {&wire.Pickled{Data: []byte("123")}, 3, 1},
		{wire.Enum{Module: "m", Class: "c", Name: "n"}, 3, 0},
	} {
		n, depth := Size(c.v)
		if n < c.least || n > c.least+200 || depth != c.depth {
			t.Errorf("Size(%v): got %d, depth %d, want about %d, depth %d", c.v, n, depth, c.least, c.depth)
		}
	}
	deep := any("x")
	for range maxNesting {
		deep = []any{deep}
	}
	if _, err := CheckSize("value", deep); err != nil {
		t.Errorf("maximum nesting: got error %v, want none", err)
	}
	if _, err := CheckSize("value", []any{deep}); err == nil ||
		!strings.Contains(err.Error(), "value: nested 513 deep") {
		t.Errorf("nesting above the maximum: got error %v", err)
	}
}

// Kept values share no memory with their message.
func TestClosed(t *testing.T) {
	body := []byte("bytes")
	in := &wire.Serialized{Header: []byte("header"), Frames: []wire.Frame{wire.HeapFrame(body)}}
	v, err := Closed(in)
	if err != nil {
		t.Fatal(err)
	}
	out := v.(*wire.Serialized)
	clear(body)
	clear(in.Header)
	if string(out.Header) != "header" || string(out.Frames[0].Bytes()) != "bytes" {
		t.Errorf("got %q, %q, want header and bytes", out.Header, out.Frames[0].Bytes())
	}
	if v, err := Closed(nil); v != nil || err != nil {
		t.Errorf("Closed(nil): got %v, error %v", v, err)
	}
	v, err = Closed("text")
	if s, ok := v.(*wire.Serialized); !ok || err != nil {
		t.Errorf("plain: got %T, %v, want it serialized", v, err)
	} else if back, err := s.Decode(wire.DecodeOptions{}); err != nil || back != "text" {
		t.Errorf("plain value: got %v, error %v", back, err)
	}
	list := []any{[]byte("x")}
	kept := ClosedValue(list).([]any)
	list[0].([]byte)[0] = 'y'
	if string(kept[0].([]byte)) != "x" {
		t.Errorf("plain value: got %s, want memory of its own", kept[0])
	}
	if OrNil(nil) != nil || OrNil(out) == nil {
		t.Error("OrNil: got the wrong value")
	}
}
