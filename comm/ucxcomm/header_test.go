package ucxcomm

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

// Written by Python: struct.pack("?Q", …) and struct.pack("3?3Q", …), on x86-64.
func TestHeaderVectors(t *testing.T) {
	for _, c := range []struct {
		lead lead
		want string
	}{
		{lead{frames: 3}, "00000000000000000300000000000000"},
		{lead{shutdown: true}, "01000000000000000000000000000000"},
	} {
		var b [leadSize]byte
		c.lead.put(&b)
		if got := hex.EncodeToString(b[:]); got != c.want {
			t.Errorf("%+v: %s", c.lead, got)
		}
		if l, err := decodeLead(b[:]); err != nil || l != c.lead {
			t.Errorf("%s: %+v, %v", c.want, l, err)
		}
	}
	parts := []part{{size: 5}, {size: 1 << 20, device: true}, {}}
	want := "0001000000000000" + "0500000000000000" + "0000100000000000" + "0000000000000000"
	b := appendTable(nil, parts)
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("table: %s", got)
	}
	if tableSize(9) != 88 || tableSize(0) != 0 {
		t.Errorf("tables of 9 and 0 frames: %d, %d bytes", tableSize(9), tableSize(0))
	}
	got, total, err := decodeTable(b, 3, 1<<30)
	if err != nil || total != 5+1<<20 || len(got) != 3 || got[1] != parts[1] {
		t.Errorf("%+v, %d, %v", got, total, err)
	}
}

func TestHeaderRefuses(t *testing.T) {
	if _, err := decodeLead(make([]byte, 15)); err == nil {
		t.Error("a short lead was taken")
	}
	for n, size := range map[int]int{1: 15, 2: 23, -1: 0, math.MaxInt32: 8} {
		if _, _, err := decodeTable(make([]byte, size), n, 1<<30); err == nil {
			t.Errorf("a table of %d frames in %d bytes was taken", n, size)
		}
	}
	var limit *limitError
	for _, sizes := range [][]part{{{size: 101}}, {{size: 60}, {size: 41}}, {{size: -1}},
		{{size: 1}, {size: math.MaxInt64}}} {
		if _, _, err := decodeTable(appendTable(nil, sizes), len(sizes), 100); !errors.As(err, &limit) ||
			limit.limit != 100 {
			t.Errorf("%v: %v", sizes, err)
		}
	}
	if _, _, err := decodeTable(appendTable(nil, []part{{size: 60}, {size: 40}}), 2, 100); err != nil {
		t.Error(err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add(appendTable(nil, []part{{size: 5}, {size: 1 << 20, device: true}, {}}), 3)
	f.Add([]byte{}, 0)
	f.Add(bytes.Repeat([]byte{0xff}, 16), 1)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		const limit = 1 << 40
		parts, total, err := decodeTable(b, n, limit)
		if err != nil {
			return
		}
		var sum int64
		for i := range parts {
			if parts[i].size < 0 {
				t.Fatalf("frame %d of %d bytes", i, parts[i].size)
			}
			sum += parts[i].size
		}
		if sum != total || total > limit || len(parts) != n {
			t.Fatalf("%d frames of %d bytes, told %d of %d", len(parts), sum, n, total)
		}
		again, _, err := decodeTable(appendTable(nil, parts), n, limit)
		if err != nil || len(again) != n {
			t.Fatal(err)
		}
		for i := range again {
			if again[i] != parts[i] {
				t.Fatalf("frame %d: %+v, again %+v", i, parts[i], again[i])
			}
		}
	})
}
