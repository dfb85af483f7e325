package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/msgpack"
)

// mustPack is msgpack of a value.
func mustPack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// group is a message with one serialized value.
func group(t testing.TB, header Dict, frames ...[]byte) *Message {
	t.Helper()
	header.Set("num-sub-frames", len(frames))
	m := &Message{Frames: []Frame{HeapFrame(mustPack(t, NewDict("__Serialized__", 1))), HeapFrame(mustPack(t, header))}}
	for _, f := range frames {
		m.Frames = append(m.Frames, HeapFrame(f))
	}
	return m
}

// allocated is what f allocates in bytes.
func allocated(f func()) uint64 {
	var a, b runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&b)
	return b.TotalAlloc - a.TotalAlloc
}

// refuse checks that a message is refused, and cheaply.
func refuse(t *testing.T, m *Message, opt DecodeOptions, want string) {
	t.Helper()
	var err error
	n := allocated(func() { _, err = Decode(m, opt) })
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if limit := uint64(100*m.Size() + 1<<20); n > limit {
		t.Errorf("allocated %d bytes for a message of %d", n, m.Size())
	}
}

func bytesHeader(compression ...any) Dict {
	h := daskHeader(classBytes, nil)
	if compression != nil {
		h.Set("compression", compression)
	}
	return h
}

func TestHostileMessages(t *testing.T) {
	body := func(v any) *Message { return &Message{Frames: []Frame{HeapFrame(mustPack(t, v))}} }
	raw := func(b ...byte) *Message { return &Message{Frames: []Frame{HeapFrame(b)}} }
	for _, tc := range []struct {
		name, want string
		m          *Message
	}{
		{"no frame", "without a body", &Message{}},
		{"empty body", "body", raw()},
		{"4 G elements in 5 bytes", "elements", raw(0xdd, 0xff, 0xff, 0xff, 0xff)},
		{"4 GiB string in 5 bytes", "bytes", raw(0xdb, 0xff, 0xff, 0xff, 0xff)},
		{"deep nesting", "deep", raw(append(bytes.Repeat([]byte{0x91}, 100_000), 0xc0)...)},
		{"marker beyond the frames", "frame 7 of 1", body(NewDict("__Serialized__", 7))},
		{"pickled marker beyond the frames", "frame 7 of 1", body(NewDict("__Pickled__", 7))},
		{"set without list", "as-list", body(NewDict("__Set__", true))},
		{"enum without name", "__Enum__", body(NewDict("__Enum__", true))},
		{"a header that is no map", "a map",
			&Message{Frames: []Frame{HeapFrame(mustPack(t, NewDict("__Serialized__", 1))), HeapFrame([]byte{0xc0})}}},
		{"a header without a number of frames", "num-sub-frames",
			&Message{Frames: []Frame{HeapFrame(mustPack(t, NewDict("__Serialized__", 1))),
				HeapFrame(mustPack(t, NewDict("a", 1)))}}},
		{"more frames than there are", "follow", func() *Message {
			m := group(t, bytesHeader(), nil)
			m.Frames = m.Frames[:2]
			return m
		}()},
		{"one group twice", "two values", func() *Message {
			m := group(t, bytesHeader(), []byte("x"))
			m.Frames[0] = HeapFrame(mustPack(t, []any{NewDict("__Serialized__", 1), NewDict("__Serialized__", 1)}))
			return m
		}()},
		{"a group in another", "two values", func() *Message {
			m := group(t, bytesHeader(), mustPack(t, NewDict("num-sub-frames", 0)))
			m.Frames[0] = HeapFrame(mustPack(t, []any{NewDict("__Serialized__", 1), NewDict("__Serialized__", 2)}))
			return m
		}()},
		{"shards that overlap", "shards", group(t, append(bytesHeader(),
			Pair{Key: "split-num-sub-frames", Value: []int{1, 1}}, Pair{Key: "split-offsets", Value: []int{0, 0}}),
			[]byte("x"))},
		{"shards beyond the frames", "shards", group(t, append(bytesHeader(),
			Pair{Key: "split-num-sub-frames", Value: []int{5}}, Pair{Key: "split-offsets", Value: []int{0}}),
			[]byte("x"))},
		{"negative shards", "numbers", group(t, append(bytesHeader(),
			Pair{Key: "split-num-sub-frames", Value: []int{-1}}, Pair{Key: "split-offsets", Value: []int{0}}),
			[]byte("x"))},
		{"unknown compression", "unknown compression", group(t, bytesHeader("brotli"), []byte("x"))},
		{"compressions without frames", "compressions", group(t, bytesHeader("lz4", "lz4"), []byte("x"))},
		{"no class", "type-serialized", group(t, NewDict("serializer", "dask", "sub-header", Dict{}), []byte("x"))},
		{"pickle without a frame", "without a frame", group(t, NewDict("serializer", "pickle"))},
		{"no pickle", "pickle", group(t, NewDict("serializer", "pickle"), []byte("\xff\xff"))},
		{"members without frames", "frames", group(t, NewDict("is-collection", true, "sub-headers",
			[]any{bytesHeader()}, "frame-lengths", []int{3}, "type-serialized", "list"), []byte("x"))},
		{"members without headers", "sub-headers", group(t, NewDict("is-collection", true, "sub-headers", []any{},
			"frame-lengths", []int{3}, "type-serialized", "list"))},
		{"a collection of nothing known", "list, tuple, set",
			group(t, NewDict("is-collection", true, "sub-headers", []any{}, "frame-lengths", []int{}, "type-serialized",
				"deque"))},
		{"a dict member without a key", "no key", group(t, NewDict("is-collection", true, "sub-headers",
			[]any{bytesHeader()}, "frame-lengths", []int{1}, "type-serialized", "dict"), []byte("x"))},
	} {
		t.Run(tc.name, func(t *testing.T) { refuse(t, tc.m, DecodeOptions{}, tc.want) })
	}
}

func TestHostileNesting(t *testing.T) {
	h := bytesHeader()
	for range maxCollectionDepth + 1 {
		h = NewDict("is-collection", true, "sub-headers", []any{h}, "frame-lengths", []int{1}, "type-serialized",
			"list")
	}
	refuse(t, group(t, h, []byte("x")), DecodeOptions{}, "deep")
}

// TestHostileSharing is a pickle of few bytes that stands for 2^40 values.
func TestHostileSharing(t *testing.T) {
	// One list, and forty lists each of which has the one before twice.
	p := []byte{0x80, 4, ']', 0x94}
	for i := range 40 {
		p = append(p, ']', 0x94, '(', 'h', byte(i), 'h', byte(i), 'e')
	}
	p = append(p, '.')
	m := group(t, NewDict("serializer", "pickle", "writeable", []any{}), p)
	v, err := Decode(m, DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := v.(*Object); !ok {
		t.Errorf("a value that nobody can walk over became a %T", v)
	}
}

func TestDecompressionBombs(t *testing.T) {
	zeros := make([]byte, 16<<20)
	for _, name := range compress.Names() {
		bomb, err := compress.Compressor{Name: name}.Compress(zeros)
		if err != nil {
			t.Fatal(err)
		}
		m := group(t, bytesHeader(name), bomb)
		// Honest under the default limit, and a bomb under a lower one.
		v, err := Decode(m, DecodeOptions{})
		if err != nil || len(v.([]byte)) != len(zeros) {
			t.Errorf("%s: %v", name, err)
		}
		n := allocated(func() { _, err = Decode(m, DecodeOptions{MaxDecompressed: 1 << 20}) })
		if !errors.Is(err, ErrDecompress) {
			t.Errorf("%s: got %v", name, err)
		}
		if n > 12<<20 {
			t.Errorf("%s: allocated %d bytes with a limit of 1 MiB", name, n)
		}
		// Many frames share one budget.
		m = group(t, NewDict("is-collection", true, "sub-headers", []any{bytesHeader(), bytesHeader()}, "frame-lengths",
			[]int{1, 1},
			"type-serialized", "list", "compression", []any{name, name}), bomb, bomb)
		if _, err = Decode(m, DecodeOptions{MaxDecompressed: 20 << 20}); !errors.Is(err, ErrDecompress) {
			t.Errorf("%s, two of them: got %v", name, err)
		}
	}
}

func TestDecompressionLies(t *testing.T) {
	lz4Lie := binary.LittleEndian.AppendUint32(nil, 0xffffffff)
	zstdLie := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0} // 4 GiB in a single segment
	snappyLie := []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}
	for _, tc := range []struct {
		name string
		b    []byte
	}{
		{compress.LZ4, lz4Lie}, {compress.LZ4, []byte{1}}, {compress.LZ4, []byte{10, 0, 0, 0, 0x10}},
		{compress.Zstd, zstdLie}, {compress.Zstd, []byte("no zstd at all")}, {compress.Zstd, nil},
		{compress.Snappy, snappyLie}, {compress.Snappy, nil},
		{compress.Zlib, []byte("no zlib")}, {compress.Zlib, nil}, {compress.Zlib, []byte{0x78, 0x9c, 1}},
	} {
		var err error
		m := group(t, bytesHeader(tc.name), tc.b)
		n := allocated(func() { _, err = Decode(m, DecodeOptions{}) })
		if !errors.Is(err, ErrDecompress) {
			t.Errorf("%s %x: got %v", tc.name, tc.b, err)
		}
		if n > 4<<20 {
			t.Errorf("%s %x: allocated %d bytes", tc.name, tc.b, n)
		}
	}
}
