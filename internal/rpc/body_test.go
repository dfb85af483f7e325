package rpc

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func parse(t testing.TB, v any) (Body, error) {
	t.Helper()
	m := raw(t, v)
	return parseBody(m.Body(), m, nil)
}

func TestParseBody(t *testing.T) {
	many := obj{"op": "x"}
	for i := range MaxArgs {
		many[fmt.Sprint("a", i)] = i
	}
	for name, c := range map[string]struct {
		v    any
		says string
	}{
		"list":           {[]any{"op"}, "expected a map, got an array"},
		"nil":            {nil, "expected a map, got nil"},
		"no op":          {obj{"reply": true}, "missing 'op' key"},
		"op is a number": {obj{"op": 7}, "'op' must be a string, got an int"},
		"int key": {msgpack.Map{{Key: 1, Value: 2}, {Key: "op", Value: "x"}},
			"keywords must be strings, got an int"},
		"huge op":        {obj{"op": strings.Repeat("x", 1<<20)}, "rpc.MaxOp"},
		"many arguments": {many, "rpc.MaxArgs"},
	} {
		_, err := parse(t, c.v)
		var bad *ProtocolError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 200 {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	for name, b := range map[string][]byte{
		"empty":     {},
		"truncated": {0x82, 0xa2, 'o', 'p', 0xa1, 'x'},
		"bomb":      {0xdf, 0xff, 0xff, 0xff, 0xff},
		"bad value": {0x82, 0xa1, 'a', 0xc1, 0xa2, 'o', 'p'},
	} {
		if _, err := parseBody(b, nil, nil); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	b, err := parse(t, msgpack.Map{{Key: "op", Value: "x"}, {Key: "a", Value: 1}, {Key: "reply", Value: 0},
		{Key: "a", Value: 2}})
	if err != nil || b.Op != "x" {
		t.Fatal(err)
	}
	var a int
	if ok, err := b.Arg("a", &a); !ok || err != nil || a != 2 {
		t.Errorf("the last of two counts: %d, %v, %v", a, ok, err)
	}
	if ok, err := b.Arg("b", &a); ok || err != nil {
		t.Errorf("an argument that is not there: %v, %v", ok, err)
	}
	if _, err := b.Arg("a", 7); err == nil {
		t.Error("Arg took a number for a pointer")
	}
}

// TestFlags: Python's idea of truth.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		v    any
		want bool
	}{
		{nil, false}, {true, true}, {false, false}, {0, false}, {1, true}, {0.0, false}, {0.5, true}, {"", false},
		{"no", true},
		{[]any{}, false}, {[]any{nil}, true}, {[]byte{}, false}, {[]byte{0}, true}, {obj{}, false}, {obj{"a": 1}, true},
		{uint64(math.MaxUint64), true},
	} {
		b, err := parse(t, obj{"op": "x", "reply": c.v})
		if err != nil {
			t.Fatal(err)
		}
		if got := truth(b.reply, !c.want); got != c.want {
			t.Errorf("%v is %v", c.v, got)
		}
		if got := truth(b.close, c.want); got != c.want {
			t.Errorf("the default of %v is %v", c.want, got)
		}
	}
}

type everything struct {
	Bool    bool           `rpc:"bool,optional"`
	Int8    int8           `rpc:"int8,optional"`
	Uint    uint16         `rpc:"uint,optional"`
	Float   float64        `rpc:"float,optional"`
	Text    string         `rpc:"text,optional"`
	Bytes   []byte         `rpc:"bytes,optional"`
	List    []string       `rpc:"list,optional"`
	Dict    map[string]int `rpc:"dict,optional"`
	Any     any            `rpc:"any,optional"`
	Raw     msgpack.Raw    `rpc:"raw,optional"`
	Wait    time.Duration  `rpc:"wait,optional"`
	Pointer *int
	Inner   struct{ FieldName int } `rpc:"inner,optional"`
	Keys    map[any]int             `rpc:"keys,optional"`
	Skipped int                     `rpc:"-"`
}

func TestArgs(t *testing.T) {
	seven := 7
	for name, c := range map[string]struct {
		v    any
		want everything
		says string
	}{
		"bool":       {obj{"bool": true}, everything{Bool: true}, ""},
		"int":        {obj{"int8": -128}, everything{Int8: -128}, ""},
		"int range":  {obj{"int8": 128}, everything{}, "does not fit"},
		"uint":       {obj{"uint": 65535}, everything{Uint: 65535}, ""},
		"uint range": {obj{"uint": -1}, everything{}, "does not fit"},
		"uint big":   {obj{"uint": uint64(math.MaxUint64)}, everything{}, "does not fit"},
		"float":      {obj{"float": 1.5}, everything{Float: 1.5}, ""},
		"float int":  {obj{"float": 3}, everything{Float: 3}, ""},
		"text":       {obj{"text": "x"}, everything{Text: "x"}, ""},
		"text bytes": {obj{"text": []byte("x")}, everything{}, "got bytes, want string"},
		"bytes":      {obj{"bytes": []byte{1}}, everything{Bytes: []byte{1}}, ""},
		"list":       {obj{"list": []any{"a", "b"}}, everything{List: []string{"a", "b"}}, ""},
		"list bad":   {obj{"list": []any{"a", 1}}, everything{}, "element 1: got an int"},
		"dict":       {obj{"dict": obj{"a": 1}}, everything{Dict: map[string]int{"a": 1}}, ""},
		"dict bad":   {obj{"dict": msgpack.Map{{Key: 1, Value: 1}}}, everything{}, "key 1"},
		"any":        {obj{"any": []any{1}}, everything{Any: []any{int64(1)}}, ""},
		"raw":        {obj{"raw": []any{1}}, everything{Raw: msgpack.Raw{0x91, 1}}, ""},
		"seconds":    {obj{"wait": 1.5}, everything{Wait: 1500 * time.Millisecond}, ""},
		"no seconds": {obj{"wait": "soon"}, everything{}, "number of seconds"},
		"eternity":   {obj{"wait": 1e300}, everything{}, "out of range"},
		"nil":        {obj{"text": nil, "list": nil}, everything{}, ""},
		"pointer":    {obj{"pointer": 7}, everything{Pointer: &seven}, ""},
		"inner": {obj{"inner": obj{"field_name": 3, "newer": 1}}, everything{Inner: struct{ FieldName int }{3}},
			""},
		"array key": {obj{"keys": msgpack.Map{{Key: []any{1}, Value: 1}}}, everything{}, "cannot be the key"},
		"skipped":   {obj{"skipped": 1}, everything{}, "unexpected keyword argument"},
		"control":   {obj{"reply": true, "close": false, "serializers": []any{"msgpack"}}, everything{}, ""},
	} {
		c.v.(obj)["op"] = "x"
		b, err := parse(t, c.v)
		if err != nil {
			t.Fatal(err)
		}
		var got everything
		err = b.Args(&got)
		if c.says != "" {
			var bad *ArgumentError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	b, _ := parse(t, obj{"op": "x", "a": 1, "reply": false})
	var all msgpack.Map
	if err := b.Args(&all); err != nil || !msgpack.Equal(all, msgpack.Map{{Key: "a", Value: int64(1)}}) {
		t.Errorf("into a map: %v, %v", all, err)
	}
	if b.Args(7) == nil || b.Args(new(int)) == nil {
		t.Error("Args took what is no struct")
	}
}

// TestRequestRoundTrip: what request makes of arguments, Args reads.
func TestRequestRoundTrip(t *testing.T) {
	seven := 7
	in := everything{Text: "x", List: []string{"a"}, Wait: 2 * time.Second, Pointer: &seven,
		Dict: map[string]int{"k": 1}}
	for _, args := range []any{in, &in} {
		m, err := request("op", args, true)
		if err != nil {
			t.Fatal(err)
		}
		if m[0].Key != "op" || m[len(m)-1].Key != "reply" || m[len(m)-1].Value != true {
			t.Errorf("request %v", m)
		}
		b, err := parse(t, m)
		if err != nil {
			t.Fatal(err)
		}
		var out everything
		if err := b.Args(&out); err != nil || !reflect.DeepEqual(in, out) {
			t.Errorf("%+v became %+v, %v", in, out, err)
		}
	}
}

func TestSnake(t *testing.T) {
	for in, want := range map[string]string{"Keys": "keys", "StimulusID": "stimulus_id", "X": "x",
		"NWorkers": "nworkers", "WhoHas": "who_has"} {
		if got := snake(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

// FuzzRequest feeds bytes to everything that looks into a request before a handler does.
func FuzzRequest(f *testing.F) {
	for _, v := range []any{
		obj{"op": "identity", "reply": true}, obj{"op": "echo", "data": []any{1, obj{"__Serialized__": 1}}},
		obj{"op": "close"},
		[]any{obj{"op": "a", "n": 1}, "OK"}, msgpack.Map{{Key: "op", Value: "x"}, {Key: "op", Value: "y"}},
		obj{"op": "x", "serializers": []any{"pickle"}, "inner": obj{"field_name": 1}, "list": []any{"a"}, "wait": 1e9},
		obj{"status": "uncaught-error", "exception": []byte{0x80, 4, 'N', '.'}, "exception_text": "ValueError('x')"},
	} {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, []byte{})
	}
	f.Add([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, []byte{0x81})
	f.Fuzz(func(t *testing.T, body, frame []byte) {
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(frame)}}
		if b, err := parseBody(body, m, nil); err == nil {
			if len(b.Op) > MaxOp {
				t.Errorf("an op of %d bytes", len(b.Op))
			}
			n := 0
			for range b.Fields() {
				n++
			}
			if n != b.n {
				t.Errorf("%d fields, %d were counted", n, b.n)
			}
			truth(b.reply, true)
			stringList(b.serializers)
			var in everything
			_ = b.Args(&in)
			_, _ = b.Values()
		}
		_ = eachMessage(m, nil, func(b *Body) error { _, _ = b.Values(); return nil })
		_ = decodeReply("op", "peer", m, new(everything))
	})
}
