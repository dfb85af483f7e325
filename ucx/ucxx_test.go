package ucx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/ucxxwire"
	"go.millstream.dev/mem"
)

// ucxxPair connects two workers of this process by UCXX's handshake.
func ucxxPair(t testing.TB, cfg Config, wcfg WorkerConfig) (client, server *UCXXEndpoint) {
	t.Helper()
	ctx := testContext(t)
	wc, ws := newWorker(t, cfg, wcfg), newWorker(t, cfg, wcfg)
	l, err := ws.ListenUCXX(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	client, err = wc.DialUCXX(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestUCXXHandshake(t *testing.T) {
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	cs, cr := c.Tags()
	ss, sr := s.Tags()
	if cs != sr || cr != ss || cs == cr {
		t.Errorf("client sends %#x and receives %#x, server sends %#x and receives %#x", cs, cr, ss, sr)
	}
	if c.Endpoint().Worker() == s.Endpoint().Worker() {
		t.Error("both ends have one worker")
	}
}

func TestUCXXTags(t *testing.T) {
	for _, set := range streamSettings {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			c, s := ucxxPair(t, set.cfg, WorkerConfig{})
			tags := []UCXXTag{DefaultTag, UserTag(7), UserTag(-1), UserTag(uint64(math.MaxUint64 - 1)),
				UserTag(int64(math.MinInt64)), ForceTag(99)}
			for _, n := range []int{0, 1, 1024, 8193, 1 << 20} {
				for i, tag := range tags {
					want := testBytes(uint64(i), n)
					sent := make(chan error, 1)
					go func() { sent <- c.Send(ctx, Bytes(want), tag) }()
					got := make([]byte, n)
					m, err := s.Recv(ctx, Bytes(got), tag)
					if err != nil || m != n || !bytes.Equal(got, want) {
						t.Fatalf("tag %d, %d bytes: received %d, %v", i, n, m, err)
					}
					if err := <-sent; err != nil {
						t.Fatal(err)
					}
				}
			}
			// Each tag matches only itself: all sent, then received in reverse.
			var reqs []*Request
			for i, tag := range tags {
				reqs = append(reqs, s.StartSend(Bytes([]byte{byte(i)}), tag))
			}
			for i := len(tags) - 1; i >= 0; i-- {
				got := make([]byte, 1)
				r := c.StartRecv(Bytes(got), tags[i])
				if err := r.Wait(ctx); err != nil || got[0] != byte(i) {
					t.Errorf("tag %d received message %d, %v", i, got[0], err)
				}
				if err := reqs[i].Wait(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestUCXXProbe(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	if _, found, err := s.Probe(UserTag(3)); found || err != nil {
		t.Errorf("found %v, %v before anything was sent", found, err)
	}
	if err := c.Send(ctx, Bytes(make([]byte, 77)), UserTag(3)); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		n, found, err := s.Probe(UserTag(3))
		if err != nil {
			t.Fatal(err)
		}
		if found {
			if n != 77 {
				t.Errorf("probe says %d bytes", n)
			}
			return
		}
	}
	t.Error("the message was not found")
}

func TestUCXXObject(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	for _, n := range []int{0, 5, 100_000} {
		want := testBytes(1, n)
		sent := make(chan error, 1)
		go func() { sent <- c.SendObject(ctx, Bytes(want), DefaultTag) }()
		got, err := s.RecvObject(ctx, DefaultTag, nil, 1<<20)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	go c.SendObject(ctx, Bytes(make([]byte, 1001)), DefaultTag)
	if _, err := s.RecvObject(ctx, DefaultTag, nil, 1000); !errors.Is(err, ErrExceedsLimit) {
		t.Errorf("object over the limit: %v", err)
	}
	waitDone(t, ctx, s.Endpoint())
}

func TestUCXXMulti(t *testing.T) {
	messages := [][]int{{0}, {5}, {0, 1, 0, 8193, 1 << 20}, repeatSize(100, 30), repeatSize(101, 30),
		repeatSize(250, 9000), repeatSize(700, 3)}
	for _, set := range streamSettings {
		t.Run(set.name, func(t *testing.T) {
			ctx := testContext(t)
			c, s := ucxxPair(t, set.cfg, WorkerConfig{})
			for _, sizes := range messages {
				for _, tag := range []UCXXTag{DefaultTag, UserTag(5)} {
					want := frameSet(2, sizes...)
					sent := make(chan error, 1)
					go func() { sent <- s.SendMulti(ctx, tag, viewsOf(want)...) }()
					got, err := c.RecvMulti(ctx, tag, Allocators{})
					if err != nil {
						t.Fatalf("%d frames: %v", len(sizes), err)
					}
					if err := sameFrames(got, want); err != nil {
						t.Errorf("%d frames: %v", len(sizes), err)
					}
					if err := <-sent; err != nil {
						t.Error(err)
					}
					got.Release()
				}
			}
		})
	}
}

// Concurrent messages on one tag do not mix, although the format has no way to tell
// their parts apart; messages on several tags do not wait for each other.
func TestUCXXMultiConcurrent(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	const senders, rounds = 6, 10
	var wg sync.WaitGroup
	for g := range senders {
		tag := []UCXXTag{DefaultTag, UserTag(1)}[g%2]
		wg.Go(func() {
			for i := range rounds {
				frames := frameSet(uint64(g*rounds+i), 2, 300*g, 9000+i, 0)
				frames[0] = []byte{byte(g), byte(i)}
				if err := c.SendMulti(ctx, tag, viewsOf(frames)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for g := range senders {
		tag := []UCXXTag{UserTag(1), DefaultTag}[g%2]
		wg.Go(func() {
			for range rounds {
				got, err := s.RecvMulti(ctx, tag, Allocators{})
				if err != nil {
					t.Error(err)
					return
				}
				key := got[0].Bytes()
				g, i := int(key[0]), int(key[1])
				want := frameSet(uint64(g*rounds+i), 2, 300*g, 9000+i, 0)
				want[0] = key
				if err := sameFrames(got, want); err != nil {
					t.Errorf("sender %d, message %d: %v", g, i, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestUCXXMultiRefused(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	if err := c.SendMulti(ctx, DefaultTag); err == nil || !strings.Contains(err.Error(), "no frames") {
		t.Errorf("message of no frames: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := c.SendMulti(ended, DefaultTag, Bytes([]byte{1})); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := s.RecvMulti(short, DefaultTag, Allocators{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nothing sent: %v", err)
	}
	if s.Err() != nil || c.Err() != nil {
		t.Fatalf("the connection ended: %v, %v", s.Err(), c.Err())
	}
	go c.SendMulti(ctx, DefaultTag, viewsOf(frameSet(1, 10, 20, 30))...)
	if _, err := s.RecvMulti(ctx, DefaultTag, Allocators{MaxBytes: 59}); !errors.Is(err, ErrExceedsLimit) {
		t.Errorf("over the limit: %v", err)
	}
	waitDone(t, ctx, s.Endpoint()) // there is no way to find the next message

	c, s = ucxxPair(t, Config{}, WorkerConfig{})
	go c.SendMulti(ctx, DefaultTag, viewsOf(frameSet(1, 10, 20, 30))...)
	refuse := func(_ context.Context, n int) error { return mem.ErrBusy }
	if _, err := s.RecvMulti(ctx, DefaultTag, Allocators{Reserve: refuse}); !errors.Is(err, mem.ErrBusy) {
		t.Errorf("not reserved: got %v, want ErrBusy", err)
	}
	waitDone(t, ctx, s.Endpoint())
}

// What is not UCXX's format, or stops in the middle, ends the endpoint with an error.
func TestUCXXMultiHostile(t *testing.T) {
	good, err := ucxxwire.AppendMultiHeaders(nil, []ucxxwire.Frame{{Size: 4}})
	if err != nil {
		t.Fatal(err)
	}
	chained := bytes.Clone(good)
	chained[0] = 1
	for name, c := range map[string]struct {
		parts [][]byte
		want  error
	}{
		"short header":  {[][]byte{good[:100]}, nil},
		"long header":   {[][]byte{append(bytes.Clone(good), 0)}, ErrTruncated},
		"bad header":    {[][]byte{bytes.Repeat([]byte{0xff}, len(good))}, nil},
		"short frame":   {[][]byte{good, {1, 2}}, nil},
		"long frame":    {[][]byte{good, make([]byte, 5)}, ErrTruncated},
		"closed inside": {[][]byte{good, nil}, io.ErrUnexpectedEOF},
		"closed before": {[][]byte{chained, nil}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			a, b := ucxxPair(t, Config{}, WorkerConfig{})
			for _, p := range c.parts {
				if p == nil {
					if err := a.Close(); err != nil {
						t.Fatal(err)
					}
					break
				}
				if err := a.Send(ctx, Bytes(p), DefaultTag); err != nil {
					t.Fatal(err)
				}
			}
			_, err := b.RecvMulti(ctx, DefaultTag, Allocators{})
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			waitDone(t, ctx, b.Endpoint())
		})
	}
}

func TestUCXXMultiAllocators(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	headers, err := ucxxwire.AppendMultiHeaders(nil, []ucxxwire.Frame{{Size: 3}, {Size: 4, CUDA: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{headers, []byte("abc"), []byte("defg")} {
		if err := c.Send(ctx, Bytes(p), DefaultTag); err != nil {
			t.Fatal(err)
		}
	}
	host := &countingResource{Resource: mem.Heap, failAt: -1}
	device := &countingResource{Resource: mem.Heap, failAt: -1} // stands for memory of another kind
	got, err := s.RecvMulti(ctx, DefaultTag, Allocators{Host: host, Device: device})
	if err != nil {
		t.Fatal(err)
	}
	if err := sameFrames(got, [][]byte{[]byte("abc"), []byte("defg")}); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(host.asked, device.asked) != "[3] [4]" {
		t.Errorf("host was asked for %v, device for %v", host.asked, device.asked)
	}
}

func TestUCXXCloseIsEOF(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	if err := c.Send(ctx, Bytes([]byte("last")), DefaultTag); err != nil {
		t.Fatal(err)
	}
	// Make sure that it has arrived, as UCXX's close waits for nobody.
	for _, found, _ := s.Probe(DefaultTag); !found && ctx.Err() == nil; _, found, _ = s.Probe(DefaultTag) {
	}
	pending := make(chan error, 1)
	go func() {
		_, err := s.Recv(ctx, Bytes(make([]byte, 8)), UserTag(1))
		pending <- err
	}()
	amPending := make(chan error, 1)
	go func() {
		_, err := s.RecvAM(ctx)
		amPending <- err
	}()
	time.Sleep(10 * time.Millisecond)
	c.Endpoint().abort(errCanceled) // by force, as UCXX does
	waitDone(t, ctx, s.Endpoint())
	for name, err := range map[string]error{"pending receive": <-pending, "pending AM receive": <-amPending,
		"Err": s.Err()} {
		if !errors.Is(err, io.EOF) || !errors.Is(err, ErrConnectionReset) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Send(ctx, Bytes([]byte("x")), DefaultTag); !errors.Is(err, io.EOF) {
		t.Errorf("send: %v", err)
	}
	if _, err := s.RecvMulti(ctx, UserTag(2), Allocators{}); !errors.Is(err, io.EOF) {
		t.Errorf("multi receive: %v", err)
	}
	buf := make([]byte, 4)
	if n, err := s.Recv(ctx, Bytes(buf), DefaultTag); err != nil || n != 4 || string(buf) != "last" {
		t.Errorf("what had arrived: %d, %q, %v", n, buf, err)
	}
	if _, err := s.Recv(ctx, Bytes(buf), DefaultTag); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
}

func TestUCXXCloseAfter(t *testing.T) {
	ctx := testContext(t)
	c, s := ucxxPair(t, Config{}, WorkerConfig{})
	recv := func() error {
		if err := c.Send(ctx, Bytes([]byte{1}), DefaultTag); err != nil {
			return err
		}
		_, err := s.Recv(ctx, Bytes(make([]byte, 1)), DefaultTag)
		return err
	}
	if err := recv(); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAfter(0, true); err == nil {
		t.Error("fewer than have happened was accepted")
	}
	if err := s.CloseAfter(2, false); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAfter(5, false); err == nil {
		t.Error("a second setting was accepted")
	}
	for i := range 2 {
		if err := recv(); err != nil {
			t.Fatalf("receive %d: %v", i, err)
		}
	}
	waitDone(t, ctx, s.Endpoint(), c.Endpoint())
	c, s = ucxxPair(t, Config{}, WorkerConfig{})
	if err := s.CloseAfter(0, false); err != nil {
		t.Error(err)
	}
	waitDone(t, ctx, s.Endpoint(), c.Endpoint())
}

func TestUCXXBadHandshake(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	sock, err := w.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close()
	wc := newWorker(t, Config{}, WorkerConfig{})
	for name, c := range map[string]struct {
		send []byte
		want error
	}{
		"wrong check": {[]byte("0123456789abcdef"), ucxxwire.ErrChecksum},
		"silence":     {nil, context.DeadlineExceeded},
		"hang-up":     {[]byte{}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			accepted := make(chan *Endpoint, 1)
			go func() {
				ep, err := sock.Accept(ctx)
				if err != nil {
					accepted <- nil
					return
				}
				if len(c.send) > 0 {
					if err := ep.SendStream(ctx, Bytes(c.send)); err != nil {
						t.Errorf("send: %v", err)
					}
				} else if c.send != nil {
					time.Sleep(50 * time.Millisecond) // so that the client is connected
					ep.abort(errCanceled)
				}
				accepted <- ep
			}()
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			if c.want != context.DeadlineExceeded {
				short = ctx
			}
			if _, err := wc.DialUCXX(short, sock.Addr().String()); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
			if ep := <-accepted; ep != nil {
				waitDone(t, ctx, ep)
				ep.Close()
			}
		})
	}
}

// A client that says nonsense, and one that says nothing, do not keep others out.
func TestUCXXListenerBadClients(t *testing.T) {
	ctx := testContext(t)
	w, wc := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := w.ListenUCXX(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent, err := wc.DialSocket(ctx, l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := wc.DialSocket(ctx, l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := wrong.SendStream(ctx, Bytes([]byte("0123456789abcdef"))); err != nil {
		t.Fatal(err)
	}
	good, err := wc.DialUCXX(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if send, _ := s.Tags(); send != good.recvTag {
		t.Error("another connection was accepted")
	}
	waitDone(t, ctx, wrong)
	start := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("Close waited %v for the silent client", d)
	}
	waitDone(t, ctx, silent)
	if _, err := l.Accept(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("Accept after Close: %v", err)
	}
	if err := good.Send(ctx, Bytes([]byte{1}), DefaultTag); err != nil {
		t.Errorf("an accepted endpoint ended with its listener: %v", err)
	}
}

func TestUCXXFeatures(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{Features: Tag | Wakeup}, WorkerConfig{})
	if _, err := w.DialUCXX(ctx, "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "Stream") {
		t.Errorf("got %v", err)
	}
	if _, err := w.ListenUCXX(ctx, "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "Stream") {
		t.Errorf("got %v", err)
	}
}
