package pickle

import (
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

func call(module, name string, args ...Value) *Object { return Call(Global{module, name}, args...) }

// TestDecode has what the golden pickles have not: forms of other versions, and zones.
func TestDecode(t *testing.T) {
	delta := func(d, s, us int64) Value { return call("datetime", "timedelta", d, s, us) }
	noon := []byte{7, 232, 1, 2, 12, 0, 0, 0, 0, 0}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		v    Value
		want any
	}{
		{call("datetime", "datetime", noon, nil), NaiveTime{Time: time.Date(2024, 1, 2, 12, 0, 0, 0, time.UTC)}},
		{call("datetime", "datetime", noon, call("pytz", "_UTC")), time.Date(2024, 1, 2, 12, 0, 0, 0, time.UTC)},
		{call("datetime", "datetime", noon, call("zoneinfo", "ZoneInfo._unpickle", "Europe/Berlin", int64(1))),
			time.Date(2024, 1, 2, 12, 0, 0, 0, berlin)},
		{call("datetime", "date", int64(2024), int64(2), int64(29)), Date{2024, 2, 29}},
		{delta(0, 1, 500_000), 1500 * time.Millisecond},
		{delta(200_000, 0, 0), TimeDelta{Days: 200_000}},
		{call("fractions", "Fraction", "-7/14"), big.NewRat(-1, 2)},
		{call("fractions", "Fraction", "3"), big.NewRat(3, 1)},
		{call("collections", "OrderedDict"), OrderedDict{&Dict{}}},
		{call("builtins", "set"), &Set{}}, {call("builtins", "frozenset", &List{}), &FrozenSet{Items: []Value{}}},
		{call("builtins", "bytes"), []byte{}}, {call("builtins", "bytearray", call("_codecs", "encode", "é", "latin1")),
			&ByteArray{Data: []byte{0xe9}}},
		{call("pathlib._local", "PosixPath", "/", "a"), Path{"PosixPath", "/a"}},
		{call("pathlib", "PureWindowsPath", `C:\`, "a", "b"), Path{"PureWindowsPath", `C:\a\b`}},
		{call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", int64(1), nil, nil),
			NaiveTime{Time: time.Unix(0, 1).UTC()}},
		{call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", int64(1), nil, call("pytz", "_UTC"), int64(7)),
			time.Unix(1, 0).UTC()},
		{call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", int64(1), nil, nil, int64(8)),
			NaiveTime{Time: time.UnixMilli(1).UTC()}},
		{call("collections", "deque", Tuple{}, int64(0)), Deque{Items: []any{}, MaxLen: 0}},
		{Tuple{&List{Items: []Value{"x"}}}, Tuple{[]any{"x"}}},
		{NewDict(Tuple{call("builtins", "complex", 1.0, 2.0)}, call("builtins", "complex", 0.0, 1.0)),
			NewDict(Tuple{complex(1, 2)}, complex(0, 1))},
	} {
		got, err := Decode(c.v)
		if err != nil {
			t.Errorf("%s: %v", Repr(c.v), err)
			continue
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %#v, want %#v", Repr(c.v), got, c.want)
		}
	}
}

// TestDecodeLeavesAlone: what does not have the form that Python writes stays a node, and
// what would be dear or dangerous to take at its word, too.
func TestDecodeLeavesAlone(t *testing.T) {
	delta := func(d, s, us Value) Value { return call("datetime", "timedelta", d, s, us) }
	noon := []byte{7, 232, 1, 2, 12, 0, 0, 0, 0, 0}
	zone := func(args ...Value) Value { return call("datetime", "timezone", args...) }
	stepped := call("builtins", "complex", 1.0, 2.0).WithState("state")
	huge := new(big.Int).Lsh(big.NewInt(1), 1<<15)
	for _, v := range []Value{
		call("os", "system", "ls"), stepped, call("builtins", "complex", 1.0),
		call("builtins", "complex", int64(1), 2.0), call("builtins", "eval", "1"),
		call("builtins", "range", int64(1), int64(2)), call("builtins", "range", int64(1), int64(2), "x"),
		call("builtins", "slice", nil),
		call("builtins", "set", int64(5)), call("builtins", "set", &List{}, nil),
		call("builtins", "bytes", int64(1<<40)), call("builtins", "bytearray", "x", "rot13"),
		call("builtins", "bytes", call("builtins", "bytes", []byte("x"))), call("_codecs", "encode", "€", "latin1"),
		call("_codecs", "encode", "x", "rot13"), call("_codecs", "encode", int64(1), "latin1"),
		call("datetime", "datetime", []byte("short")), call("datetime", "datetime", "str"),
		call("datetime", "datetime"), call("datetime", "datetime", noon, "UTC"),
		call("datetime", "datetime", []byte{7, 232, 2, 30, 12, 0, 0, 0, 0, 0}),
		call("datetime", "datetime", []byte{0, 0, 1, 1, 0, 0, 0, 0, 0, 0}),
		call("datetime", "datetime", []byte{7, 232, 1, 1, 24, 0, 0, 0, 0, 0}),
		call("datetime", "datetime", noon, zone(delta(int64(0), int64(0), int64(1)))),
		call("datetime", "datetime", noon, call("zoneinfo", "ZoneInfo._unpickle", "../../etc/passwd", int64(1))),
		call("datetime", "datetime", noon, call("m", "tz")),
		call("datetime", "date", []byte("toolong")), call("datetime", "date", int64(2023), int64(2), int64(29)),
		call("datetime", "date", int64(-1), int64(2), int64(29)), call("datetime", "date"),
		call("datetime", "time", []byte{24, 0, 0, 0, 0, 0}), call("datetime", "time", []byte{1}),
		call("datetime", "time", []byte{1, 0, 0, 0, 0, 0}, "zone"),
		delta(int64(0), int64(-1), int64(0)), delta(int64(0), int64(0), int64(1e6)),
		delta(int64(1e10), int64(0), int64(0)), delta(1.5, int64(0), int64(0)),
		zone(), zone("x"), zone(delta(int64(0), int64(0), int64(0)), int64(1)),
		zone(delta(int64(1e8), int64(0), int64(0))),
		call("decimal", "Decimal", "1.5x"), call("decimal", "Decimal", int64(1)), call("decimal", "Decimal"),
		call("fractions", "Fraction", "1/0"), call("fractions", "Fraction", int64(1), int64(0)),
		call("fractions", "Fraction", huge, huge), call("fractions", "Fraction", "x"),
		call("fractions", "Fraction", int64(1)),
		New(Global{"uuid", "UUID"}), New(Global{"uuid", "UUID"}).WithState(NewDict("int", int64(-1))),
		New(Global{"uuid", "UUID"}).WithState(NewDict("int", huge)), New(Global{"uuid", "UUID"}).WithState("x"),
		call("collections", "OrderedDict", &List{}), call("collections", "defaultdict", nil, nil),
		call("collections", "Counter", "abc"), call("collections", "Counter"),
		call("collections", "deque", Tuple{}, int64(-1)), call("collections", "deque", Tuple{}),
		call("collections", "deque", &List{}, int64(1)), call("collections", "deque").WithState("x"),
		call("pathlib", "PosixPath", int64(1)), call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", int64(1),
			nil, nil, int64(99)),
		call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", int64(1)<<62, nil, nil, int64(7)),
		call("pandas._libs.tslibs.timestamps", "_unpickle_timestamp", "x", nil, nil),
		Call(call("m", "f")), &PersistentID{ID: "x"}, Global{"m", "f"},
	} {
		got, err := Decode(v)
		if err != nil || !Equal(got, v) {
			t.Errorf("%s: %v, %v", Repr(v), got, err)
		}
	}
}

func TestDecodeShares(t *testing.T) {
	shared := NewDict("a", nil)
	got, err := Decode(Tuple{shared, shared, &List{Items: []Value{shared}}})
	if err != nil {
		t.Fatal(err)
	}
	v := got.(Tuple)
	if v[0] != v[1] || v[2].([]any)[0] != v[0] {
		t.Error("one dict became several")
	}
	// 2^60 items if it were spelled out.
	var deep Value = &List{Items: []Value{"x"}}
	for range 60 {
		deep = &List{Items: []Value{deep, deep}}
	}
	if _, err := Decode(deep); err != nil {
		t.Error(err)
	}
}

func TestDecodeErrors(t *testing.T) {
	l := &List{}
	l.Items = []Value{l}
	for _, v := range []Value{l, cyclicDict(), cyclicTuple(2), call("collections", "OrderedDict", nil)} {
		if _, err := Decode(v); (err == nil) != Equal(v, call("collections", "OrderedDict", nil)) || err != nil &&
			!errors.Is(err, errCycle) {
			t.Errorf("%s: %v", Repr(v), err)
		}
	}
	// A cycle inside of an object is nobody's business here.
	if _, err := Decode(cyclicState()); err != nil {
		t.Error(err)
	}
	var deep Value
	for range 20_000 {
		deep = Tuple{deep}
	}
	if _, err := Decode(deep); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

func TestAsBytes(t *testing.T) {
	for _, v := range []Value{[]byte("x"), &ByteArray{[]byte("x")}, &Buffer{Data: []byte("x")},
		call("_codecs", "encode", "x", "latin-1"), call("builtins", "bytearray", []byte("x"))} {
		if b, ok := AsBytes(v); !ok || string(b) != "x" {
			t.Errorf("%s: %q", Repr(v), b)
		}
	}
	for _, v := range []Value{nil, "x", &List{}, call("m", "f", []byte("x"))} {
		if b, ok := AsBytes(v); ok {
			t.Errorf("%s: %q", Repr(v), b)
		}
	}
}

func TestTimezoneLocation(t *testing.T) {
	for _, c := range []struct {
		z      Timezone
		offset int
	}{{Timezone{}, 0}, {Timezone{Offset: 90 * time.Minute}, 5400}, {Timezone{Name: "X", Offset: -time.Hour}, -3600},
		{Timezone{Name: "Asia/Tokyo", Zoneinfo: true}, 9 * 3600}} {
		loc, err := c.z.Location()
		if err != nil {
			t.Fatal(err)
		}
		if _, offset := time.Unix(0, 0).In(loc).Zone(); offset != c.offset {
			t.Errorf("%+v: %d", c.z, offset)
		}
	}
	if _, err := (Timezone{Name: "No/Where", Zoneinfo: true}).Location(); err == nil {
		t.Error("there is a zone No/Where")
	}
}

// TestDecodeKeyWork: long keys that are there many times end a Decode, not the machine.
func TestDecodeKeyWork(t *testing.T) {
	key := strings.Repeat("x", 1<<20)
	o := call("collections", "OrderedDict")
	for i := range 5000 {
		o.Steps = append(o.Steps, Step{SetItem, key, nil}, Step{SetItem, int64(i % 20), nil})
	}
	set := &List{}
	for range 5000 {
		set.Items = append(set.Items, key)
	}
	for _, v := range []Value{o, call("builtins", "set", set)} {
		if _, err := Decode(v); !errors.Is(err, ErrLimit) {
			t.Error(err)
		}
	}
}
