package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestMerge(t *testing.T) {
	whole := make([]byte, 1000)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(whole); i++ {
		whole[i] = byte(r.Uint32())
	}
	at := func(from, to int) Frame { return HeapFrame(whole[from:to]) }
	for _, tc := range []struct {
		name   string
		shards []Frame
		shared bool
	}{
		{"neighbors", []Frame{at(0, 100), at(100, 500), at(500, 1000)}, true},
		{"empty between", []Frame{at(0, 100), {}, at(100, 1000)}, true},
		{"one", []Frame{at(0, 1000)}, true},
		{"wrong order", []Frame{at(500, 1000), at(0, 500)}, false},
		{"gap", []Frame{at(0, 100), at(101, 500)}, false},
		{"capped", []Frame{HeapFrame(whole[0:100:100]), at(100, 200)}, false},
		{"capped in the middle", []Frame{HeapFrame(whole[0:100:200]), at(100, 200), at(200, 300)}, false},
		{"copies", []Frame{HeapFrame(bytes.Clone(whole[:100])), at(100, 200)}, false},
	} {
		var want []byte
		for _, s := range tc.shards {
			want = append(want, s.Bytes()...)
		}
		got, err := merge(tc.shards)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %v, or other bytes", tc.name, err)
			continue
		}
		if shared := &got.Bytes()[0] == &tc.shards[0].Bytes()[0]; shared != tc.shared {
			t.Errorf("%s: shares memory: %t", tc.name, shared)
		}
		if cap(got.Bytes()) != len(want) {
			t.Errorf("%s: an append would reach %d bytes of others", tc.name, cap(got.Bytes())-len(want))
		}
	}
	if f, err := merge(nil); err != nil || f.Len() != 0 {
		t.Errorf("nothing: %d bytes, %v", f.Len(), err)
	}
	for _, size := range []int{1, 7, 999, 1000, 1001} {
		shards := split(nil, HeapFrame(whole), size)
		if len(shards) != (1000+size-1)/size {
			t.Errorf("%d shards of %d", len(shards), size)
		}
		if f, err := merge(shards); err != nil || !bytes.Equal(f.Bytes(), whole) {
			t.Errorf("shards of %d: %v", size, err)
		}
	}
}
