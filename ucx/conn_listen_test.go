package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// A client may connect, write and close before anybody calls Accept.
func TestConnWriteBeforeAccept(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := wb.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 10 {
		c, err := wa.DialConn(ctx, l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(testBytes(uint64(i), 10_000)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, testBytes(uint64(i), 10_000)) {
			t.Errorf("connection %d: %d bytes, %v", i, len(got), err)
		}
		_ = c.Close()
	}
}

// Closing the listener resets what nobody accepted and leaves the rest alone.
func TestConnListenerClose(t *testing.T) {
	leak.Check(t)
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := wb.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() *Conn {
		c, err := wa.DialConn(ctx, l.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	kept := dial()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	refused := dial()
	waiting := make(chan error, 1)
	go func() { // takes the second connection or the end, whichever comes first
		for {
			c, err := l.Accept()
			if err != nil {
				waiting <- err
				return
			}
			_ = c.(*Conn).SetLinger(0)
			_ = c.Close()
		}
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v, want net.ErrClosed", err)
	}
	if _, err := refused.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that nobody accepted: %v, want ECONNRESET", err)
	}
	if _, err := kept.Write([]byte("ok")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(accepted, got); err != nil || string(got) != "ok" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := wa.DialConn(ctx, l.Addr().String(), nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial a closed listener: %v", err)
	}
	for _, c := range []net.Conn{kept, accepted, refused} {
		_ = c.Close()
	}
}

func TestConnAcceptContext(t *testing.T) {
	w := newWorker(t, Config{}, WorkerConfig{})
	l, err := w.ListenConn(testContext(t), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = l.(*connListener).acceptContext(ctx)
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("%v, want a timeout", err)
	}
}

// Where the peers meet is up to the user; the bytes go over UCX.
func TestConnDialContext(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	path := filepath.Join(t.TempDir(), "s")
	for _, tc := range []struct{ listen, network, addr string }{
		{"127.0.0.1:0", "tcp", ""},
		{"127.0.0.1:0", "tcp4", ""},
		{"unix://" + path, "unix", path},
		{"unix:@millstream-conn-test", "ucx", "unix:@millstream-conn-test"},
		{"127.0.0.1:0", "ucx", ""},
	} {
		l, err := wb.ListenConn(ctx, tc.listen, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.addr == "" {
			tc.addr = l.Addr().String()
		}
		a, err := wa.DialContext(ctx, tc.network, tc.addr)
		if err != nil {
			t.Fatalf("%+v: %v", tc, err)
		}
		b, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if a.RemoteAddr().String() != l.Addr().String() || b.LocalAddr().String() != l.Addr().String() {
			t.Errorf("%+v: addresses %v → %v, %v → %v", tc, a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(),
				b.RemoteAddr())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if _, err := b.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%+v: %v", tc, err)
		}
		_ = b.Close()
		_ = l.Close()
	}
	for network, addr := range map[string]string{"udp": "127.0.0.1:1", "tcp": "127.0.0.1:1", "ucx": "ftp://x"} {
		if c, err := wa.DialContext(ctx, network, addr); err == nil || c != nil {
			t.Errorf("%s %s: %v, %v", network, addr, c, err)
		}
	}
}

func TestConnOfEndpoint(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	ea, eb := connectPair(t, ctx, wa, wb)
	got := make(chan *Conn, 1)
	go func() {
		c, err := NewConn(ctx, eb, &ConnConfig{Window: minConnWindow})
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	a, err := NewConn(ctx, ea, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := <-got
	if a.Endpoint() != ea || b == nil || b.Endpoint() != eb {
		t.Fatal("another endpoint")
	}
	if _, err := NewConn(ctx, ea, nil); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second connection of one endpoint: %v", err)
	}
	// The windows are each receiver's own: 64 KiB from a to b, 1 MiB back.
	for _, dir := range []struct {
		from, to *Conn
		window   int
	}{{a, b, minConnWindow}, {b, a, defaultConnWindow}} {
		if err := dir.from.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := dir.from.Write(make([]byte, 2<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n > dir.window || n < dir.window/2 {
			t.Errorf("%d bytes went into a window of %d: %v", n, dir.window, err)
		}
	}
	// Beside the stream the endpoint is what it was.
	if err := ea.Send(ctx, Bytes([]byte("tag")), 5); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 3)
	if _, err := eb.Recv(ctx, Bytes(buf), 5, FullMask); err != nil || string(buf) != "tag" {
		t.Errorf("%q, %v", buf, err)
	}
	_ = a.Close()
	_ = b.Close()
	if _, err := NewConn(ctx, ea, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection of a closed endpoint: %v", err)
	}
}

func TestConnRefusals(t *testing.T) {
	ctx := testContext(t)
	w, plain := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := plain.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := w.DialConn(short, l.Addr().String(), nil); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "ListenConn") {
		t.Errorf("a listener for endpoints only: %v", err)
	}
	for _, cfg := range []*ConnConfig{{Window: 1000}, {Linger: -1}} {
		if _, err := w.DialConn(ctx, l.Addr().String(), cfg); err == nil || !strings.Contains(err.Error(), "Window") {
			t.Errorf("%+v: %v", cfg, err)
		}
		if _, err := w.ListenConn(ctx, "127.0.0.1:0", cfg); err == nil || !strings.Contains(err.Error(), "Window") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	addr, err := plain.Address()
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.Connect(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	if _, err := NewConn(ctx, ep, nil); err == nil || !strings.Contains(err.Error(), "lifeline") {
		t.Errorf("an endpoint without a lifeline: %v", err)
	}
	tagOnly := newWorker(t, Config{Features: Tag | Wakeup}, WorkerConfig{})
	if _, err := tagOnly.DialConn(ctx, l.Addr().String(), nil); !errors.Is(err, errUnsupported) ||
		!strings.Contains(err.Error(), "ActiveMessages") {
		t.Errorf("a context without active messages: %v", err)
	}
	if _, err := tagOnly.ListenConn(ctx, "127.0.0.1:0", nil); !errors.Is(err, errUnsupported) {
		t.Errorf("a context without active messages: %v", err)
	}
}

// A worker that is closed takes its connections with it: calls end, what has arrived
// can be read, the peer sees a reset.
func TestConnWorkerClose(t *testing.T) {
	leak.Check(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	a, b := connPair(t, wa, wb, nil)
	if _, err := b.Write([]byte("here")); err != nil {
		t.Fatal(err)
	}
	for a.buffered() < 4 {
		time.Sleep(time.Millisecond)
	}
	waiting := make(chan error, 2)
	go func() {
		_, err := io.Copy(a, &repeated{n: math.MaxInt64}) // it cannot come to its end
		waiting <- err
	}()
	go func() {
		_, err := io.ReadAll(struct{ io.Reader }{b})
		waiting <- err
	}()
	time.Sleep(20 * time.Millisecond)
	if err := wa.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-waiting; err == nil {
			t.Error("a call went on after the worker was closed")
		}
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(a, got); err != nil || string(got) != "here" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := a.Read(got); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// A peer that says what it has to say and leaves at once is heard, however late this side looks.
func TestConnPeerLeavesAtOnce(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := wb.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error)
	go func() {
		defer close(served)
		for range 50 {
			ep, err := l.Accept(ctx)
			if err != nil {
				served <- err
				return
			}
			c, err := NewConn(ctx, ep, nil)
			if err == nil {
				_, err = c.Write([]byte("over UCX"))
				err = errors.Join(err, c.Close())
			}
			if err != nil {
				served <- err
				return
			}
		}
	}()
	for i := range 50 {
		ep, err := wa.Dial(ctx, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewConn(ctx, ep, nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if b, err := io.ReadAll(c); string(b) != "over UCX" || err != nil {
			t.Errorf("connection %d: %q, %v", i, b, err)
		}
		_ = c.Close()
	}
	for err := range served {
		t.Error(err)
	}
}

// A connection that was opened is one, even if the peer's end is known before anybody asks.
func TestConnOpenedAndEnded(t *testing.T) {
	c := &Conn{opened: true, failure: ErrPeerClosed}
	if err := c.awaitOpen(t.Context()); err != nil {
		t.Errorf("opened: %v", err)
	}
	c = &Conn{failure: ErrPeerClosed}
	if err := c.awaitOpen(t.Context()); !errors.Is(err, ErrPeerClosed) {
		t.Errorf("never opened: %v", err)
	}
}
