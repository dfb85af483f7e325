package wire_test

import (
	"testing"

	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/wire"
)

// stream returns a message as it goes over tcp.
func stream(m *wire.Message) []byte {
	b := framing.Append(nil, m, len(m.Frames))
	for _, f := range m.Frames {
		b = append(b, f.Bytes()...)
	}
	return b
}

// unstream reads a message whose frames are all in the first read.
func unstream(b []byte) (*wire.Message, error) {
	n, err := framing.FirstRead(b, framing.Limits{})
	if err != nil {
		return nil, err
	}
	p, err := framing.Parse(b[framing.HeadSize:], n, framing.Limits{})
	if err != nil {
		return nil, err
	}
	frames, err := p.SplitFirst(nil, b[framing.HeadSize:])
	return &wire.Message{Frames: frames}, err
}

// FuzzDecode takes a message as it travels over tcp.
func FuzzDecode(f *testing.F) {
	add := func(v any, opt wire.EncodeOptions) {
		m, err := wire.Encode(v, opt)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream(m))
	}
	arr := wire.NewNDArray([]int16{1, 2, 3, 4, 5, 6}, 2, 3)
	for _, v := range []any{
		nil, "x", []byte("raw"), arr, []any{arr, "x", wire.Tuple{int64(1)}},
		wire.NewDict("a", []byte("b"), int64(5), nil), wire.Set{int64(1)},
		&wire.DeviceArray{DType: wire.Uint8, Shape: []int{3}, Frame: wire.HeapFrame([]byte("abc")).WithCUDA()},
	} {
		add(wire.Serialize{Value: v}, wire.EncodeOptions{})
		add(wire.NewDict("x", wire.Serialize{Value: v}, "y", wire.ToPickle{Value: wire.NewDict("z", wire.Set{"s"})}),
			wire.EncodeOptions{ShardSize: 4})
	}
	for _, name := range compress.Names() {
		add(wire.Serialize{Value: make([]byte, 10_000)}, wire.EncodeOptions{Compression: name})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := unstream(b)
		if err != nil {
			return
		}
		opt := wire.DecodeOptions{MaxDecompressed: 1 << 20}
		closed := wire.DecodeOptions{Keep: true, KeepPickled: true, MaxDecompressed: 1 << 20}
		if v, err := wire.Decode(m, closed); err == nil {
			if _, err := wire.Encode(v, wire.EncodeOptions{}); err != nil {
				t.Fatalf("kept, and not encoded again: %v", err)
			}
		}
		v, err := wire.Decode(m, opt)
		if err != nil {
			return
		}
		v = wire.Clone(v)
		again, err := wire.Encode(v, wire.EncodeOptions{})
		if err != nil {
			t.Fatalf("%v decoded, and not encoded again: %v", v, err)
		}
		if _, err := wire.Decode(again, opt); err != nil {
			t.Fatalf("%v not decoded again: %v", v, err)
		}
	})
}
