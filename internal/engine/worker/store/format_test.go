package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

// random returns data that cannot be compressed.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(b) // never fails
	return b
}

func repeated(n int) []byte { return bytes.Repeat([]byte("all work and no play "), n/21+1)[:n] }

func serialized(header string, frames ...[]byte) *wire.Serialized {
	s := &wire.Serialized{Header: []byte(header)}
	for _, f := range frames {
		s.Frames = append(s.Frames, wire.HeapFrame(f))
	}
	return s
}

var samples = map[string]*wire.Serialized{
	"nothing":   serialized(""),
	"empty":     serialized("h", nil, nil),
	"small":     serialized("header", []byte("x"), []byte("yz")),
	"random":    serialized("header", random(100), random(3*blockSize+17)),
	"repeated":  serialized("header", repeated(5000), repeated(2*blockSize), repeated(blockSize+1)),
	"mixed":     serialized("header", random(2*blockSize), repeated(17*blockSize), nil, repeated(100)),
	"one block": serialized("h", repeated(blockSize)),
	"flagged": {Header: []byte("h"), Frames: []wire.Frame{wire.HeapFrame([]byte("gpu")).WithCUDA(),
		wire.HeapFrame([]byte("cpu"))}},
	"half block": serialized("h", append(random(blockSize/2), repeated(blockSize/2)...)),
}

func same(t *testing.T, got, want *wire.Serialized) {
	t.Helper()
	if !bytes.Equal(got.Header, want.Header) || len(got.Frames) != len(want.Frames) {
		t.Fatalf("header %q and %d frames, want %q and %d", got.Header, len(got.Frames), want.Header, len(want.Frames))
	}
	for i := range want.Frames {
		if !bytes.Equal(got.Frames[i].Bytes(), want.Frames[i].Bytes()) ||
			got.Frames[i].CUDA() != want.Frames[i].CUDA() {
			t.Errorf("frame %d differs", i)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	key := task.NewKey("the key")
	for name, v := range samples {
		for _, c := range []codec{codecNone, codecLZ4, codecZstd} {
			t.Run(fmt.Sprintf("%s/%d", name, c), func(t *testing.T) {
				var file bytes.Buffer
				n, err := writeTo(&file, key, v, c)
				if err != nil || n != int64(file.Len()) {
					t.Fatalf("got %d bytes written, %d in the file: %v", n, file.Len(), err)
				}
				if strings.HasPrefix(name, "repeated") && c != codecNone && n > v.Size()/4 {
					t.Errorf("%d bytes became %d", v.Size(), n)
				}
				if n > v.Size()+v.Size()/100+200 {
					t.Errorf("%d bytes became %d", v.Size(), n)
				}
				got, err := readFrom(&file, n, key, v.Size())
				if err != nil {
					t.Fatal(err)
				}
				same(t, got, v)
			})
		}
	}
}

// TestEveryByteCounts: a file with any changed byte, or truncated anywhere, is rejected.
func TestEveryByteCounts(t *testing.T) {
	key := task.NewKey("k")
	v := serialized("header", repeated(700), random(300))
	for _, c := range []codec{codecNone, codecLZ4, codecZstd} {
		var file bytes.Buffer
		if _, err := writeTo(&file, key, v, c); err != nil {
			t.Fatal(err)
		}
		good := file.Bytes()
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 0x41
			if _, err := readFrom(bytes.NewReader(bad), int64(len(bad)), key, v.Size()); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("codec %d, byte %d changed: %v", c, i, err)
			}
			if _, err := readFrom(bytes.NewReader(good[:i]), int64(i), key, v.Size()); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("codec %d, cut at %d: %v", c, i, err)
			}
			// The size that the store has and that of the file differ.
			if _, err := readFrom(bytes.NewReader(good[:i]), int64(len(good)), key, v.Size()); !errors.Is(err,
				ErrCorrupt) {
				t.Fatalf("codec %d, truncated to %d: %v", c, i, err)
			}
		}
		if _, err := readFrom(bytes.NewReader(append(bytes.Clone(good), 0)), int64(len(good)+1), key,
			v.Size()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d, a byte too many: %v", c, err)
		}
	}
}

// resum corrects the checksum of the head.
func resum(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

// TestHostileHeads: anyone can compute checksums, so the lengths in heads are not trusted.
func TestHostileHeads(t *testing.T) {
	key := task.NewKey("k")
	var file bytes.Buffer
	v := serialized("header", repeated(700))
	if _, err := writeTo(&file, key, v, codecLZ4); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at    int
		value uint64
		size  int
		want  string
	}{
		"another version": {4, 2, 2, "version 2"},
		"another codec":   {6, 9, 2, "codec 9"},
		"a huge key":      {8, 1<<32 - 1, 4, "codec 1"},
		"a huge header":   {12, 1<<32 - 1, 4, "codec 1"},
		"many frames":     {16, 1<<32 - 1, 4, "codec 1"},
		"huge frames":     {20, 1 << 62, 8, "limit"},
		"less than a sum": {20, 699, 8, "of 699"},
		"more than a sum": {20, 701, 8, "extra bytes"},
		"another magic":   {0, 0, 4, "magic is not"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := bytes.Clone(file.Bytes())
			switch c.size {
			case 2:
				binary.LittleEndian.PutUint16(bad[c.at:], uint16(c.value))
			case 4:
				binary.LittleEndian.PutUint32(bad[c.at:], uint32(c.value))
			case 8:
				binary.LittleEndian.PutUint64(bad[c.at:], c.value)
			}
			_, err := readFrom(bytes.NewReader(resum(bad)), int64(len(bad)), key, 1<<30)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	if _, err := readFrom(bytes.NewReader(file.Bytes()), int64(file.Len()), task.NewKey("other"), 1<<30); err == nil ||
		!strings.Contains(err.Error(), "wrong key") {
		t.Errorf("file of another key: got %v", err)
	}
}

func TestWriteErrors(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, err := writeTo(full, "k", samples["mixed"], codecLZ4); err == nil ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("full disk: got %v", err)
	}
}

func TestCodecOf(t *testing.T) {
	for name, want := range map[string]codec{"": codecNone, "false": codecNone, "auto": codecLZ4, "lz4": codecLZ4,
		"zstd": codecZstd, "snappy": codecLZ4, "zlib": codecLZ4} {
		if got, err := codecOf(name); got != want || err != nil {
			t.Errorf("codecOf(%q) = %d, %v", name, got, err)
		}
	}
	if _, err := New(Config{Compression: "zip"}); err == nil || !strings.Contains(err.Error(), "spill-compression") {
		t.Errorf("zip: %v", err)
	}
}

// FuzzRead: no file makes the reader panic, or allocate more than the limit.
func FuzzRead(f *testing.F) {
	key := task.NewKey("k")
	for _, c := range []codec{codecNone, codecLZ4, codecZstd} {
		for _, v := range []*wire.Serialized{serialized(""), serialized("h", []byte("x"), nil),
			serialized("header", repeated(3000), random(600))} {
			var file bytes.Buffer
			if _, err := writeTo(&file, key, v, c); err != nil {
				f.Fatal(err)
			}
			f.Add(file.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headSize {
			b = resum(bytes.Clone(b))
			le := binary.LittleEndian
			end := headSize + int64(le.Uint32(b[8:])) + int64(le.Uint32(b[12:])) + 8*int64(le.Uint32(b[16:]))
			if end+4 <= int64(len(b)) { // pass the checksum
				le.PutUint32(b[end:], crc32.Checksum(b[headSize:end], castagnoli))
			}
		}
		v, err := readFrom(bytes.NewReader(b), int64(len(b)), key, 1<<20)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is not ErrCorrupt", err)
			}
			return
		}
		// A value that was read is written and read as the same.
		var file bytes.Buffer
		n, err := writeTo(&file, key, v, codecZstd)
		if err != nil {
			t.Fatal(err)
		}
		again, err := readFrom(&file, n, key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		same(t, again, v)
	})
}
