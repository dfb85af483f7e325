package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// zeros is a frame of so many zeros, compressed.
func zeros(t testing.TB, name string, n int) []byte {
	t.Helper()
	b, err := Compressor{Name: name}.Compress(make([]byte, n))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// allocated is what f allocates in bytes.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
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
		d := NewInflater(1 << 40)
		var err error
		n := allocated(func() { _, err = d.Decompress(c.codec, c.frame) })
		if limit := 32*uint64(len(c.frame)) + 64<<20; !errors.Is(err, Err) || n > limit {
			t.Errorf("%s: %v, %d bytes allocated for %d, want Err and at most %d", name, err, n, len(c.frame),
				limit)
		}
	}
}

// Highly compressible frames of all codecs come back whole.
func TestHonestZeros(t *testing.T) {
	for _, name := range Names() {
		for _, n := range []int{1<<20 + 1, 5_000_003, 17_000_001} {
			d := NewInflater(1 << 40)
			out, err := d.Decompress(name, zeros(t, name, n))
			if err != nil || len(out) != n || cap(out) > 2*n+1<<20 {
				t.Errorf("%s: %d bytes of %d zeros, capacity %d, %v", name, len(out), n, cap(out), err)
			}
		}
	}
}

func FuzzDecompress(f *testing.F) {
	for i, name := range Names() {
		b, err := Compressor{Name: name}.Compress(make([]byte, 1000))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		const limit = 1 << 20
		d := NewInflater(limit)
		out, err := d.Decompress(Names()[int(which)%4], b)
		if err == nil && len(out) > limit {
			t.Fatalf("%d bytes under a limit of %d", len(out), limit)
		}
	})
}
