package tcp

import (
	"bytes"
	"context"
	"net"
	"testing"

	"go.millstream.dev/wire"
)

// sink is a connection that keeps what is written, and counts.
type sink struct {
	net.Conn
	bytes.Buffer
	writes int
	sizes  []int
}

func (s *sink) Read(b []byte) (int, error) { return s.Buffer.Read(b) }
func (s *sink) Write(b []byte) (int, error) {
	s.writes++
	s.sizes = append(s.sizes, len(b))
	return s.Buffer.Write(b)
}

// What is written is what is read, and small messages go out in one piece.
func TestSend(t *testing.T) {
	var o output
	for i, sizes := range append(shapes, []int{100, 20_000, 100, 100, 20_000}, make([]int, 3000)) {
		m := frames(i, sizes...)
		s := new(sink)
		n, err := o.send(s, m, false)
		if err != nil || n != int64(s.Len()) {
			t.Fatalf("%d bytes of %d, %v", n, s.Len(), err)
		}
		small := true
		for _, n := range sizes {
			small = small && n < joinBelow
		}
		if small && s.writes != 1 {
			t.Errorf("a message of small frames took %d writes", s.writes)
		}
		c := &conn{nc: s}
		got, err := c.readMessage(context.Background())
		if err != nil || !equal(got, m) {
			t.Errorf("%.10v: %v", sizes, err)
		}
	}
	s := new(sink)
	if _, err := o.send(s, frames(0, 100, 20_000, 100, 100, 20_000, 7), false); err != nil || s.writes != 5 ||
		s.sizes[2] != 200 {
		t.Errorf("pieces of %v, %v", s.sizes, err)
	}
	for _, v := range o.vec[:cap(o.vec)] {
		if v != nil {
			t.Error("frames are held after they were sent")
		}
	}
}

func TestSendAllocates(t *testing.T) {
	var o output
	small, large := frames(1, 50, 1000), frames(1, 50, 1<<20, 100)
	if _, err := o.send(discard{}, large, false); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*wire.Message{"small": small, "large": large} {
		if n := testing.AllocsPerRun(100, func() { _, _ = o.send(discard{}, m, false) }); n != 0 {
			t.Errorf("a %s message costs %v allocations", name, n)
		}
	}
}

type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestUncleared(t *testing.T) {
	for _, n := range []int{0, 1, 1<<15 - 1, 1 << 15, 1<<20 + 3} {
		b := uncleared(n)
		if len(b) != n {
			t.Fatalf("%d bytes instead of %d", len(b), n)
		}
		for i := range b {
			b[i] = byte(i)
		}
		other := uncleared(n)
		for i := range other {
			other[i] = 0xff
		}
		for i := range b {
			if b[i] != byte(i) {
				t.Fatal("two of them share memory")
			}
		}
	}
}
