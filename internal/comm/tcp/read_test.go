package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/wire"
)

// source is a connection that delivers given bytes in pieces of given sizes, and counts.
type source struct {
	net.Conn
	data  []byte
	piece func() int
	reads int
}

func (s *source) Read(b []byte) (int, error) {
	s.reads++
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(s.data))
	if s.piece != nil {
		n = min(n, max(1, s.piece()))
	}
	copy(b, s.data[:n])
	s.data = s.data[n:]
	return n, nil
}

func reader(data []byte, piece func() int) (*conn, *source) {
	s := &source{data: data, piece: piece}
	return &conn{nc: s}, s
}

// stream is messages as they travel.
func stream(joined int, messages ...*wire.Message) (b []byte) {
	for _, m := range messages {
		b = framing.Append(b, m, min(joined, len(m.Frames)))
		for _, f := range m.Frames {
			b = append(b, f.Bytes()...)
		}
	}
	return b
}

func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(seed + 7*i + i>>8)
	}
	return b
}

func frames(seed int, sizes ...int) *wire.Message {
	m := new(wire.Message)
	for i, n := range sizes {
		m.Frames = append(m.Frames, wire.HeapFrame(pattern(n, seed+i)))
	}
	return m
}

func equal(a, b *wire.Message) bool {
	if len(a.Frames) != len(b.Frames) {
		return false
	}
	for i := range a.Frames {
		if !bytes.Equal(a.Frames[i].Bytes(), b.Frames[i].Bytes()) {
			return false
		}
	}
	return true
}

var shapes = [][]int{
	{0}, {1}, {42}, {0, 0, 0}, {10, 0, 70_000, 0}, {70_000, 5, 70_000}, {64 << 10}, {64<<10 + 1}, {4096}, {4088, 8},
	{5, 3 << 20, 1}, {65_000, 65_000, 65_000},
}

// Messages come out as they went in, wherever the stream is cut.
func TestReadPieces(t *testing.T) {
	many := make([]int, 20_000) // a prelude larger than the buffer
	for i := range many {
		many[i] = i % 5
	}
	for _, joined := range []int{1, 2, 1 << 30} {
		for _, piece := range []int{1 << 30, 1, 7, 4096, 65_537} {
			var list []*wire.Message
			for i, sizes := range append(shapes, many, []int{3}) {
				if piece > 7 || len(sizes) < 1000 && sizes[len(sizes)/2] < 1<<20 {
					list = append(list, frames(i, sizes...))
				}
			}
			c, _ := reader(stream(joined, list...), func() int { return piece })
			for i, want := range list {
				got, err := c.readMessage(context.Background())
				if err != nil || !equal(got, want) {
					t.Fatalf("joined %d, pieces of %d: message %d: %v", joined, piece, i, err)
				}
			}
			if _, err := c.readMessage(context.Background()); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		}
	}
}

// A small message costs one read, and many that have come together cost one for all.
func TestReadCalls(t *testing.T) {
	var list []*wire.Message
	for i := range 20 {
		list = append(list, frames(i, 100))
	}
	c, s := reader(stream(1, list...), nil)
	for range list {
		if _, err := c.readMessage(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if s.reads != 1 {
		t.Errorf("20 messages took %d reads", s.reads)
	}
	if len(c.in.buf) != smallBuffer {
		t.Errorf("the buffer has %d bytes", len(c.in.buf))
	}
	// A large frame is read into its own memory at once, when the comm has earned it.
	c.in.got.Store(10 << 20)
	s.data, s.reads = stream(2, frames(1, 50, 8<<20)), 0
	if _, err := c.readMessage(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s.reads != 2 {
		t.Errorf("a large message took %d reads", s.reads)
	}
}

// Received counts the bytes of a message before the message is complete.
func TestReceived(t *testing.T) {
	data := stream(1, frames(1, 50, 3<<20))
	cut := len(data) - 1<<20
	c, _ := reader(data[:cut], nil)
	if _, err := c.readMessage(context.Background()); !errors.Is(err, io.EOF) {
		t.Fatalf("half a message: got %v, want EOF", err)
	}
	if got := c.Received(); got != int64(cut) {
		t.Errorf("Received: got %d, want %d", got, cut)
	}
}

func TestReadBufferGrows(t *testing.T) {
	var list []*wire.Message
	for i := range 200 {
		list = append(list, frames(i, 1000))
	}
	c, s := reader(stream(1, list...), nil)
	for i := range list {
		if m, err := c.readMessage(context.Background()); err != nil || !equal(m, list[i]) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if len(c.in.buf) != largeBuffer || s.reads > 10 {
		t.Errorf("a buffer of %d bytes, %d reads", len(c.in.buf), s.reads)
	}
}

// The messages that were read do not share the buffer.
func TestReadOwnMemory(t *testing.T) {
	c, _ := reader(stream(9, frames(1, 100, 3), frames(2, 100, 3)), nil)
	a, err := c.readMessage(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.readMessage(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !equal(a, frames(1, 100, 3)) {
		t.Error("the second message has changed the first")
	}
	if b := a.Frames[0].Bytes(); cap(b) != len(b) {
		t.Error("a frame could be appended over its neighbor")
	}
}

// Memory follows the bytes that came.
func TestReadAllocates(t *testing.T) {
	prelude := framing.Append(nil, frames(0, 1), 1)
	promise := func(n uint64) []byte {
		b := bytes.Clone(prelude)
		for i := range 8 {
			b[i] = byte((16 + n) >> (8 * i))
			b[16+i] = byte(n >> (8 * i))
		}
		return b
	}
	for _, sent := range []int{0, 100_000, 1 << 20, 5 << 20} {
		c, _ := reader(append(promise(4<<30), make([]byte, sent)...), nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := c.readMessage(context.Background()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		allocated := int64(after.TotalAlloc - before.TotalAlloc)
		// Steps add up to a little more than the last, which is four times what came.
		if most := int64(openStep + 6*sent); allocated > most+largeBuffer {
			t.Errorf("%d bytes of 4 GiB made %d bytes of memory", sent, allocated)
		}
	}
	// Who has sent much is believed more, up to a bound.
	c, _ := reader(promise(4<<30), nil)
	c.in.got.Store(1 << 40)
	if _, err := c.readMessage(context.Background()); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty first read": make([]byte, 8),
		"no frames":        {16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"surplus":          append(stream(1, frames(0, 5))[:8:8], append(stream(1, frames(0, 5))[8:], 0)...),
	} {
		if name == "surplus" {
			data[0]++
		}
		c, _ := reader(data, nil)
		_, err := c.readMessage(context.Background())
		var bad *badMessage
		if !errors.As(err, &bad) || errors.Is(err, io.EOF) || !errors.Is(err, comm.ErrProtocol) {
			t.Errorf("%s: got %v, want a comm.ErrProtocol that is no io.EOF", name, err)
		}
	}
	// The end in the middle is an error that is not the end of the stream.
	whole := stream(1, frames(1, 10, 20))
	for n := 1; n < len(whole); n++ {
		c, _ := reader(whole[:n], nil)
		_, err := c.readMessage(context.Background())
		var bad *badMessage
		if !errors.Is(err, io.EOF) || !(errors.As(err, &bad) || c.in.r < c.in.w) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(stream(1, frames(1, 0, 5, 100), frames(2, 3)), uint16(1))
	f.Add(stream(9, frames(1, 70_000, 0)), uint16(5000))
	f.Add(bytes.Repeat([]byte{0xff}, 100), uint16(3))
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		c, _ := reader(bytes.Clone(data), func() int { return int(piece) })
		c.limits = framing.Limits{Message: 1 << 30}
		var list []*wire.Message
		for {
			m, err := c.readMessage(context.Background())
			if err != nil {
				break
			}
			list = append(list, m)
		}
		// What was understood is understood again, in another cut.
		again, _ := reader(stream(1, list...), nil)
		for i := range list {
			if m, err := again.readMessage(context.Background()); err != nil || !equal(m, list[i]) {
				t.Fatalf("message %d: %v", i, err)
			}
		}
	})
}
