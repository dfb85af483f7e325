package fetch

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// marker returns a value that refers to a frame.
func marker(at int) []byte {
	b := msgpack.AppendString(msgpack.AppendMapHeader(nil, 1), "__Serialized__")
	return msgpack.AppendInt(b, int64(at))
}

func TestValues(t *testing.T) {
	header, err := msgpack.Append(nil, wire.NewDict("num-sub-frames", 1))
	if err != nil {
		t.Fatal(err)
	}
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xc0}), wire.HeapFrame(header),
		wire.HeapFrame([]byte("x"))}}
	for name, raw := range map[string][]byte{"number": {5}, "nil": {0xc0}, "empty map": {0x80}, "list": {0x90},
		"other map": append([]byte{0x81}, 0xa1, 'a', 1), "map of numbers": {0x81, 1, 2}} {
		v, err := readValue(m, raw)
		if err != nil || v.ser != nil || string(v.raw) != string(raw) {
			t.Errorf("%s: %+v, %v, want the value itself", name, v, err)
		}
	}
	v, err := readValue(m, marker(1))
	if err != nil || v.ser == nil || len(v.ser.Frames) != 1 || string(v.ser.Frames[0].Bytes()) != "x" {
		t.Errorf("a value in frames: %+v, %v, want one frame", v, err)
	}
	for at, want := range map[int]string{0: "frame 0 of 3", 3: "frame 3 of 3", 2: ""} {
		if _, err := readValue(m, marker(at)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("frame %d: %v, want an error with %q", at, err, want)
		}
	}
	long, err := msgpack.Append(nil, wire.NewDict("num-sub-frames", 2))
	if err != nil {
		t.Fatal(err)
	}
	m.Frames[1] = wire.HeapFrame(long)
	if _, err := readValue(m, marker(1)); err == nil || !strings.Contains(err.Error(), "2 frames has only 1") {
		t.Errorf("header with too many frames: got %v, want an error", err)
	}
	m.Frames[1] = wire.HeapFrame([]byte{0x80})
	if _, err := readValue(m, marker(1)); err == nil || !strings.Contains(err.Error(), "num-sub-frames") {
		t.Errorf("header without the number of frames: got %v, want an error", err)
	}
}

func TestValueDecodes(t *testing.T) {
	s, err := task.EncodeValue([]string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := As[[]string](Value{ser: s}); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%v, %v, want a and b", got, err)
	}
	if _, err := As[int](Value{ser: s}); err == nil {
		t.Error("texts as a number: got nil, want an error")
	}
	if got, err := As[int](Value{raw: []byte{7}}); err != nil || got != 7 {
		t.Errorf("%d, %v, want 7", got, err)
	}
}

// Each of several equal keys gets the value, in any order of the reply.
func TestTakeDataOfEqualKeys(t *testing.T) {
	a, b := state(t, "a"), state(t, "b")
	keys := []*tracker.State{a, b, a, a}
	for name, data := range map[string]wire.Dict{"in order": wire.NewDict("a", 1, "b", 2), "other order": wire.NewDict(
		"b", 2, "a", 1)} {
		got := make([]int, 4)
		missing, err := takeData(encoded(t, wire.NewDict("data", data)), keys, []int{0, 1, 2, 3},
			func(i int, v Value) (err error) {
				got[i], err = As[int](v)
				return err
			})
		for _, i := range missing {
			if i < 2 {
				t.Errorf("%s: result %d is missing", name, i)
			}
		}
		if err != nil || got[0] != 1 || got[1] != 2 {
			t.Errorf("%s: got %v, missing %v, %v, want 1 and 2", name, got, missing, err)
		}
	}
}

// Of two values for a key in one reply the first is used, in any order of the reply.
func TestTakeDataTwice(t *testing.T) {
	keys := []*tracker.State{state(t, "a"), state(t, "b")}
	for name, data := range map[string]wire.Dict{
		"in order":    {{Key: "a", Value: 1}, {Key: "a", Value: 3}, {Key: "b", Value: 2}},
		"other order": {{Key: "b", Value: 2}, {Key: "b", Value: 3}, {Key: "a", Value: 1}, {Key: "b", Value: 4}},
	} {
		var got [2][]int
		missing, err := takeData(encoded(t, wire.NewDict("data", data)), keys, []int{0, 1}, func(i int, v Value) error {
			x, err := As[int](v)
			got[i] = append(got[i], x)
			return err
		})
		if err != nil || len(missing) != 0 || !slices.Equal(got[0], []int{1}) || !slices.Equal(got[1], []int{2}) {
			t.Errorf("%s: got %v, missing %v, %v; want 1 and 2 once each", name, got, missing, err)
		}
	}
}

func TestTakeDataMistakes(t *testing.T) {
	keys := []*tracker.State{state(t, "a")}
	no := errors.New("no")
	_, err := takeData(encoded(t, wire.NewDict("data", wire.NewDict("a", 1))), keys, []int{0},
		func(int, Value) error { return no })
	if !errors.Is(err, no) || !strings.Contains(err.Error(), "result of a") {
		t.Errorf("error of the sink: got %v, want the error with the key", err)
	}
	for _, v := range []any{wire.NewDict("status", "OK"), wire.NewDict("data", nil),
		wire.NewDict("data", wire.Dict{})} {
		missing, err := takeData(encoded(t, v), keys, []int{0}, func(int, Value) error { return nil })
		if err != nil || !slices.Equal(missing, []int{0}) {
			t.Errorf("reply without the result: got missing %v, %v, want 0", missing, err)
		}
	}
	if _, err := takeData(encoded(t, "text"), keys, []int{0}, func(int, Value) error { return nil }); err == nil {
		t.Error("reply that is not a map: got nil, want an error")
	}
}

func TestRequests(t *testing.T) {
	keys := []*tracker.State{state(t, "a"), state(t, "b"), state(t, "c")}
	v, err := msgpack.Decode(keysRequest("who_has", keys, []int{2, 0}, nil).Body())
	if err != nil {
		t.Fatal(err)
	}
	d := v.(msgpack.Map)
	list, _ := d.Get("keys")
	reply, _ := d.Get("reply")
	if d.GetString("op") != "who_has" || reply != true || !slices.Equal(list.([]any), []any{"c", "a"}) {
		t.Errorf("the request is %v, want who_has of c and a", d)
	}
}

func TestDataConnsPay(t *testing.T) {
	l := &dataConns{fetched: map[string]int64{}}
	l.count("w", dataConnAfter-1)
	if l.pays("w") {
		t.Errorf("a data connection pays off after %d bytes, want %d", dataConnAfter-1, dataConnAfter)
	}
	l.count("w", 1)
	if !l.pays("w") || l.pays("other") {
		t.Errorf("after %d bytes: %v, and of another worker: %v, want true and false", dataConnAfter, l.pays("w"),
			l.pays("other"))
	}
}
