package tcp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/limits"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/wire"
)

// server is a live listener that echoes, while one honest client keeps talking to it.
type server struct {
	*testing.T
	address string // host:port
	l       comm.Listener
}

// newServer starts both. When the test ends, the honest client must still have had answers.
func newServer(t *testing.T, cfg comm.ListenConfig, clientTLS *tls.Config) *server {
	t.Helper()
	leak.Check(t, leak.Wait(30*time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	scheme, dial := "tcp", comm.DialConfig{}
	if cfg.TLS != nil {
		scheme = "tls"
		dial.TLS = clientTLS
	}
	l, err := comm.Listen(ctx, scheme+"://127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			group.Go(func() { echo(ctx, c) })
		}
	})
	stop := make(chan struct{})
	honest := make(chan error, 1)
	go func() { honest <- converse(ctx, l.ContactAddr(), dial, stop) }()
	t.Cleanup(func() {
		close(stop)
		if err := <-honest; err != nil {
			t.Errorf("the honest client: %v", err)
		}
		l.Close()
		cancel()
		group.Wait()
	})
	return &server{t, strings.TrimPrefix(l.ContactAddr(), scheme+"://"), l}
}

func echo(ctx context.Context, c comm.Comm) {
	defer c.Close()
	for {
		m, err := c.Read(ctx)
		if err != nil || c.Write(ctx, m) != nil {
			return
		}
		m.Release()
	}
}

// converse connects anew again and again, and has messages echoed.
func converse(ctx context.Context, address string, cfg comm.DialConfig, stop chan struct{}) error {
	body := bytes.Repeat([]byte("honest"), 1000)
	for round := 0; ; round++ {
		c, err := comm.Dial(ctx, address, cfg)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for range 5 {
			err := c.Write(ctx, &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			m, err := c.Read(ctx)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			if !bytes.Equal(m.Body(), body) {
				return fmt.Errorf("round %d: another echo", round)
			}
		}
		c.Close()
		select {
		case <-stop:
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *server) dial() net.Conn {
	s.Helper()
	nc, err := net.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { nc.Close() })
	return nc
}

func u64(v ...uint64) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

// framed is a message of one frame as it travels.
func framed(body []byte) []byte {
	n := uint64(len(body))
	return append(u64(16+n, 1, n), body...)
}

func pythonHello() []byte {
	b, _ := hex.DecodeString("83ab636f6d7072657373696f6ec0a6707974686f6e93030b07af7069636b6c652d70726f746f636f6c05")
	return framed(b)
}

// closed waits until the server has closed a connection. What it says before is ignored.
func closed(nc net.Conn) error {
	if err := nc.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the server keeps the connection")
	}
	return nil
}

// Every one of these is refused as soon as it has come, long before the handshake's time
// is over.
func TestHostileHandshakes(t *testing.T) {
	s := newServer(t, comm.ListenConfig{Limits: comm.Limits{HandshakeTime: time.Hour}}, nil)
	pickled := append(u64(24+13+3, 2, 13, 3), "\x81\xab__Pickled__N)."...)
	for name, b := range map[string][]byte{
		"4 GiB in 8 bytes":         u64(4 << 30),
		"everything":               u64(^uint64(0), ^uint64(0), ^uint64(0)),
		"4 GiB in a frame":         u64(16, 1, 4<<30),
		"many frames":              u64(1<<15, 1<<12),
		"no frame":                 u64(16, 0),
		"a frame that is cut":      u64(17, 1, 2),
		"a first read too long":    append(u64(32, 1, 1), "x"...),
		"no room for the prelude":  u64(8, 1),
		"HTTP":                     []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"TLS":                      []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh"),
		"zeros":                    make([]byte, 4096),
		"msgpack bomb":             framed([]byte("\xdf\xff\xff\xff\xff")),
		"msgpack array bomb":       framed([]byte("\x81\xa1x\xdd\xff\xff\xff\xff")),
		"deep msgpack":             framed(append([]byte("\x81\xa1x"), bytes.Repeat([]byte{0x91}, 60_000)...)),
		"a pickle in the hello":    framed([]byte("\x81\xab__Pickled__\x01")),
		"a pickle behind it":       pickled,
		"a pickle itself":          framed([]byte("\x80\x04cos\nsystem\n(S'true'\ntR.")),
		"no pickle-protocol":       framed([]byte("\x80")),
		"just above the limit":     framed(make([]byte, limits.Fill(comm.Limits{}).Handshake+1)),
		"hello, then 2^63":         append(pythonHello(), u64(1<<63)...),
		"hello, then 1 Mi+1":       append(pythonHello(), u64(8*(2+1<<20), 1+1<<20)...),
		"hello, then garbage":      append(pythonHello(), bytes.Repeat([]byte{0xa5}, 1000)...),
		"hello, then above 64 GiB": append(pythonHello(), u64(16, 1, 65<<30)...),
	} {
		nc := s.dial()
		if _, err := nc.Write(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := closed(nc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// heap is what the Go heap holds in bytes.
func heap() int64 {
	var m runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Peers that have said hello may promise much; memory follows what they send.
func TestHostilePromises(t *testing.T) {
	s := newServer(t, comm.ListenConfig{}, nil)
	before := heap()
	const peers = 100
	var conns []net.Conn
	for i := range peers {
		nc := s.dial()
		b := pythonHello()
		switch i % 4 {
		case 0: // one frame of 4 GiB
			b = append(b, u64(16+4<<30, 1, 4<<30)...)
		case 1: // the same outside the first read, and a little of it
			b = append(b, u64(16, 1, 4<<30)...)
			b = append(b, make([]byte, 100_000)...)
		case 2: // a million frames
			b = append(b, u64(8*(1+1<<20), 1<<20)...)
		case 3: // many small frames that add up
			const n = 1000
			b = append(b, u64(8*(1+n)+n*60_000, n)...)
			for range n {
				b = append(b, u64(60_000)...)
			}
		}
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, nc)
	}
	time.Sleep(300 * time.Millisecond) // let the server read all of it
	grown := heap() - before
	if most := int64(peers * 3 << 20); grown > most {
		t.Errorf("%d peers that promise 4 GiB hold %d MiB of heap", peers, grown>>20)
	}
	for _, nc := range conns {
		nc.Close()
	}
}

// halfOpen is how many connections the next test opens: 5,000, or what the descriptors that
// a process may have allow, as both ends are in this one.
func halfOpen(t *testing.T) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return min(5000, int(limit.Cur-200)/2)
}

// Connections that say nothing, or a byte now and then, push out each other and end with
// the handshake's time.
func TestHostileHalfOpen(t *testing.T) {
	n := halfOpen(t)
	limits := comm.Limits{Pending: n / 4, HandshakeTime: 2 * time.Second}
	s := newServer(t, comm.ListenConfig{Limits: limits}, nil)
	before, err := leak.RSS()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	stop := make(chan struct{})
	hello := pythonHello()
	var conns []net.Conn
	for i := range n {
		nc := s.dial()
		conns = append(conns, nc)
		if i%3 != 0 { // slow loris
			group.Go(func() {
				for _, b := range hello {
					if _, err := nc.Write([]byte{b}); err != nil {
						return
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Second):
					}
				}
			})
		}
	}
	after, err := leak.RSS()
	if err != nil {
		t.Fatal(err)
	}
	// The clients' side is in this process too: goroutines, sockets, and what the race detector keeps of them.
	if grown := after - before; grown > int64(n)*160<<10 {
		t.Errorf("%d connections made %d KiB resident", n, grown>>10)
	}
	for i, nc := range conns {
		if err := closed(nc); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	close(stop)
	group.Wait()
}

// A peer that has said hello and sends a byte a second of its next message is the
// business of who reads with a context; it does not disturb others.
func TestSlowMessage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	nc, err := net.Dial("tcp", strings.TrimPrefix(l.ContactAddr(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(append(pythonHello(), 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if _, err := c.Read(short); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, comm.ErrClosed) {
		t.Errorf("a message cut by the context's end: %v", err)
	}
	if err := closed(nc); err != nil {
		t.Error(err)
	}
}

// Before TLS is up, a peer can do no more than wait until its time is over.
func TestHostileTLS(t *testing.T) {
	dial, listen := identity(t, newCA(t))
	listen.Limits = comm.Limits{HandshakeTime: 2 * time.Second}
	s := newServer(t, listen, dial.TLS)
	var conns []net.Conn
	for _, b := range [][]byte{
		nil, []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefgh"), pythonHello(), u64(4 << 30),
		[]byte("GET / HTTP/1.1\r\n\r\n"), bytes.Repeat([]byte{0x16, 3, 3, 0x40, 0}, 20_000),
	} {
		nc := s.dial()
		_, _ = nc.Write(b) // it may be refused before all is written
		conns = append(conns, nc)
	}
	// One who has TLS and no certificate.
	strange := dial.TLS.Clone()
	strange.Certificates = nil
	raw := s.dial()
	c := tls.Client(raw, strange)
	if err := c.HandshakeContext(t.Context()); err == nil {
		_, _ = c.Write(pythonHello())
	}
	for i, nc := range append(conns, raw) {
		if err := closed(nc); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
}

// The limits of messages hold after the handshake too, and are the listener's own choice.
func TestMessageLimits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{Limits: comm.Limits{Message: 1000, Frames: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, c := range map[string]struct {
		sizes []int
		want  string // of the error, empty if it is read
	}{
		"as large as may be": {[]int{500, 400, 100}, ""},
		"too large":          {[]int{500, 400, 101}, "the limit is 1000"},
		"too many frames":    {[]int{1, 1, 1, 1}, "the limit is 3"},
	} {
		a, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := new(wire.Message)
		for _, n := range c.sizes {
			m.Frames = append(m.Frames, wire.HeapFrame(make([]byte, n)))
		}
		if err := a.Write(ctx, m); err != nil {
			t.Fatal(err)
		}
		_, err = b.Read(ctx)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, comm.ErrClosed) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		a.Close()
		b.Close()
	}
}
