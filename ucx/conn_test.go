package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"golang.org/x/net/nettest"
)

// connSettings are the transports that connections are tested over.
var connSettings = []struct {
	name string
	cfg  Config
	wcfg WorkerConfig
}{
	{"shm", Config{Options: map[string]string{"TLS": "posix,sysv,self,tcp"}}, WorkerConfig{}},
	{"tcp", Config{Options: map[string]string{"TLS": "tcp"}}, WorkerConfig{}},
	{"thread", Config{}, WorkerConfig{Progress: Thread}},
	{"polling", Config{}, WorkerConfig{Progress: Polling}},
}

func eachConnSetting(t *testing.T, f func(t *testing.T, cfg Config, wcfg WorkerConfig)) {
	for _, s := range connSettings {
		t.Run(s.name, func(t *testing.T) { f(t, s.cfg, s.wcfg) })
	}
}

// connPair returns both ends of a connection between two workers.
func connPair(t testing.TB, wa, wb *Worker, cfg *ConnConfig) (a, b *Conn) {
	t.Helper()
	a, b, err := dialPair(testContext(t), wa, wb, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func dialPair(ctx context.Context, wa, wb *Worker, cfg *ConnConfig) (a, b *Conn, err error) {
	l, err := wb.ListenConn(ctx, "127.0.0.1:0", cfg)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if a, err = wa.DialConn(ctx, l.Addr().String(), cfg); err != nil {
		return nil, nil, err
	}
	b, err = l.(*connListener).acceptContext(ctx)
	return a, b, err
}

func newConnPair(t testing.TB, cfg Config, wcfg WorkerConfig, ccfg *ConnConfig) (a, b *Conn) {
	t.Helper()
	return connPair(t, newWorker(t, cfg, wcfg), newWorker(t, cfg, wcfg), ccfg)
}

func TestConnNettest(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		wa, wb := newWorker(t, cfg, wcfg), newWorker(t, cfg, wcfg)
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			a, b, err := dialPair(testContext(t), wa, wb, nil)
			if err != nil {
				return nil, nil, nil, err
			}
			return a, b, func() {
				_ = a.Close()
				_ = b.Close()
			}, nil
		})
	})
}

// Both ends on one worker, and the ends swapped: who dialed must not matter.
func TestConnNettestOneWorker(t *testing.T) {
	w := newWorker(t, Config{}, WorkerConfig{})
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b, err := dialPair(testContext(t), w, w, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return b, a, func() {
			_ = a.Close()
			_ = b.Close()
		}, nil
	})
}

// Every size around a limit somewhere: slot, fragment, chunk, window.
func TestConnSizes(t *testing.T) {
	sizes := []int{0, 1, 8, 1023, 1024, 1025, 2048, 2049, 8191, 8192, 8193, connBlockSize - 1, connBlockSize,
		connBlockSize + 1,
		connChunk - 1, connChunk, connChunk + 1, minConnWindow, 1<<20 - 1, 1 << 20, 3<<20 + 7}
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		for _, window := range []int{0, minConnWindow} {
			a, b := newConnPair(t, cfg, wcfg, &ConnConfig{Window: window})
			for i, n := range sizes {
				msg := testBytes(uint64(i), n)
				errs := make(chan error, 1)
				go func() {
					k, err := a.Write(msg)
					if k != len(msg) && err == nil {
						err = io.ErrShortWrite
					}
					errs <- err
				}()
				got := make([]byte, n)
				if _, err := io.ReadFull(b, got); err != nil {
					t.Fatalf("window %d, %d bytes: %v", window, n, err)
				}
				if err := <-errs; err != nil {
					t.Fatalf("window %d, %d bytes: %v", window, n, err)
				}
				if !bytes.Equal(got, msg) {
					t.Fatalf("window %d, %d bytes: content differs", window, n)
				}
			}
			if n := b.buffered(); n != 0 {
				t.Errorf("%d bytes are left over", n)
			}
		}
	})
}

// What was written before Close is read by the peer, however late it reads.
func TestConnCloseLosesNothing(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		for _, n := range []int{1, 5000, 900_000} {
			a, b := newConnPair(t, cfg, wcfg, nil)
			msg := testBytes(7, n)
			if _, err := a.Write(msg); err != nil {
				t.Fatal(err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			<-b.Endpoint().Done() // the endpoint is gone; the bytes are not
			got, err := io.ReadAll(b)
			if err != nil || !bytes.Equal(got, msg) {
				t.Fatalf("%d of %d bytes, equal %v: %v", len(got), n, bytes.Equal(got, msg), err)
			}
			if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("write to a closed peer: %v, want EPIPE", err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestConnHalfClose(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		a, b := newConnPair(t, cfg, wcfg, nil)
		question, answer := testBytes(1, 100_000), testBytes(2, 2_000_000)
		errs := make(chan error, 1)
		go func() {
			got, err := io.ReadAll(b) // until CloseWrite
			if err == nil && !bytes.Equal(got, question) {
				err = errors.New("question differs")
			}
			if err == nil {
				_, err = b.Write(answer)
			}
			if err == nil {
				err = b.Close()
			}
			errs <- err
		}()
		if _, err := a.Write(question); err != nil {
			t.Fatal(err)
		}
		if err := a.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after CloseWrite: %v, want EPIPE", err)
		}
		if err := a.CloseWrite(); err != nil {
			t.Errorf("second CloseWrite: %v", err)
		}
		got, err := io.ReadAll(a)
		if err != nil || !bytes.Equal(got, answer) {
			t.Errorf("answer: %d bytes, %v", len(got), err)
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

func TestConnCloseRead(t *testing.T) {
	a, b := newConnPair(t, Config{}, WorkerConfig{}, nil)
	if _, err := a.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if err := b.CloseRead(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("read after CloseRead: %d, %v", n, err)
	}
	// A writer, also one that waits for room, is told.
	var err error
	for err == nil {
		_, err = a.Write(make([]byte, 1<<20))
	}
	if !errors.Is(err, syscall.EPIPE) {
		t.Errorf("write to a peer that reads no more: %v, want EPIPE", err)
	}
	if _, err := b.Write([]byte("still")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(a, got); err != nil || string(got) != "still" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestConnReset(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		a, b := newConnPair(t, cfg, wcfg, nil)
		if _, err := a.Write([]byte("last words")); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 4)
		if _, err := io.ReadFull(b, first); err != nil {
			t.Fatal(err)
		}
		if err := a.SetLinger(0); err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(b) // what has arrived may be read, then the reset shows
		var ne net.Error
		if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &ne) || ne.Timeout() {
			t.Errorf("read %q: %v, want ECONNRESET", got, err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v, want ECONNRESET", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close after a reset: %v", err)
		}
	})
}

func TestConnUseAfterClose(t *testing.T) {
	a, b := newConnPair(t, Config{}, WorkerConfig{}, nil)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	_, rerr := a.Read(make([]byte, 1))
	_, werr := a.Write(make([]byte, 1))
	for name, err := range map[string]error{
		"read": rerr, "write": werr, "deadline": a.SetDeadline(time.Now()), "CloseRead": a.CloseRead(),
		"CloseWrite": a.CloseWrite(),
	} {
		var oe *net.OpError
		if !errors.Is(err, net.ErrClosed) || !errors.As(err, &oe) || oe.Net != "ucx" || oe.Addr == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("peer: %d, %v", n, err)
	}
}

func TestConnDeadlines(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		a, b := newConnPair(t, cfg, wcfg, &ConnConfig{Window: minConnWindow})
		msg := testBytes(3, 1<<20)
		// A deadline that is moved while Read waits.
		if err := a.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Millisecond, func() { _ = a.SetReadDeadline(time.Now().Add(10 * time.Millisecond)) })
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		// A Write that times out has sent a prefix; the connection goes on after it.
		if err := a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := a.Write(msg)
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n >= len(msg) {
			t.Fatalf("write: %d, %v", n, err)
		}
		if err := a.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 1)
		go func() {
			_, err := a.Write(msg[n:])
			errs <- err
		}()
		got := make([]byte, len(msg))
		if _, err := io.ReadFull(b, got); err != nil || !bytes.Equal(got, msg) {
			t.Errorf("equal %v, %v", bytes.Equal(got, msg), err)
		}
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

// Two writers and a duplex stream at once: each Write is whole, nothing is mixed up.
func TestConnDuplex(t *testing.T) {
	eachConnSetting(t, func(t *testing.T, cfg Config, wcfg WorkerConfig) {
		a, b := newConnPair(t, cfg, wcfg, nil)
		const rounds, size = 100, 10_000
		var wg sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			for id := range 2 {
				wg.Go(func() {
					for range rounds {
						if _, err := c.Write(bytes.Repeat([]byte{byte(id + 1)}, size)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Go(func() {
				counts := map[byte]int{}
				record := make([]byte, size)
				for range 2 * rounds {
					if _, err := io.ReadFull(c, record); err != nil {
						t.Error(err)
						return
					}
					if !bytes.Equal(record, bytes.Repeat(record[:1], size)) {
						t.Error("writes are mixed up")
						return
					}
					counts[record[0]]++
				}
				if counts[1] != rounds || counts[2] != rounds {
					t.Errorf("got %v", counts)
				}
			})
		}
		wg.Wait()
	})
}

func TestConnRounds(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for _, set := range connSettings[:2] {
		t.Run(set.name, func(t *testing.T) {
			leak.Check(t)
			wa, wb := newWorker(t, set.cfg, set.wcfg), newWorker(t, set.cfg, set.wcfg)
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			l, err := wb.ListenConn(ctx, "127.0.0.1:0", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			got := make(chan []byte, 1)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					b, err := io.ReadAll(c)
					if err != nil {
						t.Error(err)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					got <- b
				}
			}()
			for i := range rounds {
				msg := testBytes(uint64(i), 1+i*37%20_000)
				c, err := wa.DialConn(ctx, l.Addr().String(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write(msg); err != nil {
					t.Fatal(err)
				}
				if err := c.Close(); err != nil {
					t.Fatalf("round %d: %v", i, err)
				}
				if b := <-got; !bytes.Equal(b, msg) {
					t.Fatalf("round %d: %d bytes of %d", i, len(b), len(msg))
				}
			}
		})
	}
}
