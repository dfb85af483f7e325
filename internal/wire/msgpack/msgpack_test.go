package msgpack

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// vectors are values with the bytes that Python's msgpack writes for them.
var vectors = []struct {
	value any
	hex   string
}{
	{nil, "c0"}, {false, "c2"}, {true, "c3"},
	{int64(0), "00"}, {int64(127), "7f"}, {int64(128), "cc80"}, {int64(255), "ccff"},
	{int64(256), "cd0100"}, {int64(65536), "ce00010000"}, {int64(1 << 32), "cf0000000100000000"},
	{uint64(math.MaxUint64), "cfffffffffffffffff"}, {int64(math.MaxInt64), "cf7fffffffffffffff"},
	{int64(-1), "ff"}, {int64(-32), "e0"}, {int64(-33), "d0df"}, {int64(-129), "d1ff7f"},
	{int64(-32769), "d2ffff7fff"}, {int64(math.MinInt64), "d38000000000000000"},
	{1.5, "cb3ff8000000000000"}, {"", "a0"}, {"é", "a2c3a9"}, {[]byte{1}, "c40101"},
	{[]any{}, "90"}, {[]any{int64(1), "a"}, "9201a161"},
	{Map{{"a", int64(1)}, {[]any{"k", int64(0)}, nil}, {2.0, true}}, "83a1610192a16b00c0cb4000000000000000c3"},
	{strings.Repeat("x", 32), "d920" + strings.Repeat("78", 32)},
	{strings.Repeat("x", 256), "da0100" + strings.Repeat("78", 256)},
	{bytes.Repeat([]byte{7}, 256), "c50100" + strings.Repeat("07", 256)},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		want, err := hex.DecodeString(v.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Append(nil, v.value)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%.40v: encoded as %x (%v), want %s", v.value, got, err, v.hex)
		}
		back, err := Decode(want)
		if err != nil || !Equal(back, v.value) {
			t.Errorf("%s: decoded as %#v (%v), want %#v", v.hex, back, err, v.value)
		}
		r := NewReader(want)
		if err := r.Skip(); err != nil || r.End() != nil {
			t.Errorf("%s: skip: %v, at %d", v.hex, err, r.Offset())
		}
	}
}

func TestLargeHeaders(t *testing.T) {
	for _, n := range []int{15, 16, 65535, 65536, 70000} {
		in := make([]any, n)
		m := make(Map, n)
		for i := range n {
			in[i] = nil
			m[i] = Pair{int64(i), true}
		}
		for _, v := range []any{in, m, strings.Repeat("y", n), make([]byte, n)} {
			b, err := Append(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Decode(b)
			if err != nil || !Equal(back, v) {
				t.Errorf("%T of %d: %v", v, n, err)
			}
			r := NewReader(b)
			if err := r.Skip(); err != nil || r.End() != nil {
				t.Errorf("%T of %d: skip: %v", v, n, err)
			}
		}
	}
}

func TestGoValues(t *testing.T) {
	type name string
	type port uint16
	got, err := Append(nil, map[string]any{
		"b": []name{"x"}, "a": port(5), "c": [2]bool{true, false}, "d": float32(0.5), "e": map[name]int{"k": 1},
		"f": Raw{0xc0}, "g": []string{"s"}, "h": uint8(3),
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	want := Map{{"a", int64(5)}, {"b", []any{"x"}}, {"c", []any{true, false}}, {"d", 0.5}, {"e", Map{{"k", int64(1)}}},
		{"f", nil}, {"g", []any{"s"}}, {"h", int64(3)}}
	if !Equal(v, want) {
		t.Errorf("got %v, want %v", v, want)
	}
	for _, bad := range []any{struct{}{}, make(chan int), map[int]int{1: 1}, "\xff", &struct{ X int }{}} {
		if _, err := Append(nil, bad); err == nil {
			t.Errorf("%T was encoded", bad)
		}
	}
}

func TestHooks(t *testing.T) {
	type set []any
	enc := Encoder{Default: func(v any) (any, error) {
		if s, ok := v.(set); ok {
			return Map{{"__Set__", true}, {"as-list", []any(s)}}, nil
		}
		return v, nil
	}}
	b, err := enc.Append(nil, []any{set{int64(1)}, Map{{"x", set{}}}})
	if err != nil {
		t.Fatal(err)
	}
	dec := Decoder{Hook: func(m Map) (any, error) {
		if l, ok := m.Get("as-list"); ok {
			return set(l.([]any)), nil
		}
		return m, nil
	}}
	v, err := dec.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	l := v.([]any)
	if s := l[0].(set); len(s) != 1 || s[0] != int64(1) {
		t.Errorf("got %v", l)
	}
	if x, _ := l[1].(Map).Get("x"); len(x.(set)) != 0 {
		t.Errorf("got %v", l[1])
	}
}

func TestMap(t *testing.T) {
	m := Map{{"a", 1}, {int64(5), 2}, {"a", 3}}
	if v, ok := m.Get("a"); !ok || v != 3 {
		t.Errorf("of two entries the last counts, got %v", v)
	}
	m.Set("b", "x")
	m.Set("a", 4)
	if m.GetString("b") != "x" || m.GetString("a") != "" || !m.Has("a") || m.Has("z") {
		t.Errorf("got %v", m)
	}
	m.Delete("a")
	n := 0
	for range m.All() {
		n++
	}
	if n != 2 || m.Has("a") {
		t.Errorf("after Delete: %v", m)
	}
}

func TestReaderKinds(t *testing.T) {
	b, err := Append(nil, Map{{"n", nil}, {"t", true}, {"i", -5}, {"u", uint64(math.MaxUint64)}, {"f", 0.25},
		{"s", "str"}, {"b", []byte("raw")}, {"l", []any{int64(1), int64(2)}}})
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(b)
	n, err := r.ReadMapLen()
	if err != nil || n != 8 {
		t.Fatal(n, err)
	}
	for range n {
		k, err := r.ReadStringBytes()
		if err != nil {
			t.Fatal(err)
		}
		before := r.Offset()
		if _, err := r.ReadMapLen(); err == nil || r.Offset() != before {
			t.Errorf("%s: read as a map, or moved", k)
		}
		ok := false
		switch string(k) {
		case "n":
			ok = !func() bool { _, err := r.ReadBool(); return err == nil }() && r.TryNil()
		case "t":
			v, err := r.ReadBool()
			ok = v && err == nil && !r.TryNil()
		case "i":
			_, err1 := r.ReadUint()
			v, err := r.ReadInt()
			ok = v == -5 && err == nil && err1 != nil
		case "u":
			_, err1 := r.ReadInt()
			v, err := r.ReadUint()
			ok = v == math.MaxUint64 && err == nil && err1 != nil
		case "f":
			v, err := r.ReadFloat()
			ok = v == 0.25 && err == nil
		case "s":
			_, err1 := r.ReadBytes()
			v, err := r.ReadString()
			ok = v == "str" && err == nil && err1 != nil
		case "b":
			_, err1 := r.ReadString()
			v, err := r.ReadBytes()
			ok = string(v) == "raw" && err == nil && err1 != nil
		case "l":
			raw, err := r.ReadRaw()
			ok = err == nil && bytes.Equal(raw, []byte{0x92, 1, 2})
		}
		if !ok {
			t.Errorf("%s: wrong", k)
		}
	}
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

func TestReadName(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 300, 70000} {
		want := strings.Repeat("n", n)
		r := NewReader(AppendString(nil, want))
		if got, err := r.ReadName(); err != nil || string(got) != want || cap(got) != n || r.End() != nil {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
	for _, bad := range []string{"", "a5616263", "c0", "d9ff", "db00"} {
		r := NewReader(unhex(bad))
		if got, err := r.ReadName(); err == nil || r.Offset() != 0 {
			t.Errorf("%s: the name %q", bad, got)
		}
	}
}

// TestASCII puts a byte that is not ASCII at each place of strings of each length.
func TestASCII(t *testing.T) {
	for n := range 40 {
		s := bytes.Repeat([]byte("a"), n)
		if !ascii(s) {
			t.Errorf("%d letters are not ASCII", n)
		}
		for i := range n {
			s[i] = 0x80
			if ascii(s) {
				t.Errorf("a byte at %d of %d was not seen", i, n)
			}
			s[i] = 'a'
		}
	}
}

func TestReaderAllocatesNothing(t *testing.T) {
	b, err := Append(nil, Map{{"key", "x-1"}, {"priority", []any{int64(1), 2.5}}, {"nested", Map{{"a", []any{nil}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(b)
		k, _ := r.ReadMapLen()
		for range k {
			if _, err := r.ReadStringBytes(); err != nil {
				t.Fatal(err)
			}
			if err := r.Skip(); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"a161", "a161"},
		{"d90161", "a161"},
		{"cd0005", "05"},
		{"cb4000000000000000", "cb4000000000000000"},
		{"ca3fc00000", "cb3ff8000000000000"},
		{"dc0002d90161d2ffffffff", "92a161ff"},
		{"93a16b9200cc01c40101", "93a16b920001c40101"},
		{"c3", "c3"},
		{"c500017f", "c4017f"},
	} {
		in, _ := hex.DecodeString(tc.in)
		r := NewReader(in)
		got, err := r.ReadKey(nil)
		if err != nil || hex.EncodeToString(got) != tc.want || r.End() != nil {
			t.Errorf("%s: got %x (%v), want %s", tc.in, got, err, tc.want)
		}
	}
	for _, bad := range []string{"c0", "80", "91c0", "9180", "", "92a161", strings.Repeat("91", 100) + "01"} {
		in, _ := hex.DecodeString(bad)
		r := NewReader(in)
		if got, err := r.ReadKey(nil); err == nil {
			t.Errorf("%.20s: is the key %x", bad, got)
		}
	}
	b, err := KeyBytes([]any{"x", 1, []any{int8(2)}})
	if err != nil || hex.EncodeToString(b) != "93a178019102" {
		t.Errorf("got %x, %v", b, err)
	}
	if _, err := KeyBytes(nil); err == nil {
		t.Error("nil is a key")
	}
}

// randomValue makes a tree of all kinds.
func randomValue(r *rand.Rand, depth int) any {
	n := 9
	if depth == 0 {
		n = 7
	}
	switch r.IntN(n) {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return int64(r.Uint64()) >> r.IntN(64)
	case 3:
		if v := r.Uint64(); v > math.MaxInt64 {
			return v
		}
		return int64(5)
	case 4:
		return math.Float64frombits(r.Uint64())
	case 5:
		return strings.Repeat("ü", r.IntN(40))
	case 6:
		return bytes.Repeat([]byte{1}, r.IntN(300))
	case 7:
		l := make([]any, r.IntN(20))
		for i := range l {
			l[i] = randomValue(r, depth-1)
		}
		return l
	}
	m := make(Map, r.IntN(20))
	for i := range m {
		m[i] = Pair{[]any{int64(i), "k"}, randomValue(r, depth-1)}
	}
	return m
}

func TestRandomRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		v := randomValue(r, 4)
		b, err := Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(b)
		if err != nil || !Equal(v, back) {
			t.Fatalf("%v\nbecame\n%v (%v)", v, back, err)
		}
	}
}
