package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

func init() { roles["conn"] = connRole }

// connRole listens over the transports it is told, then obeys: "accept" takes a
// connection and leaves it alone, "rss" answers with its memory and the bytes that
// wait, "echo" starts to send back what comes, "dial" connects, writes and exits at
// once after Close.
func connRole(c *control) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cfg := Config{}
	words := c.next()
	if len(words) == 2 {
		cfg.Options = map[string]string{"TLS": words[1]}
	}
	uc, err := NewContext(cfg)
	if err != nil {
		return err
	}
	w, err := uc.NewWorker(WorkerConfig{})
	if err != nil {
		return err
	}
	l, err := w.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		return err
	}
	c.say("addr %s", l.Addr())
	var conn *Conn
	for {
		words := c.next()
		if words == nil {
			return nil
		}
		switch words[0] {
		case "accept":
			if conn, err = l.(*connListener).acceptContext(ctx); err != nil {
				return err
			}
			c.say("accepted")
		case "rss":
			debug.FreeOSMemory()
			n, err := leak.RSS()
			if err != nil {
				return err
			}
			buffered := 0
			if conn != nil {
				buffered = conn.buffered()
			}
			c.say("rss %d %d", n, buffered)
		case "echo":
			go func() { _, _ = io.Copy(conn, conn) }()
			c.say("echoing")
		case "dial":
			n, err := strconv.Atoi(words[2])
			if err != nil {
				return err
			}
			out, err := w.DialConn(ctx, words[1], nil)
			if err != nil {
				return err
			}
			if _, err := io.Copy(out, &repeated{n: n}); err != nil {
				return err
			}
			if err := out.Close(); err != nil {
				return err
			}
			os.Exit(0) // Close has returned: nothing more is owed to the peer
		}
	}
}

// startConnPeer starts a helper and connects to it.
func startConnPeer(t *testing.T, tls string) (*helper, *Conn) {
	t.Helper()
	h := startHelper(t, "conn")
	addr := h.ask("addr", "tls %s", tls)[0]
	w := newWorker(t, Config{Options: map[string]string{"TLS": tls}}, WorkerConfig{})
	c, err := w.DialConn(testContext(t), addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	h.ask("accepted", "accept")
	return h, c
}

var connPeerTransports = map[string]string{"shm": "posix,sysv,self,tcp", "tcp": "tcp"}

// A peer that is killed is reported to a waiting Read and to a Write that waits for room.
func TestConnPeerKilled(t *testing.T) {
	for name, tls := range connPeerTransports {
		t.Run(name, func(t *testing.T) {
			h, c := startConnPeer(t, tls)
			type result struct {
				err error
				at  time.Time
			}
			results := make(chan result, 2)
			go func() {
				_, err := c.Read(make([]byte, 10))
				results <- result{err, time.Now()}
			}()
			go func() {
				var err error
				for err == nil {
					_, err = c.Write(make([]byte, 100_000))
				}
				results <- result{err, time.Now()}
			}()
			time.Sleep(100 * time.Millisecond) // the writer has filled the window
			died := time.Now()
			h.kill()
			for range 2 {
				select {
				case r := <-results:
					if !errors.Is(r.err, syscall.ECONNRESET) {
						t.Errorf("%v, want ECONNRESET", r.err)
					}
					t.Logf("reported after %v", r.at.Sub(died))
				case <-time.After(5 * time.Second):
					t.Fatal("a killed peer was not reported within 5 s")
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A peer that is stopped keeps nobody beyond a deadline, and nothing is lost when it
// goes on.
func TestConnPeerStopped(t *testing.T) {
	for name, tls := range connPeerTransports {
		t.Run(name, func(t *testing.T) {
			h, c := startConnPeer(t, tls)
			h.ask("echoing", "echo")
			h.signal(syscall.SIGSTOP)
			msg := testBytes(5, 4<<20)
			start := time.Now()
			if err := c.SetDeadline(start.Add(200 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			n, err := c.Write(msg)
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("write of %d bytes to a stopped peer: %v", n, err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read from a stopped peer: %v", err)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("a deadline of 200 ms took %v", d)
			}
			h.signal(syscall.SIGCONT)
			if err := c.SetDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n)
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, msg[:n]) {
				t.Errorf("echo of %d bytes: equal %v, %v", n, bytes.Equal(got, msg[:n]), err)
			}
		})
	}
}

// Close to a stopped peer ends with the linger time and says what it means.
func TestConnLingerEnds(t *testing.T) {
	h, c := startConnPeer(t, connPeerTransports["shm"])
	h.signal(syscall.SIGSTOP)
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetLinger(1); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := c.Close()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if d := time.Since(start); d < 500*time.Millisecond || d > 10*time.Second {
		t.Errorf("a linger time of 1 s took %v", d)
	}
	h.signal(syscall.SIGCONT)
}

// Data that a dead peer cannot have received is not lost in silence: Close says so,
// unless another call has.
func TestConnCloseReportsLoss(t *testing.T) {
	for _, told := range []bool{false, true} {
		h, c := startConnPeer(t, connPeerTransports["shm"])
		if _, err := c.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		h.kill()
		<-c.Endpoint().Done()
		if told {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		}
		err := c.Close()
		if told && err != nil || !told && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("close, told %v: %v", told, err)
		}
	}
}

// A process that writes, closes and exits at once loses nothing.
func TestConnExitAfterClose(t *testing.T) {
	for name, tls := range connPeerTransports {
		t.Run(name, func(t *testing.T) {
			w := newWorker(t, Config{Options: map[string]string{"TLS": tls}}, WorkerConfig{})
			l, err := w.ListenConn(testContext(t), "127.0.0.1:0", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for _, n := range []int{1, 10_000, 700_000} {
				h := startHelper(t, "conn")
				h.ask("addr", "tls %s", tls)
				h.say("dial %s %d", l.Addr(), n)
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				<-h.ended // only now is read
				if got, want := digest(t, c), digest(t, &repeated{n: n}); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				_ = c.Close()
			}
		})
	}
}

// A reader that has stopped costs a window of memory, at its end and at the writer's,
// however long the writer pushes and however small its pieces are.
func TestConnReaderStops(t *testing.T) {
	const bound = 32 << 20 // a window, blocks, UCX's buffers; the race detector's memory is most of it
	for name, tls := range connPeerTransports {
		for _, piece := range []int{1, 1000, 1 << 20} {
			t.Run(name+"/"+strconv.Itoa(piece), func(t *testing.T) {
				h, c := startConnPeer(t, tls)
				rss := func() (int64, int) {
					f := h.ask("rss", "rss")
					n, _ := strconv.ParseInt(f[0], 10, 64)
					buffered, _ := strconv.Atoi(f[1])
					return n, buffered
				}
				own := func() int64 {
					debug.FreeOSMemory() // what is garbage is no matter of the connection
					n, err := leak.RSS()
					if err != nil {
						t.Fatal(err)
					}
					return n
				}
				before, _ := rss()
				written := 0
				push := func(d time.Duration) {
					if err := c.SetWriteDeadline(time.Now().Add(d)); err != nil {
						t.Fatal(err)
					}
					for b := make([]byte, piece); ; {
						n, err := c.Write(b)
						written += n
						if err != nil {
							if !errors.Is(err, os.ErrDeadlineExceeded) {
								t.Error(err)
							}
							return
						}
					}
				}
				for last := -1; last != written; { // until the window is full, also on a busy machine
					last = written
					push(200 * time.Millisecond)
				}
				mine := own() // the window, and what the race detector keeps of each allocation
				push(600 * time.Millisecond)
				after, buffered := rss()
				mineAfter := own()
				t.Logf("%d bytes written, %d wait at the peer; memory %+d KiB there, %+d KiB here", written,
					buffered, (after-before)>>10, (mineAfter-mine)>>10)
				if written > defaultConnWindow || buffered > written || written-buffered > 0 && buffered == 0 {
					t.Errorf("%d bytes were written into a window of %d; %d wait", written, defaultConnWindow, buffered)
				}
				if after-before > bound || mineAfter-mine > bound {
					t.Errorf("the peer grew by %d bytes, this side by %d", after-before, mineAfter-mine)
				}
				// What is there can still be read.
				h.ask("echoing", "echo")
				if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
					t.Fatal(err)
				}
				if n, err := io.CopyN(io.Discard, c, int64(written)); err != nil {
					t.Errorf("%d of %d bytes came back: %v", n, written, err)
				}
			})
		}
	}
}
