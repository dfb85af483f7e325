package framing

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/wire"
)

func message(lens ...int) *wire.Message {
	m := new(wire.Message)
	for i, n := range lens {
		m.Frames = append(m.Frames, wire.HeapFrame(bytes.Repeat([]byte{byte('a' + i)}, n)))
	}
	return m
}

// stream is the message as it goes out.
func stream(m *wire.Message, joined int) []byte {
	b := Append(nil, m, joined)
	for _, f := range m.Frames {
		b = append(b, f.Bytes()...)
	}
	return b
}

// unstream reads a message by the rules of a reader.
func unstream(b []byte, lim Limits) (*wire.Message, error) {
	n, err := FirstRead(b, lim)
	if err != nil {
		return nil, err
	}
	b = b[HeadSize:]
	first := b[:min(int64(len(b)), n)]
	p, err := Parse(first, n, lim)
	if err != nil {
		return nil, err
	}
	m := new(wire.Message)
	if m.Frames, err = p.SplitFirst(nil, first); err != nil {
		return nil, err
	}
	rest := b[len(first):]
	for _, k := range p.Missing() {
		if k > int64(len(rest)) {
			return nil, errShort
		}
		m.Frames = append(m.Frames, wire.HeapFrame(rest[:k]))
		rest = rest[k:]
	}
	return m, nil
}

var errShort = io.ErrUnexpectedEOF

func TestPreludeRoundTrip(t *testing.T) {
	for _, lens := range [][]int{{1}, {0}, {5, 0}, {0, 0, 0}, {3, 7, 0, 0, 9}, {10, 1 << 17, 0, 1 << 17}} {
		m := message(lens...)
		for joined := range len(lens) + 1 {
			got, err := unstream(stream(m, joined), Limits{})
			if err != nil {
				t.Fatalf("%v joined %d: %v", lens, joined, err)
			}
			if !slices.EqualFunc(m.Frames, got.Frames, func(a, b wire.Frame) bool {
				return bytes.Equal(a.Bytes(), b.Bytes())
			}) {
				t.Errorf("%v joined %d: other frames", lens, joined)
			}
		}
	}
}

func TestPreludeCapturedHandshake(t *testing.T) {
	// As distributed 2026.7.1 writes it.
	body := "\x83\xabcompression\xc0\xa6python\x93\x03\x0b\x07\xafpickle-protocol\x05"
	want := "\x3a\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x00\x00\x00\x00" + body
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(body))}}
	if got := stream(m, Joined(m)); string(got) != want {
		t.Errorf("got %x", got)
	}
}

func TestJoinedFrames(t *testing.T) {
	const big = 1 << 20
	for _, tc := range []struct {
		lens []int
		want int
	}{
		{[]int{10}, 1},
		{[]int{big}, 1},
		{[]int{10, 20, 30}, 3},
		{[]int{10, 20, big}, 3},
		{[]int{10, big, 20, big}, 3},
		{[]int{big / 2, big}, 1},
		{[]int{100, big, big}, 2},
	} {
		if got := Joined(message(tc.lens...)); got != tc.want {
			t.Errorf("%v: %d frames joined, want %d", tc.lens, got, tc.want)
		}
	}
}

func u64s(v ...uint64) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

func TestPreludeHostile(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		b          []byte
	}{
		{"4 GiB promised in 8 bytes, over the limit", "limit", u64s(4 << 30)},
		{"too short", "starts with", []byte{1, 2}},
		{"no room for a prelude", "too short", u64s(8, 0)},
		{"no frame", "without a body", u64s(16, 0, 0)},
		{"more frames than the limit", "announced", u64s(16, 1<<40, 5)},
		{"more frames than bytes", "needs", u64s(16, 1000, 5)},
		{"first read not there", "needs", u64s(1000, 60, 5)},
		{"cut frame", "cut", append(u64s(18, 1, 5), 1, 2)},
		{"sum overflows", "larger", u64s(24, 2, 1<<63, 1<<63)},
		{"sum over the limit", "larger", u64s(24, 2, 1<<19, 1<<20)},
	} {
		_, err := unstream(tc.b, Limits{Message: 1 << 20, Frames: 1 << 16})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func FuzzPrelude(f *testing.F) {
	f.Add(stream(message(3, 0, 5), 1))
	f.Add(stream(message(3, 0, 5), 3))
	f.Add(u64s(4<<30, 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := unstream(b, Limits{})
		if err != nil {
			return
		}
		var n int64
		for _, fr := range m.Frames {
			n += int64(fr.Len())
		}
		if n != m.Size() || n > int64(len(b)) {
			t.Fatalf("%d bytes of frames out of %d", n, len(b))
		}
		again, err := unstream(stream(m, Joined(m)), Limits{})
		if err != nil || len(again.Frames) != len(m.Frames) {
			t.Fatalf("re-encoded: %v", err)
		}
	})
}

// A message of very many empty frames is refused before they are made.
func TestManyEmptyFrames(t *testing.T) {
	announce := func(n int, length uint64) ([]byte, int64) {
		b := binary.LittleEndian.AppendUint64(nil, uint64(n))
		for range n {
			b = binary.LittleEndian.AppendUint64(b, length)
		}
		return b, int64(len(b)) + int64(n)*int64(length)
	}
	for _, c := range []struct {
		n      int
		length uint64
		ok     bool
	}{
		{1 << 20, 0, false}, {1 << 20, 8, false}, {freeFrames, 0, true}, {freeFrames + 1, 0, false},
		{1 << 20, 16, true},
	} {
		b, total := announce(c.n, c.length)
		if _, err := Parse(b, total, Limits{}); (err == nil) != c.ok {
			t.Errorf("%d frames of %d bytes: %v, want accepted: %t", c.n, c.length, err, c.ok)
		}
	}
}
