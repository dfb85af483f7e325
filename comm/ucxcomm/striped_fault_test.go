//go:build cgo

package ucxcomm

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"

	"golang.org/x/sys/unix"
)

// startStriped starts a process that echoes over comms of onTCP, and returns a comm with it whose stripes are open.
func startStriped(t *testing.T) (*echoProcess, *conn) {
	t.Helper()
	ctx, p := testContext(t), startEcho(t, stripedRole)
	c, err := onTCP.Dial(ctx, p.loc, comm.DialConfig{Staged: comm.StagedConfig{Stripes: 2}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	d := c.(*conn)
	echoed(t, d, make([]byte, stripedFrom))
	select {
	case <-d.data.large.decided:
	case <-ctx.Done():
	}
	if !d.data.large.isOpen() {
		t.Fatal("no stripes")
	}
	echoed(t, d, random(stripedFrom+1))
	return p, d
}

func echoed(t *testing.T, c *conn, data []byte) {
	t.Helper()
	got := carried(t, c, c, msg([]byte("body"), data))
	if !bytes.Equal(got.Frames[1].Bytes(), data) {
		t.Error("the echo differs")
	}
	got.Release()
}

// inMiddle starts a write of a striped frame to a stopped process, and returns when the stripes are full: bytes of
// the frame have been sent, and no more can be.
func inMiddle(t *testing.T, ctx context.Context, p *echoProcess, c *conn, data []byte) <-chan error {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Write(ctx, msg([]byte("body"), data)) }()
	for {
		if queued(t, stripesOf(c)[1]) > 0 {
			return done
		}
		select {
		case err := <-done:
			t.Fatalf("the write ended early: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
}

// queued returns the number of written bytes that the peer has not acknowledged.
func queued(t *testing.T, c net.Conn) int {
	t.Helper()
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := rc.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); err != nil {
		t.Fatal(err)
	}
	return n
}

// A peer that is killed or stopped in the middle of a striped frame: the write ends with the death, not before.
func TestStripedDeath(t *testing.T) {
	p, c := startStriped(t)
	ctx := testContext(t)
	reading := make(chan error, 1)
	go func() { _, err := c.Read(ctx); reading <- err }()
	writing := inMiddle(t, ctx, p, c, make([]byte, 48<<20))
	if err := c.Err(); err != nil {
		t.Errorf("the comm of a stopped process ended: %v", err)
	}
	p.kill()
	for who, ch := range map[string]<-chan error{"read": reading, "write": writing} {
		select {
		case err := <-ch:
			if !errors.Is(err, comm.ErrClosed) {
				t.Errorf("%s: got %v, want %v", who, err, comm.ErrClosed)
			}
		case <-ctx.Done():
			t.Fatalf("the %s still waits", who)
		}
	}
}

// A stopped process that continues gets the rest of the frame.
func TestStripedStop(t *testing.T) {
	p, c := startStriped(t)
	ctx, data := testContext(t), random(48<<20)
	writing := inMiddle(t, ctx, p, c, data)
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m, err := c.Read(ctx)
	if err := errors.Join(err, <-writing); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Frames[1].Bytes(), data) {
		t.Error("the echo differs")
	}
	m.Release()
	echoed(t, c, data[:stripedFrom])
}

// A write whose context ends in the middle of a frame returns, ends the comm and uses the memory no more: what the
// caller writes there afterwards does not arrive anywhere, and a new comm with the same process works.
func TestStripedCanceledWrite(t *testing.T) {
	p, c := startStriped(t)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	data := make([]byte, 48<<20)
	writing := inMiddle(t, ctx, p, c, data)
	cancel()
	if err := <-writing; !errors.Is(err, context.Canceled) && !errors.Is(err, comm.ErrClosed) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	for i := range data {
		data[i] = 0xee // the canary: a goroutine that still reads it is a data race
	}
	select {
	case <-c.Done():
	case <-testContext(t).Done():
		t.Fatal("the comm lives on in the middle of a message")
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	again, err := onTCP.Dial(testContext(t), p.loc, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	echoed(t, again.(*conn), random(stripedFrom))
}

// canaryMemory allocates one buffer with a canary on each side.
type canaryMemory struct {
	mem.Resource
	all, buf []byte
	used     chan struct{} // closed by Alloc
}

const canarySize = 1 << 20

func (r *canaryMemory) Alloc(_ context.Context, n int) (*mem.Buffer, error) {
	r.all = bytes.Repeat([]byte{0xca}, n+2*canarySize)
	r.buf = r.all[canarySize : canarySize+n]
	close(r.used)
	return mem.FromBytes(r.buf), nil
}

// A read that ends in the middle of a frame writes nothing into the memory afterwards, however it ends, nor next to it.
func TestStripedEndsInRead(t *testing.T) {
	for about, end := range map[string]func(a, z *conn, cancel func()){
		"the context ends":     func(_, _ *conn, cancel func()) { cancel() },
		"the reader aborts":    func(_, z *conn, _ func()) { z.Abort() },
		"the writer aborts":    func(a, _ *conn, _ func()) { a.Abort() },
		"a stripe ends":        func(a, _ *conn, _ func()) { stripesOf(a)[1].Close() },
		"the endpoint ends":    func(a, _ *conn, _ func()) { abortEndpoint(a.data.ep) },
		"the data is too late": func(_, z *conn, _ func()) { z.late() },
	} {
		t.Run(about, func(t *testing.T) {
			leak.Check(t)
			a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
			openStripes(t, a, z)
			memory := &canaryMemory{Resource: mem.Heap, used: make(chan struct{})}
			z.data.host = hostMemory{memory}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			// The announcement of a frame, and a part of it: the first stripe's.
			const size = 8 * stripeChunk
			announce(t, a, size)
			reading := make(chan error, 1)
			go func() { _, err := z.Read(ctx); reading <- err }()
			if _, err := stripesOf(a)[0].Write(make([]byte, stripeChunk)); err != nil {
				t.Fatal(err)
			}
			<-memory.used // the read is in the middle of the message
			end(a, z, cancel)
			select {
			case err := <-reading:
				if err == nil {
					t.Error("read: no error")
				}
			case <-testContext(t).Done():
				t.Fatal("the reader still waits")
			}
			for i := range memory.buf {
				memory.buf[i] = 0xca
			}
			select {
			case <-z.Done():
			case <-testContext(t).Done():
				t.Fatal("the comm lives on in the middle of a message")
			}
			for _, c := range stripesOf(a) { // where they are still open the rest arrives now
				_, _ = c.Write(make([]byte, stripeChunk))
			}
			z.Abort()
			for i, b := range memory.all {
				if b != 0xca {
					t.Fatalf("byte %d was overwritten after the end of the read", i-canarySize)
				}
			}
		})
	}
}

// announce sends the message of a striped frame without the frame.
func announce(t *testing.T, c *conn, size uint64) {
	t.Helper()
	err := c.data.send(testContext(t), []ucx.View{ucx.Bytes(nil), ucx.Bytes([]byte{stripedMark}),
		ucx.Bytes(stagedTable(1, size)), ucx.Bytes([]byte("body"))})
	if err != nil {
		t.Fatal(err)
	}
}

// Announcements that are invalid, or for stripes that do not exist, end the comm.
func TestStripedRefused(t *testing.T) {
	for _, tc := range []struct {
		about string
		open  bool
		table []byte
	}{
		{"without stripes", false, stagedTable(1, stripedFrom)},
		{"empty table", true, nil},
		{"index beyond the end", true, stagedTable(7, stripedFrom)},
		{"too long for any limit", true, stagedTable(1, 1<<62)},
	} {
		t.Run(tc.about, func(t *testing.T) {
			a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
			if tc.open {
				openStripes(t, a, z)
			}
			ctx := testContext(t)
			_ = a.data.send(ctx, []ucx.View{ucx.Bytes(nil), ucx.Bytes([]byte{stripedMark}), ucx.Bytes(tc.table),
				ucx.Bytes([]byte("body"))})
			if _, err := z.Read(ctx); !errors.Is(err, comm.ErrClosed) {
				t.Errorf("got %v, want %v", err, comm.ErrClosed)
			}
		})
	}
}

// offered makes the offer of the listening side, without its message, and returns the address and the offer.
func offered(t *testing.T, z *conn, l *listener) (address string, offer *staging.Offer) {
	t.Helper()
	door, err := l.door.open(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	offer = door.Offer()
	h := z.data.large
	h.mu.Lock()
	h.offer, h.state = offer, stripesOffered
	h.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(door.Port())), offer
}

// A token admits the stripes of one comm once: others, and the same one again, are refused, and the comm is not
// affected.
func TestStripeTokens(t *testing.T) {
	a, z, l := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
	address, offer := offered(t, z, l)
	used := bytes.Clone(offer.Token())
	m := stripeMessage{kind: stripesOffer, port: uint16(doorOf(l).Port()), token: [stripeToken]byte(used)}
	if err := z.data.t.sendStripes(testContext(t), m); err != nil {
		t.Fatal(err)
	}
	openStripes(t, a, z)
	for about, tok := range map[string][]byte{"used": used, "invented": bytes.Repeat([]byte{7}, stripeToken)} {
		if conns, err := staging.Join(testContext(t), address, tok, 2); err == nil {
			t.Errorf("%s token: %d connections were admitted", about, len(conns))
		}
	}
	checkStriped(t, a, z)
}

// An offer ends with its comm: its token admits no connection afterwards.
func TestStripeOfferEnds(t *testing.T) {
	a, z, l := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
	address, offer := offered(t, z, l)
	z.Abort()
	if _, err := staging.Join(testContext(t), address, offer.Token(), 2); err == nil {
		t.Error("the offer of a comm that has ended admits connections")
	}
	a.Abort()
}

// Close leaves neither descriptor nor goroutine, with stripes open and while they are being opened.
func TestStripesClose(t *testing.T) {
	leak.Check(t)
	for i := range 6 {
		a, z, l := tcpPair(t, 3, comm.DialConfig{}, comm.ListenConfig{})
		if i%2 == 0 {
			openStripes(t, a, z)
		} else {
			a.data.large.get()
		}
		if err := errors.Join(a.Close(), z.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		for _, c := range append(stripesOf(a), stripesOf(z)...) {
			if _, err := c.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
				t.Errorf("a stripe of a closed comm: got %v, want %v", err, net.ErrClosed)
			}
		}
	}
}
