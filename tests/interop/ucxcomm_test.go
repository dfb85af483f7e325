package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/testkit/freeport"
	"go.millstream.dev/tests/interop/pypeer"
)

// ucxMessages are the buffers of messages: none, small, empty ones among them, 10 MiB,
// many.
var ucxMessages = map[string][]int{
	"none":   {},
	"small":  {10},
	"mixed":  {0, 1, 0, 5000, 70_000, 0},
	"10 MiB": {10 << 20},
	"few":    frameSizes(40),
	"many":   frameSizes(300),
}

// Dask messages of all shapes are sent in both directions, from either side of the connection.
func TestUCXCommMessages(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		if m := l.c.Info(); m.Millstream != nil || len(m.Python) != 3 || m.PickleProtocol != 5 {
			l.Errorf("the handshake agreed on %+v", m)
		}
		if !l.their.Matched {
			l.Error("Python did not get the millstream key")
		}
		for name, sizes := range ucxMessages {
			// UCXX's receive of more than 100 multi-buffer frames crashes or hangs.
			if l.settings.MultiBuffer && len(sizes) > 49 {
				continue
			}
			read := l.post("read", l.command(nil))
			if err := l.c.Write(l.ctx, ucxDaskMessage(name, sizes)); err != nil {
				l.Fatalf("%s: %v", name, err)
			}
			a := l.wait(read)
			if a.Message != name {
				l.Errorf("the peer read %q instead of %q", a.Message, name)
			}
			if err := checkNoise(a.Frames, sizes); err != nil {
				l.Errorf("%s: %v", name, err)
			}
			write := l.post("write", l.command(pypeer.Command{"text": name, "frames": frameSpecs(sizes)}))
			m, err := l.c.Read(l.ctx)
			if err != nil {
				l.Fatalf("%s: %v", name, err)
			}
			if err := checkUCXMessage(m, name, sizes); err != nil {
				l.Errorf("%s: %v", name, err)
			}
			m.Release()
			l.wait(write)
		}
	})
}

// Both ends' addresses are right on our side; distributed-ucxx's own are not.
func TestUCXCommAddresses(t *testing.T) {
	r := newUCXRig(t, "ucxx", ucxcomm.Settings{})
	d := r.dial(false)
	if d.c.PeerAddr() == d.c.LocalAddr() || !strings.HasPrefix(d.c.LocalAddr(), "ucxx://127.0.0.1:") {
		t.Errorf("dialed %s from %s", d.c.PeerAddr(), d.c.LocalAddr())
	}
	a := r.listen(comm.ListenConfig{})
	if a.c.PeerAddr() == a.c.LocalAddr() || !strings.HasPrefix(a.c.PeerAddr(), "ucxx://127.0.0.1:") {
		t.Errorf("accepted %s on %s", a.c.PeerAddr(), a.c.LocalAddr())
	}
	if a.their.Address != a.c.LocalAddr() {
		t.Errorf("the peer dialed %s, our side says %s", a.their.Address, a.c.LocalAddr())
	}
	if !d.c.Info().SameHost || !a.c.Info().SameHost {
		t.Error("one host was taken for two")
	}
}

// A comm that Python closes ends ours in peace after the last message; ours ends
// Python's in the same way.
func TestUCXCommShutdown(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		l.do("write", l.command(pypeer.Command{"text": "last"}))
		read := async(func() error {
			m, err := l.c.Read(l.ctx)
			if err == nil {
				err = checkUCXMessage(m, "last", nil)
			}
			return err
		})
		if err := <-read; err != nil {
			l.Fatal(err)
		}
		read = async(func() error { _, err := l.c.Read(l.ctx); return err })
		l.do("close", l.command(nil))
		if err := <-read; !errors.Is(err, comm.ErrClosed) || !errors.Is(err, io.EOF) {
			l.Errorf("the read ended with %v", err)
		}
		select {
		case <-l.c.Done():
		case <-time.After(noticeWithin):
			l.Error("the comm is not done")
		}
		if err := l.c.Err(); !errors.Is(err, comm.ErrClosed) {
			l.Errorf("Err: %v", err)
		}
		if err := l.c.Write(l.ctx, ucxDaskMessage("late", nil)); !errors.Is(err, comm.ErrClosed) {
			l.Errorf("a write afterwards: %v", err)
		}
		if err := l.c.Close(); err != nil {
			l.Errorf("Close: %v", err)
		}
	})
}

// What we wrote before Close is read by Python, then its read ends with Dask's error.
func TestUCXCommWeClose(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		first, second := l.post("read", l.command(nil)), (*pypeer.Pending)(nil)
		if err := l.c.Write(l.ctx, ucxDaskMessage("last", []int{100})); err != nil {
			l.Fatal(err)
		}
		if a := l.wait(first); a.Message != "last" {
			l.Errorf("the peer read %q", a.Message)
		}
		second = l.post("read", l.command(nil))
		if err := l.c.Close(); err != nil {
			l.Error(err)
		}
		var failed *pypeer.Failed
		if _, err := second.Wait(l.ctx); !errors.As(err, &failed) || failed.Exception != "CommClosedError" {
			l.Errorf("the peer's read ended with %v", err)
		}
		if !l.do("closed", l.command(nil)).Closed {
			l.Error("the peer's comm is open")
		}
		if err := l.c.Write(l.ctx, ucxDaskMessage("late", nil)); !errors.Is(err, comm.ErrClosed) {
			l.Errorf("a write afterwards: %v", err)
		}
		if _, err := l.c.Read(l.ctx); !errors.Is(err, comm.ErrClosed) {
			l.Errorf("a read afterwards: %v", err)
		}
	})
}

// A killed process ends a read that waits, and a write of what it had not received.
func TestUCXCommPeerKilled(t *testing.T) {
	for _, m := range ucxModes {
		for _, way := range []string{"we dial", "we listen"} {
			t.Run(m.name+", "+way, func(t *testing.T) {
				l := newUCXRig(t, "ucxx", m.settings, m.env...).link(way)
				read := async(func() error { _, err := l.c.Read(l.ctx); return err })
				write := async(func() error { return l.c.Write(l.ctx, ucxDaskMessage("big", []int{64 << 20})) })
				time.Sleep(50 * time.Millisecond)
				l.peer.Kill()
				for name, ch := range map[string]<-chan error{"read": read, "write": write} {
					select {
					case err := <-ch:
						if !errors.Is(err, comm.ErrClosed) {
							t.Errorf("the %s ended with %v", name, err)
						}
					case <-time.After(noticeWithin):
						t.Fatalf("the %s still waits", name)
					}
				}
				<-l.c.Done()
			})
		}
	}
}

// An abort of Python's in the middle of everything is an end like any other.
func TestUCXCommPeerAborts(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		read := async(func() error { _, err := l.c.Read(l.ctx); return err })
		l.do("abort", l.command(nil))
		if err := <-read; !errors.Is(err, comm.ErrClosed) {
			l.Errorf("the read ended with %v", err)
		}
	})
}

// Our abort, and a message of ours that is cut off, end Python's read with Dask's error.
func TestUCXCommWeAbort(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		read := l.post("read", l.command(nil))
		l.c.Abort()
		var failed *pypeer.Failed
		if _, err := read.Wait(l.ctx); !errors.As(err, &failed) || failed.Exception != "CommClosedError" {
			l.Errorf("the peer's read ended with %v", err)
		}
	})
}

// Nobody listens: Dask's words, on both sides.
func TestUCXCommUnreachable(t *testing.T) {
	r := newUCXRig(t, "ucxx", ucxcomm.Settings{})
	address := "ucxx://" + freeport.Address(t)
	_, err := ucxcomm.NewNetwork(r.settings).Dial(r.ctx, address, comm.DialConfig{Timeout: 500 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "Timed out trying to connect to "+address) {
		t.Errorf("Dial: %v", err)
	}
	var failed *pypeer.Failed
	if _, err := r.peer.Do(r.ctx, "connect", pypeer.Command{"address": address, "timeout": 0.5}); !errors.As(err,
		&failed) ||
		!strings.Contains(failed.Message, "Timed out trying to connect to") {
		t.Errorf("Python: %v", err)
	}
}

// A reader that gives up before anything came loses nothing.
func TestUCXCommReadGivesUp(t *testing.T) {
	eachUCXMode(t, func(l *ucxLink) {
		ctx, cancel := context.WithTimeout(l.ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := l.c.Read(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, comm.ErrClosed) {
			l.Fatalf("the read ended with %v", err)
		}
		l.do("write", l.command(pypeer.Command{"text": "after", "frames": frameSpecs([]int{3000})}))
		m, err := l.c.Read(l.ctx)
		if err != nil {
			l.Fatal(err)
		}
		if err := checkUCXMessage(m, "after", []int{3000}); err != nil {
			l.Error(err)
		}
	})
}

// Many small messages in a row, and round trips, with Python's side working as a server.
func TestUCXCommEchoServer(t *testing.T) {
	for _, m := range ucxModes {
		t.Run(m.name, func(t *testing.T) {
			l := newUCXRig(t, "ucxx", m.settings, m.env...).dial(true)
			const n = 300
			sent := async(func() error {
				for i := range n {
					if err := l.c.Write(l.ctx, ucxDaskMessage(fmt.Sprintf("message %d", i), nil)); err != nil {
						return err
					}
				}
				return nil
			})
			for i := range n {
				m, err := l.c.Read(l.ctx)
				if err != nil {
					t.Fatal(err)
				}
				if err := checkUCXMessage(m, fmt.Sprintf("message %d", i), nil); err != nil {
					t.Fatal(err)
				}
				m.Release()
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if err := l.c.Close(); err != nil {
				t.Error(err)
			}
			if _, err := l.peer.Event(l.ctx, "closed"); err != nil {
				t.Error(err)
			}
		})
	}
}

// Python as the client of a Go server that passes messages on: round trips, and values of
// all kinds that come back as they were. Several clients at once.
func TestUCXCommEchoClient(t *testing.T) {
	for _, m := range ucxModes {
		t.Run(m.name, func(t *testing.T) {
			r := newUCXRig(t, "ucxx", m.settings, m.env...)
			l, err := r.b.Listen(r.ctx, "127.0.0.1:0", comm.ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			served := make(chan error, 3)
			for range cap(served) {
				go func() {
					c, err := l.Accept(r.ctx)
					if err == nil {
						defer c.Close()
						err = echo(r.ctx, c)
					}
					served <- err
				}()
			}
			var eps []string
			for range cap(served) {
				eps = append(eps, r.do("connect", pypeer.Command{"address": l.ContactAddr()}).EP)
			}
			var waiting []*pypeer.Pending
			for _, ep := range eps {
				waiting = append(waiting, r.post("rtt", pypeer.Command{"ep": ep, "count": 100}))
			}
			for _, w := range waiting {
				r.wait(w)
			}
			if a := r.do("values", pypeer.Command{"ep": eps[0]}); a.Message != "" {
				t.Errorf("came back changed: %s", a.Message)
			}
			for _, ep := range eps {
				r.do("close", pypeer.Command{"ep": ep})
			}
			for range cap(served) {
				if err := <-served; !errors.Is(err, comm.ErrClosed) || !errors.Is(err, io.EOF) {
					t.Errorf("a client's end: %v", err)
				}
			}
		})
	}
}

func echo(ctx context.Context, c comm.Comm) error {
	for {
		m, err := c.Read(ctx)
		if err != nil {
			return err
		}
		if err := c.Write(ctx, m); err != nil {
			return err
		}
		m.Release()
	}
}

// A listener that asks for invitations refuses Python, which has none, and says so to nobody
// but Python's connect.
func TestUCXCommInvitations(t *testing.T) {
	r := newUCXRig(t, "ucxx", ucxcomm.Settings{})
	l, err := r.b.Listen(r.ctx, "127.0.0.1:0", comm.ListenConfig{Admit: func(string, []byte) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := r.peer.Do(r.ctx, "connect", pypeer.Command{"address": l.ContactAddr(), "timeout": 2})
	if err == nil { // both sides send their hello first, so Python may think that it is in
		_, err = r.peer.Do(r.ctx, "read", pypeer.Command{"ep": a.EP})
	}
	var failed *pypeer.Failed
	if !errors.As(err, &failed) {
		t.Errorf("a peer without an invitation was let in: %v", err)
	}
}

// Both schemes are known to package comm, and IPv6 works with this release of UCX.
func TestUCXCommRegistered(t *testing.T) {
	for _, scheme := range []string{"ucx", "ucxx"} {
		if !slices.Contains(comm.Schemes(), scheme) {
			t.Errorf("%s is not registered", scheme)
		}
	}
	r := newUCXRig(t, "ucx", ucxcomm.Settings{})
	l, err := r.b.Listen(r.ctx, "[::1]:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, loc := commaddr.Parse(l.ContactAddr())
	c, err := r.b.Dial(r.ctx, loc, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.HasPrefix(c.LocalAddr(), "ucx://[::1]:") || !strings.HasPrefix(c.PeerAddr(), "ucx://[::1]:") {
		t.Errorf("connected from %s to %s", c.LocalAddr(), c.PeerAddr())
	}
}
