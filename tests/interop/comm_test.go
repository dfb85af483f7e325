package interop

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/interop/pypeer"
)

// commWays runs a test in each direction over each scheme, with one Python process.
func commWays(t *testing.T, f func(*commLink)) {
	r := newCommRig(t)
	for scheme, tls := range map[string]*commTLS{"tcp": nil, "tls": newCommTLS(t, secure.CAConfig{})} {
		for _, way := range []string{"client", "server"} {
			t.Run(scheme+"/"+way, func(t *testing.T) {
				f(r.sub(t, tls).link(way))
			})
		}
	}
}

func TestCommHandshake(t *testing.T) {
	commWays(t, func(l *commLink) {
		info := l.c.Info()
		if info.PickleProtocol != 5 || len(info.Python) != 3 || info.Python[0] != 3 || info.Millstream != nil ||
			info.Compression != "" || !info.SameHost {
			l.Errorf("we have agreed on %+v", info)
		}
		h := l.handshake()
		if h.Options.Pickle != 5 || h.Options.Compression != nil || !h.SameHost {
			l.Errorf("Python has agreed on %+v", h)
		}
		if h.Remote.Millstream["v"] != 1.0 || len(h.Remote.Python) != 0 {
			l.Errorf("Python was told %+v", h.Remote)
		}
	})
}

func TestCommValues(t *testing.T) {
	commWays(t, func(l *commLink) {
		values := []map[string]any{{"kind": "small"}}
		for _, size := range []int{0, 1, 5000, 100_000, 10 << 20, 70 << 20} {
			for _, kind := range []string{"bytes", "array", "nested"} {
				if size < 70<<20 || kind == "array" {
					values = append(values, map[string]any{"kind": kind, "size": size, "seed": 3})
				}
			}
		}
		done := l.echo(len(values))
		for _, v := range values {
			l.do("check", pypeer.Command{"ep": l.name, "value": v})
		}
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
}

// Messages that we write are read by Python, and echoed by it.
func TestCommOurMessages(t *testing.T) {
	commWays(t, func(l *commLink) {
		const small = "\x82\xa2op\xa4ping\xa1n\x07" // {"op": "ping", "n": 7}
		p, err := l.peer.Post("echo", pypeer.Command{"ep": l.name, "count": 2})
		if err != nil {
			l.Fatal(err)
		}
		for range 2 {
			if err := l.c.Write(l.ctx, body(small)); err != nil {
				l.Fatal(err)
			}
			m, err := l.c.Read(l.ctx)
			if err != nil {
				l.Fatal(err)
			}
			if !bytes.Equal(m.Body(), []byte(small)) {
				l.Errorf("Python sent back %q", m.Body())
			}
		}
		if _, err := p.Wait(l.ctx); err != nil {
			l.Fatal(err)
		}
		if err := l.c.Write(l.ctx, body(small)); err != nil {
			l.Fatal(err)
		}
		if got := l.do("read", pypeer.Command{"ep": l.name}).Message; got != "{'op': 'ping', 'n': 7}" {
			l.Errorf("Python has read %s", got)
		}
	})
}

func TestCommClose(t *testing.T) {
	for _, how := range []string{"close", "abort"} {
		t.Run(how, func(t *testing.T) {
			commWays(t, func(l *commLink) {
				l.do(how, pypeer.Command{"ep": l.name})
				if _, err := l.c.Read(l.ctx); !errors.Is(err, comm.ErrClosed) {
					l.Errorf("a read after Python's %s: %v", how, err)
				}
				select {
				case <-l.c.Done():
				case <-l.ctx.Done():
					l.Errorf("the comm does not end")
				}
			})
			commWays(t, func(l *commLink) {
				if how == "close" {
					if err := l.c.Close(); err != nil {
						l.Error(err)
					}
				} else {
					l.c.Abort()
				}
				_, err := l.peer.Do(l.ctx, "read", pypeer.Command{"ep": l.name})
				var failed *pypeer.Failed
				if !errors.As(err, &failed) || failed.Exception != "CommClosedError" {
					l.Errorf("Python's read after our %s: %v", how, err)
				}
			})
		})
	}
}

// What Python cannot decode ends the comm on its side, and ours then.
func TestCommReadError(t *testing.T) {
	commWays(t, func(l *commLink) {
		if err := l.c.Write(l.ctx, body("\xc1")); err != nil {
			l.Fatal(err)
		}
		_, err := l.peer.Do(l.ctx, "read", pypeer.Command{"ep": l.name})
		var failed *pypeer.Failed
		if !errors.As(err, &failed) {
			l.Fatalf("Python has read a message that is none: %v", err)
		}
		l.do("close", pypeer.Command{"ep": l.name})
		if _, err := l.c.Read(l.ctx); !errors.Is(err, comm.ErrClosed) {
			l.Errorf("a read: %v", err)
		}
	})
}

func TestCommUnreachable(t *testing.T) {
	r := newCommRig(t)
	l, err := comm.Listen(r.ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	address := l.ContactAddr()
	l.Close()
	_, err = comm.Dial(r.ctx, address, comm.DialConfig{Timeout: 300 * time.Millisecond})
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "Timed out trying to connect to "+
		address) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("our dial: %v", err)
	}
	_, err = r.peer.Do(r.ctx, "connect", pypeer.Command{"address": address, "timeout": 0.3})
	if err == nil || !strings.Contains(err.Error(), "Timed out trying to connect to "+address) {
		t.Errorf("Python's: %v", err)
	}
}

// A listener that comes late is found by retries, as Python's connect does.
func TestCommLateListener(t *testing.T) {
	r := newCommRig(t)
	l, err := comm.Listen(r.ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	address := l.ContactAddr()
	l.Close()
	dialed := make(chan error, 1)
	go func() {
		c, err := comm.Dial(r.ctx, address, comm.DialConfig{})
		if err == nil {
			c.Close()
		}
		dialed <- err
	}()
	time.Sleep(100 * time.Millisecond)
	r.do("listen", pypeer.Command{"address": address})
	if err := <-dialed; err != nil {
		t.Error(err)
	}
}

// Between two hosts both sides want lz4, so they use it. A second address of the loopback
// interface stands for another host, as it does for Python.
func TestCommCompression(t *testing.T) {
	r := newCommRig(t, "DASK_DISTRIBUTED__COMM__COMPRESSION=lz4")
	for ours, want := range map[string]string{"lz4": "lz4", "auto": "lz4", "zstd": "", "": ""} {
		at := r.do("listen", pypeer.Command{"address": "tcp://127.0.0.2:0"}).Address
		c, err := comm.Dial(r.ctx, at, comm.DialConfig{Compression: ours})
		if err != nil {
			t.Fatal(err)
		}
		a, err := r.peer.Event(r.ctx, "accepted")
		if err != nil {
			t.Fatal(err)
		}
		l := &commLink{commRig: r, c: c, name: a.EP}
		h := l.handshake()
		theirs := ""
		if h.Options.Compression != nil {
			theirs = *h.Options.Compression
		}
		if c.Info().Compression != want || theirs != want || h.SameHost || c.Info().SameHost {
			t.Errorf("with %q we have agreed on %q, Python on %q; same host: %v, %v", ours, c.Info().Compression,
				theirs, c.Info().SameHost, h.SameHost)
		}
		// Compressed frames pass like others.
		done := l.echo(1)
		l.do("check", pypeer.Command{"ep": l.name, "value": map[string]any{"kind": "bytes", "size": 1 << 20}})
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Close()
	}
}

func TestCommIPv6(t *testing.T) {
	r := newCommRig(t)
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) {
			s := r.sub(t, nil)
			s.host = "[::1]"
			l := s.link(way) // compares the addresses of both sides
			if !l.c.Info().SameHost || !l.handshake().SameHost {
				t.Error("both sides are one host")
			}
			done := l.echo(1)
			l.do("check", pypeer.Command{"ep": l.name, "value": map[string]any{"kind": "small"}})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
