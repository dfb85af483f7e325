package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/zstd"

	"go.millstream.dev/internal/wire/pickle"
)

// zeros is a frame of so many zeros, compressed.
func zeros(t testing.TB, name string, n int) []byte {
	t.Helper()
	b, err := compressor{name: name}.compress(make([]byte, n))
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
	for _, name := range Compressions() {
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
		if _, err := p.Tree(pickle.Limits{}); err != nil {
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
	frame := zeros(t, Zstd, n)
	h := func() *Message { return group(t, bytesHeader(Zstd), frame) }
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
	v, err = Decode(group(t, bytesHeader(Zstd), zeros(t, Zstd, 32<<20)), DecodeOptions{MaxRatio: 256})
	if b, _ := v.([]byte); err != nil || len(b) != 32<<20 {
		t.Errorf("32 MiB of zeros with a bound ratio: %d bytes, %v", len(b), err)
	}
}

// Frames that promise gigabytes and fail do not allocate them.
func TestPromisesAreNotAllocated(t *testing.T) {
	// blocks that have the right form and the wrong content
	garbage := func(n int) []byte {
		b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x58} // no single segment, 4 bytes of length, a window of 2 MiB
		b = binary.LittleEndian.AppendUint32(b, 3<<30)
		for range n {
			b = append(b, 1<<3|2<<1, 0, 0, 0xff) // a compressed block of one byte
		}
		return b
	}
	lies := zeros(t, Zstd, 32<<20)
	var head zstd.Header
	if err := head.Decode(lies); err != nil || !head.HasFCS {
		t.Fatal(head, err)
	}
	lz4Lie := append(binary.LittleEndian.AppendUint32(nil, 3<<30), bytes.Repeat([]byte{0x10, 'x', 1, 0}, 4<<20)...)
	for name, c := range map[string]struct {
		codec string
		frame []byte
	}{
		"zstd of broken blocks":  {Zstd, garbage(200_000)},
		"lz4 of short sequences": {LZ4, lz4Lie},
		"lz4 of one long lie": {LZ4, append([]byte{0, 0, 0, 0xc0, 0x1f, 'x', 1, 0},
			bytes.Repeat([]byte{255}, 13<<20)...)},
		"lz4 with a cut sequence": {LZ4, append([]byte{0, 0, 0, 0xc0, 0xf0}, bytes.Repeat([]byte{255}, 13<<20)...)},
	} {
		d := inflater{left: 1 << 40, limit: 1 << 40}
		var err error
		n := allocated(func() { _, err = d.decompress(c.codec, c.frame) })
		if limit := 32*uint64(len(c.frame)) + 64<<20; !errors.Is(err, ErrDecompress) || n > limit {
			t.Errorf("%s: %v, %d bytes allocated for %d, want ErrDecompress and at most %d", name, err, n, len(c.frame),
				limit)
		}
	}
}

// Highly compressible frames of all codecs come back whole.
func TestHonestZeros(t *testing.T) {
	for _, name := range Compressions() {
		for _, n := range []int{1<<20 + 1, 20_000_003, 70_000_001} {
			d := inflater{left: 1 << 40, limit: 1 << 40}
			out, err := d.decompress(name, zeros(t, name, n))
			if err != nil || len(out) != n || cap(out) > 2*n+1<<20 {
				t.Errorf("%s: %d bytes of %d zeros, capacity %d, %v", name, len(out), n, cap(out), err)
			}
		}
	}
}
