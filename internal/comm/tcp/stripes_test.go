package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/limits"
	"go.millstream.dev/internal/device/staging/stagetest"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

// waiting is how many bytes have arrived on a connection and were not read.
func (c *conn) waiting() (n int) {
	rc, err := c.raw.SyscallConn()
	if err != nil {
		return 0
	}
	_ = rc.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// TestStrangersAreNoLines: only who shows the token of a comm becomes its line, once for each number, and what was said
// wrong does not hurt the comm.
func TestStrangersAreNoLines(t *testing.T) {
	leak.Check(t, leak.Wait(30*time.Second))
	d := stagetest.Install(t)
	l, err := backend{}.Listen(t.Context(), "127.0.0.1:0", comm.ListenConfig{Device: d.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address := strings.TrimPrefix(l.ContactAddr(), "tcp://")
	connect := func(context.Context) (net.Conn, error) { return net.Dial("tcp", address) }
	nc, err := connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, hello, err := shakeHands(ctx, nc, greeting{device: d.Memory()})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	accepted, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := accepted.(*conn)
	defer b.Close()
	if len(hello.Lines) != tokenSize {
		t.Fatalf("a token of %d bytes", len(hello.Lines))
	}
	join := func(number, total byte) []byte { return append(bytes.Clone(hello.Lines), number, total) }
	other := append(make([]byte, tokenSize), 1, 3)
	for _, bad := range [][]byte{{}, {1}, hello.Lines, other, join(0, 3), join(3, 3), join(1, 1),
		join(1, comm.MaxStripes+1), append(join(1, 3), 0)} {
		if c, err := dialStripe(ctx, connect, comm.Limits{}, bad); err == nil {
			c.Abort()
			t.Errorf("%x became a line", bad)
		}
	}
	one, err := dialStripe(ctx, connect, comm.Limits{}, join(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Abort()
	for _, bad := range [][]byte{join(1, 3), join(2, 4), join(1, 2)} { // taken, and of another number
		if c, err := dialStripe(ctx, connect, comm.Limits{}, bad); err == nil {
			c.Abort()
			t.Errorf("%x became a line beside the first", bad)
		}
	}
	if b.stripes.get() != nil {
		t.Error("the comm uses lines before all are there")
	}
	two, err := dialStripe(ctx, connect, comm.Limits{}, join(2, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer two.Abort()
	if len(b.stripes.get()) != 2 {
		t.Errorf("the comm has %d lines", len(b.stripes.get()))
	}
	a.stripes.set([]*conn{one, two})
	data := stagetest.Random(spreadFrom)
	m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte("body")), d.Frame(t, data)}}
	got := exchange(t, a, b, m)
	m.Release()
	if !bytes.Equal(stagetest.Contents(t, got.Frames[1]), data) {
		t.Error("others arrived")
	}
	got.Release()
	_ = b.Close() // ends the lines: the token is worth nothing any more
	if c, err := dialStripe(ctx, connect, comm.Limits{}, join(1, 3)); err == nil {
		c.Abort()
		t.Error("a comm that has ended got a line")
	}
	if n := len(l.(*listener).table.entries); n != 0 {
		t.Errorf("%d comms are remembered", n)
	}
}

// TestLinesEndWithTheComm: those that came before their comm failed go with it.
func TestLinesEndWithTheComm(t *testing.T) {
	leak.Check(t, leak.Wait(30*time.Second))
	var k stripeTable
	e := k.open()
	x, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	there, err := net.Dial("tcp", x.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	nc, err := x.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(nc, limits.AfterHandshake(comm.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := k.join(t.Context(), c, append(e.token[:], 1, 2)); err != nil {
		t.Fatal(err)
	}
	e.withdraw()
	if !errors.Is(c.Err(), comm.ErrClosed) {
		t.Error("a line outlives the handshake of its comm")
	}
	if k.join(t.Context(), c, append(e.token[:], 1, 2)) == nil {
		t.Error("it was admitted after that")
	}
}

// hookedConn calls a function before each Write.
type hookedConn struct {
	net.Conn
	write func()
}

func (c hookedConn) Write(p []byte) (int, error) {
	c.write()
	return c.Conn.Write(p)
}

// TestLineIsHeldUntilItHasJoined: a comm that has all its lines does not use one that still ends its handshake.
func TestLineIsHeldUntilItHasJoined(t *testing.T) {
	leak.Check(t, leak.Wait(30*time.Second))
	var k stripeTable
	e := k.open()
	defer e.withdraw()
	x, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	accept := func() *conn {
		there, err := net.Dial("tcp", x.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { there.Close() })
		nc, err := x.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c, err := newConn(nc, limits.AfterHandshake(comm.Limits{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Abort)
		return c
	}
	of, line := accept(), accept()
	e.admit(of)
	asked := false
	line.nc = hookedConn{line.nc, func() {
		asked = true
		if n := len(of.stripes.get()); n != 1 {
			t.Errorf("lines of the comm during the answer: %d, want 1", n)
		}
		for name, turn := range map[string]turn{"read": line.rturn, "write": line.wturn} {
			select {
			case turn <- struct{}{}:
				t.Errorf("the turn to %s is free before the line has joined", name)
				turn.give()
			default:
			}
		}
	}}
	if err := k.join(t.Context(), line, append(e.token[:], 1, 2)); err != nil || !asked {
		t.Fatalf("join: %v, answered: %t; want no error and true", err, asked)
	}
	for name, turn := range map[string]turn{"read": line.rturn, "write": line.wturn} {
		if len(turn) != 0 {
			t.Errorf("the turn to %s is taken after the line has joined", name)
		}
	}
}

// TestHostileFlags: flags that make no sense end the comm, and nothing is allocated for them.
func TestHostileFlags(t *testing.T) {
	for _, tc := range []struct {
		about string
		word  uint64
	}{
		{"spread without lines", flagCUDA | flagSpread | 10},
		{"spread, not of a GPU", flagSpread | 10},
		{"longer than a message may be", flagCUDA | 1<<61},
	} {
		d := stagetest.Install(t)
		a, b := stagedPair(t, "tcp", comm.DialConfig{}, comm.ListenConfig{Device: d.Memory()})
		var p []byte
		for _, w := range []uint64{24 + 14, 2, 4, tc.word} {
			p = binary.LittleEndian.AppendUint64(p, w)
		}
		p = append(p, "bodybytesbytes"...)
		a.disarm() // of its handshake's context
		if _, err := a.nc.Write(p); err != nil {
			t.Fatal(err)
		}
		if m, err := b.Read(t.Context()); err == nil {
			t.Errorf("%s: %d frames", tc.about, len(m.Frames))
		}
		if b.Err() == nil {
			t.Errorf("%s: the comm lives on", tc.about)
		}
	}
}

func FuzzFlags(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 0xc0, 1, 2, 3, 4, 5, 6, 7, 0x80})
	f.Add(make([]byte, 24))
	f.Fuzz(func(t *testing.T, lengths []byte) {
		n := len(lengths) / 8
		table := append(make([]byte, 8), lengths[:8*n]...)
		flags, err := takeFlags(table, n)
		if err != nil {
			return
		}
		for i := range n {
			before, after := binary.LittleEndian.Uint64(lengths[8*i:]), binary.LittleEndian.Uint64(table[8*(1+i):])
			if after != before&^(flagCUDA|flagSpread) || flags[i]&isCUDA != 0 != (before&flagCUDA != 0) ||
				flags[i]&isSpread != 0 != (before&flagSpread != 0) {
				t.Errorf("%x became %x with %d", before, after, flags[i])
			}
		}
	})
}
