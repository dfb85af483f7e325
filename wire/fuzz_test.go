package wire

import (
	"testing"
)

// FuzzDecode takes a message as it travels over tcp.
func FuzzDecode(f *testing.F) {
	add := func(v any, opt EncodeOptions) {
		m, err := Encode(v, opt)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream(m, len(m.Frames)))
	}
	arr := NewNDArray([]int16{1, 2, 3, 4, 5, 6}, 2, 3)
	for _, v := range []any{
		nil, "x", []byte("raw"), arr, []any{arr, "x", Tuple{int64(1)}}, NewDict("a", []byte("b"), int64(5), nil),
		Set{int64(1)},
		&DeviceArray{DType: Uint8, Shape: []int{3}, Frame: HeapFrame([]byte("abc")).WithCUDA()},
	} {
		add(Serialize{v}, EncodeOptions{})
		add(NewDict("x", Serialize{v}, "y", ToPickle{NewDict("z", Set{"s"})}), EncodeOptions{ShardSize: 4})
	}
	for _, name := range Compressions() {
		add(Serialize{make([]byte, compressMin)}, EncodeOptions{Compression: name})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := unstream(b, FrameLimits{})
		if err != nil {
			return
		}
		opt := DecodeOptions{MaxDecompressed: 1 << 20}
		if v, err := Decode(m, DecodeOptions{Keep: true, KeepPickled: true, MaxDecompressed: 1 << 20}); err == nil {
			if _, err := Encode(v, EncodeOptions{}); err != nil {
				t.Fatalf("kept, and not encoded again: %v", err)
			}
		}
		v, err := Decode(m, opt)
		if err != nil {
			return
		}
		v = Clone(v)
		again, err := Encode(v, EncodeOptions{})
		if err != nil {
			t.Fatalf("%v decoded, and not encoded again: %v", v, err)
		}
		if _, err := Decode(again, opt); err != nil {
			t.Fatalf("%v not decoded again: %v", v, err)
		}
	})
}

func FuzzDecompress(f *testing.F) {
	for i, name := range Compressions() {
		b, err := compressor{name: name}.compress(make([]byte, 1000))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		const limit = 1 << 20
		d := inflater{left: limit, limit: limit}
		out, err := d.decompress(Compressions()[int(which)%4], b)
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes under a limit of %d", len(out), limit)
		}
	})
}
