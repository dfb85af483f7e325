package msgpack

import (
	"bytes"
	"encoding/hex"
	"runtime"
	"strings"
	"testing"
)

// allocated is what f allocates in bytes.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

func TestHostile(t *testing.T) {
	nested := bytes.Repeat([]byte{0xdd, 0, 0xf, 0, 0}, 1000) // each promises the rest of the bytes
	nested = append(nested, make([]byte, 0xf0000)...)
	for _, tc := range []struct {
		name string
		in   []byte
	}{
		{"array of 4 G elements in 5 bytes", unhex("ddffffffff")},
		{"map of 4 G entries in 5 bytes", unhex("dfffffffff")},
		{"string of 4 GiB in 5 bytes", unhex("dbffffffff")},
		{"bytes of 4 GiB in 5 bytes", unhex("c6ffffffff")},
		{"each level promises a million", nested},
		{"a hundred thousand levels", append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)},
		{"a hundred thousand maps", append(bytes.Repeat([]byte{0x81, 0xa1, 'a'}, 100_000), 0xc0)},
		{"a hundred thousand levels of a key", append(append([]byte{0x81}, bytes.Repeat([]byte{0x91}, 100_000)...),
			0xc0, 0xc0)},
		{"extension type", unhex("d40100")},
		{"timestamp", unhex("d6ff00000000")},
		{"never used", unhex("c1")},
		{"map as a key", unhex("818001")},
		{"map in a key", unhex("81918001")},
		{"not UTF-8", unhex("a1ff")},
		{"surrogate", unhex("a3eda080")},
		{"rest", unhex("c0c0")},
		{"nothing", nil},
		{"half an int", unhex("cf00")},
		{"half a header", unhex("dc00")},
		{"half a float", unhex("cb0000")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var err error
			n := allocated(func() { _, err = Decode(tc.in) })
			if err == nil {
				t.Error("accepted")
			}
			if limit := uint64(100*len(tc.in) + 64<<10); n > limit {
				t.Errorf("allocated %d bytes for %d", n, len(tc.in))
			}
			r := NewReader(tc.in)
			_ = r.Skip() // must come back
		})
	}
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestDepth(t *testing.T) {
	ok := append(bytes.Repeat([]byte{0x91}, DefaultMaxDepth), 0xc0)
	v, err := Decode(ok)
	if err != nil {
		t.Errorf("%d levels: %v", DefaultMaxDepth, err)
	}
	if b, err := Append(nil, v); err != nil || !bytes.Equal(b, ok) {
		t.Errorf("%d levels written: %v", DefaultMaxDepth, err)
	}
	if _, err := Append(nil, []any{v}); err == nil {
		t.Error("one level more was written")
	}
	d := Decoder{MaxDepth: 3}
	if _, err := d.Decode(unhex("919190")); err != nil {
		t.Error(err)
	}
	if _, err := d.Decode(unhex("91919190")); err == nil || !strings.Contains(err.Error(), "deep") {
		t.Errorf("four levels of three: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(v.hex))
	}
	f.Add(unhex("ddffffffff"))
	f.Add(unhex("dc0002d90161d2ffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		skipped := r.Skip() == nil && r.End() == nil
		v, err := Decode(b)
		if err != nil {
			return
		}
		if !skipped {
			t.Fatal("decoded, and not skipped")
		}
		again, err := Append(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > len(b)*9/5+1 { // a float of 4 bytes becomes one of 8
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
		back, err := Decode(again)
		if err != nil || !Equal(v, back) {
			t.Fatalf("%v\nbecame\n%v (%v)", v, back, err)
		}
	})
}

func FuzzReadKey(f *testing.F) {
	f.Add(unhex("dc0002d90161d2ffffffff"))
	f.Add(unhex("93a16b920001c40101"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		k, err := r.ReadKey(nil)
		if err != nil {
			return
		}
		k = bytes.Clone(k)
		r.Reset(k)
		again, err := r.ReadKey(nil)
		if err != nil || !bytes.Equal(k, again) || r.End() != nil {
			t.Fatalf("%x became %x (%v)", k, again, err)
		}
		a, err1 := Decode(k)
		v, err2 := new(Decoder).Decode(b[:len(b)-trailing(b)])
		if err1 != nil || err2 != nil || !Equal(a, v) {
			t.Fatalf("%v and %v (%v, %v)", a, v, err1, err2)
		}
	})
}

// trailing is what follows the first value.
func trailing(b []byte) int {
	r := NewReader(b)
	if r.Skip() != nil {
		return 0
	}
	return r.Remaining()
}
