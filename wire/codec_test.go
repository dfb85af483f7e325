package wire_test

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/internal/wire/pickled"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func huge() *big.Int { return new(big.Int).Lsh(big.NewInt(-3), 200) }

// values are all types that cross.
func values() map[string]any {
	return map[string]any{
		"none": nil, "bool": true, "int": int64(-5), "big": huge(), "float": 2.5, "complex": complex(1, -2),
		"str": "grün", "bytes": []byte("raw"),
		"bytearray": wire.ByteArray("ba"), "list": []any{int64(1), "a", []any{}},
		"tuple": wire.Tuple{int64(1), wire.Tuple{}},
		"dict":  wire.NewDict("a", int64(1), wire.Tuple{"k", int64(0)}, nil), "set": wire.Set{int64(1), "x"},
		"frozen": wire.FrozenSet{int64(2)},
		"time":   time.Date(2024, 2, 29, 1, 2, 3, 4000, time.FixedZone("", 3600)),
		"naive":  wire.NaiveTime{Time: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)},
		"date":   wire.Date{Year: 2020, Month: 5, Day: 6}, "delta": 90 * time.Minute,
		"exception": pickle.NewException("builtins", "ValueError", "no"),
		"array":     wire.NewNDArray([]float64{1, 2, 3, 4}, 2, 2),
		"nested":    []any{wire.NewDict("x", wire.NewNDArray([]int32{1, 2})), wire.Tuple{[]byte("in")}},
	}
}

func encode(t testing.TB, v any, opt wire.EncodeOptions) *wire.Message {
	t.Helper()
	m, err := wire.Encode(v, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func decode(t testing.TB, m *wire.Message, opt wire.DecodeOptions) any {
	t.Helper()
	v, err := wire.Decode(m, opt)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestValues sends each value in each envelope and without one.
func TestValues(t *testing.T) {
	for name, v := range values() {
		want := wiretest.Describe(v, true)
		for how, in := range map[string]any{"bare": v, "serialize": wire.Serialize{Value: v},
			"pickle": wire.ToPickle{Value: v}, "in-list": []any{v, wire.Serialize{Value: v}}} {
			if how == "in-list" {
				want = "(" + want + "," + want + ")"
			}
			for _, opt := range []wire.EncodeOptions{{}, {PickleProtocol: 4, ShardSize: 2}} {
				m := encode(t, in, opt)
				if got := wiretest.Describe(decode(t, m, wire.DecodeOptions{}), true); got != want {
					t.Errorf("%s, %s: got %s, want %s", name, how, got, want)
				}
			}
			want = wiretest.Describe(v, true)
		}
	}
}

func TestMapsOfGo(t *testing.T) {
	m := encode(t, map[string]any{"op": "x", "set": wire.Set{"a"},
		"status": wire.Enum{Module: "distributed.core", Class: "Status", Name: "running"},
		"data":   wire.Serialize{Value: map[string]any{"b": int64(1), "a": []byte("x")}}}, wire.EncodeOptions{})
	want := "{s64617461={s61=b78,s62=i1},s6f70=s78,s736574=set<s61>,s737461747573=enumdistributed.core.Status.running}"
	if got := wiretest.Describe(decode(t, m, wire.DecodeOptions{}), true); got != want {
		t.Errorf("got %s", got)
	}
}

func TestKeepAndPassOn(t *testing.T) {
	arr := wire.NewNDArray([]int64{1, 2, 3})
	m := encode(t, wire.NewDict("op", "put", "data", wire.Serialize{Value: arr}, "spec", wire.ToPickle{Value: "x"}),
		wire.EncodeOptions{})
	v := decode(t, m, wire.DecodeOptions{Keep: true, KeepPickled: true}).(wire.Dict)
	data, _ := v.Get("data")
	s := data.(*wire.Serialized)
	spec, _ := v.Get("spec")
	tree, err := pickled.Tree(spec.(*wire.Pickled), pickle.Limits{})
	if err != nil || tree != "x" {
		t.Errorf("got %v, %v", tree, err)
	}
	back, err := s.Decode(wire.DecodeOptions{})
	if err != nil || wiretest.Describe(back, false) != wiretest.Describe(arr, false) {
		t.Errorf("opened later: %v, %v", back, err)
	}
	// In another message, and in a collection.
	for _, in := range []any{[]any{nil, s}, wire.Serialize{Value: []any{nil, s}}} {
		got := decode(t, encode(t, in, wire.EncodeOptions{}), wire.DecodeOptions{})
		if text := wiretest.Describe(got, true); text != "(None,"+wiretest.Describe(arr, false)+")" {
			t.Errorf("passed on: %s", text)
		}
	}
}

func TestEncodeValue(t *testing.T) {
	s, err := wire.EncodeValue([]any{[]byte("abc"), int64(1)}, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Size() == 0 {
		t.Error("no size")
	}
	v, err := s.Decode(wire.DecodeOptions{})
	if err != nil || wiretest.Describe(v, false) != "[b616263,i1]" {
		t.Errorf("got %v, %v", v, err)
	}
	s.Release()
}

// TestReferences counts references to buffers on their way in and out.
func TestReferences(t *testing.T) {
	buf := mem.FromBytes(bytes.Repeat([]byte("x"), 1000))
	frames := []wire.Frame{wire.BufferFrame(buf)}
	header, err := msgpack.Append(nil, wire.NewDict("serializer", "other", "num-sub-frames", 1))
	if err != nil {
		t.Fatal(err)
	}
	s := &wire.Serialized{Header: header, Frames: frames}
	for _, opt := range []wire.EncodeOptions{{}, {ShardSize: 100}} {
		for _, v := range []any{s, []any{s, s}, wire.Serialize{Value: []any{s}}} {
			m := encode(t, v, opt)
			got := decode(t, m, wire.DecodeOptions{})
			if kept, ok := got.(*wire.Object); ok {
				r := wire.Clone(kept).(*wire.Object)
				m.Release()
				if !bytes.Equal(r.Frames[0].Bytes(), buf.Bytes()) {
					t.Error("a cloned object changed")
				}
				r.Frames[0].Release()
				continue
			}
			m.Release()
		}
	}
	if len(buf.Bytes()) != 1000 { // panics if a reference too many was given back
		t.Error("the buffer is gone")
	}
	s.Release()
}

func TestClone(t *testing.T) {
	for name, v := range values() {
		m := encode(t, wire.Serialize{Value: v}, wire.EncodeOptions{})
		// Frames of our own, which are then overwritten.
		for i, f := range m.Frames {
			m.Frames[i] = wire.HeapFrame(bytes.Clone(f.Bytes()))
		}
		got := wire.Clone(decode(t, m, wire.DecodeOptions{}))
		for _, f := range m.Frames {
			clear(f.Bytes())
		}
		if a, b := wiretest.Describe(got, true), wiretest.Describe(v, true); a != b {
			t.Errorf("%s: the clone became %s, was %s", name, a, b)
		}
	}
}

func TestZeroCopy(t *testing.T) {
	data := make([]float64, 100_000)
	arr := wire.NewNDArray(data)
	m := encode(t, wire.Serialize{Value: arr}, wire.EncodeOptions{ShardSize: 1 << 18})
	if len(m.Frames) != 6 {
		t.Fatalf("%d frames, want body, header and 4 shards", len(m.Frames))
	}
	if &m.Frames[2].Bytes()[0] != &arr.Data[0] {
		t.Error("encoding copied the array")
	}
	got := decode(t, m, wire.DecodeOptions{}).(*wire.NDArray)
	if &got.Data[0] != &arr.Data[0] || len(got.Data) != len(arr.Data) {
		t.Error("joining shards that lie in one piece of memory copied them")
	}
}

func TestErrors(t *testing.T) {
	type unknown struct{ C chan int }
	if _, err := wire.Encode(wire.NewDict("x", unknown{}), wire.EncodeOptions{}); err == nil {
		t.Error("a channel was encoded")
	}
	if _, err := wire.Encode(wire.Serialize{Value: unknown{}}, wire.EncodeOptions{}); err == nil {
		t.Error("a channel was serialized")
	}
	m := encode(t, wire.Serialize{Value: unknown{}}, wire.EncodeOptions{ErrorAsMessage: true})
	_, err := wire.Decode(m, wire.DecodeOptions{})
	var exc *wire.Exception
	if !errors.As(err, &exc) || exc.Type != "TypeError" || !strings.Contains(exc.Text, "Could not serialize") {
		t.Errorf("family error: got %v", err)
	}
	m = encode(t, wire.Serialize{Value: "x"}, wire.EncodeOptions{})
	if _, err := wire.Decode(m, wire.DecodeOptions{Deserializers: []string{"dask"}}); err == nil ||
		!strings.Contains(err.Error(), "pickle") {
		t.Errorf("a family that is not allowed: %v", err)
	}
	if _, err := wire.Encode(nil, wire.EncodeOptions{Compression: "brotli"}); err == nil {
		t.Error("brotli is accepted")
	}
	if _, err := wire.Encode(nil, wire.EncodeOptions{PickleProtocol: 3}); err == nil {
		t.Error("protocol 3 is accepted")
	}
	loop := []any{nil}
	loop[0] = loop
	for _, v := range []any{loop, wire.Serialize{Value: loop}, wire.ToPickle{Value: loop}} {
		if _, err := wire.Encode(v, wire.EncodeOptions{}); err == nil {
			t.Errorf("%T that contains itself was encoded", v)
		}
	}
}

func TestExceptions(t *testing.T) {
	b, err := pickle.DumpException(errors.New("disk full"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := pickle.LoadException(b, pickle.Limits{})
	if err != nil || e.Type != "RuntimeError" || e.Error() != "RuntimeError: disk full" {
		t.Errorf("got %v, %v", e, err)
	}
	if b, err = pickle.DumpException(pickle.NewException("builtins", "KeyError", "k")); err != nil {
		t.Fatal(err)
	}
	if e, err = pickle.LoadException(b, pickle.Limits{}); err != nil || e.Type != "KeyError" {
		t.Errorf("got %v, %v", e, err)
	}
	for _, bad := range [][]byte{nil, []byte("N."), []byte("\x80\x04N.")} {
		if e, err := pickle.LoadException(bad, pickle.Limits{}); err == nil {
			t.Errorf("%q is the exception %v", bad, e)
		}
	}
}
