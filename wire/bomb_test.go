package wire

import (
	"bytes"
	"errors"
	"testing"

	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/pickle"
)

// zeros is a frame of so many zeros, compressed.
func zeros(t testing.TB, name string, n int) []byte {
	t.Helper()
	b, err := compress.Compressor{Name: name}.Compress(make([]byte, n))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pickledGroup is a message with one value that was sent as ToPickle.
func pickledGroup(t testing.TB, compression string, frame []byte) *Message {
	t.Helper()
	h := NewDict("pickled-obj", []byte("\x80\x05\x97."), "compression", []any{compression}, "num-sub-frames", 1)
	return &Message{Frames: []Frame{
		HeapFrame(mustPack(t, NewDict("__Pickled__", 1))), HeapFrame(mustPack(t, h)), HeapFrame(frame),
	}}
}

// What is kept closed is not decompressed, and goes on as it came.
func TestKeptPickleIsNotDecompressed(t *testing.T) {
	for _, name := range compress.Names() {
		const size = 16 << 20
		frame := zeros(t, name, size)
		m := pickledGroup(t, name, frame)
		var v any
		var err error
		if n := allocated(func() { v, err = Decode(m, DecodeOptions{Keep: true, KeepPickled: true}) }); n > 1<<20 ||
			err != nil {
			t.Errorf("%s: decoding allocated %d bytes, want less than 1 MiB: %v", name, n, err)
			continue
		}
		p := Clone(v).(*Pickled)
		if got := p.Buffers[0].Len(); got != len(frame) {
			t.Errorf("%s: the buffer has %d bytes, want %d as received", name, got, len(frame))
		}
		again, err := Encode(p, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, err = Decode(again, DecodeOptions{})
		if err != nil {
			t.Errorf("%s: sent on and opened: %v", name, err)
		} else if q, ok := v.(*Pickled); !ok || q.Compression != nil || q.Buffers[0].Len() != size {
			t.Errorf("%s: sent on and opened: %T, want a pickle with a buffer of %d zeros", name, v, size)
		}
		if _, err := p.tree(pickle.Limits{}); err != nil {
			t.Errorf("%s: the tree: %v", name, err)
		}
		if _, err := p.Open(DecodeOptions{MaxDecompressed: 1 << 20}); !errors.Is(err, ErrDecompress) {
			t.Errorf("%s: opened beyond its budget: got %v, want ErrDecompress", name, err)
		}
	}
}

// A bound ratio refuses bombs; without it honest zeros pass.
func TestMaxRatio(t *testing.T) {
	const n = 100 << 20
	frame := zeros(t, compress.Zstd, n)
	h := func() *Message { return group(t, bytesHeader(compress.Zstd), frame) }
	var err error
	got := allocated(func() { _, err = Decode(h(), DecodeOptions{MaxRatio: 256}) })
	if !errors.Is(err, ErrDecompress) || got > 1<<20 {
		t.Errorf("%d bytes that become %d: %v, %d bytes allocated; want ErrDecompress and less than 1 MiB", len(frame),
			n, err, got)
	}
	v, err := Decode(h(), DecodeOptions{})
	if b, ok := v.([]byte); err != nil || !ok || len(b) != n || !bytes.Equal(b[:1000], make([]byte, 1000)) {
		t.Errorf("honest zeros: a %T of %d bytes, %v", v, len(b), err)
	}
	v, err = Decode(group(t, bytesHeader(compress.Zstd), zeros(t, compress.Zstd, 32<<20)), DecodeOptions{MaxRatio: 256})
	if b, _ := v.([]byte); err != nil || len(b) != 32<<20 {
		t.Errorf("32 MiB of zeros with a bound ratio: %d bytes, %v", len(b), err)
	}
}
