package rpc

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
)

// logText collects the log of a server.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logText) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// A comm too many closes the one that has been idle for the longest time.
func TestMaxCommsClosesTheIdlest(t *testing.T) {
	log := &logText{}
	bubble(t, Config{MaxComms: 3, MaxCommsPerHost: 3, Logger: log.logger()}, PoolConfig{}, func(r *rig) {
		a, b, c := r.dial("a"), r.dial("a"), r.dial("b")
		for i, x := range []comm.Comm{b, c, a} { // b is the idlest of host a, which has the most
			r.say(x, obj{"op": "echo", "data": i})
			if got := r.hear(x); got != int64(i) {
				t.Errorf("echo: got %v, want %d", got, i)
			}
			time.Sleep(time.Second)
		}
		d := r.dial("d")
		r.say(d, obj{"op": "echo", "data": 7})
		if got := r.hear(d); got != int64(7) {
			t.Errorf("the new comm: got %v, want 7", got)
		}
		<-b.Done()
		for name, x := range map[string]comm.Comm{"a": a, "c": c, "d": d} {
			if err := x.Err(); err != nil {
				t.Errorf("comm %s has ended: %v", name, err)
			}
		}
		if !strings.Contains(log.String(), "idle comm closed to make room") ||
			!strings.Contains(log.String(), "peer=sim://a:") {
			t.Errorf("the log does not name the host:\n%s", log)
		}
		_, _, _ = a.Close(), c.Close(), d.Close()
	})
}

// Without an idle comm the new one is refused, and the host is named.
func TestMaxCommsRefusesWhenAllAreBusy(t *testing.T) {
	log := &logText{}
	bubble(t, Config{MaxComms: 2, MaxCommsPerHost: 2, Logger: log.logger()}, PoolConfig{}, func(r *rig) {
		r.server.Handle("wait", func(ctx context.Context, _ *Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		a, b := r.dial("a"), r.dial("b")
		r.say(a, obj{"op": "wait"})
		r.say(b, obj{"op": "wait"})
		time.Sleep(time.Second)
		c := r.dial("c")
		<-c.Done()
		if !strings.Contains(log.String(), "too many comms") || !strings.Contains(log.String(), "peer=sim://c:") {
			t.Errorf("the log does not name the peer:\n%s", log)
		}
		a.Abort() // its place is free at once
		time.Sleep(time.Second)
		d := r.dial("d")
		r.say(d, obj{"op": "echo", "data": 2})
		if got := r.hear(d); got != int64(2) {
			t.Errorf("echo: got %v, want 2", got)
		}
		_, _ = b.Close(), d.Close()
	})
}

// A host has no more than its share, and cannot push out others.
func TestMaxCommsPerHost(t *testing.T) {
	bubble(t, Config{MaxComms: 8, MaxCommsPerHost: 2}, PoolConfig{}, func(r *rig) {
		honest := r.dial("honest")
		var greedy []comm.Comm
		for range 20 {
			greedy = append(greedy, r.dial("greedy"))
			time.Sleep(time.Millisecond)
		}
		if got := r.server.Stats().Comms; got != 3 {
			t.Errorf("%d comms, want 3: one of honest, two of greedy", got)
		}
		if honest.Err() != nil {
			t.Errorf("the other host's comm has ended: %v", honest.Err())
		}
		for _, c := range append(greedy, honest) {
			c.Abort()
		}
	})
}

// A comm on which nothing comes is closed; one that has had a request may idle.
func TestFirstRequest(t *testing.T) {
	log := &logText{}
	bubble(t, Config{FirstRequest: 5 * time.Second, Logger: log.logger()}, PoolConfig{}, func(r *rig) {
		silent, used := r.dial("silent"), r.dial("used")
		r.say(used, obj{"op": "echo", "data": 1})
		if got := r.hear(used); got != int64(1) {
			t.Errorf("echo: got %v, want 1", got)
		}
		time.Sleep(6 * time.Second)
		<-silent.Done()
		time.Sleep(time.Hour)
		if used.Err() != nil {
			t.Errorf("a comm that has had a request was closed: %v", used.Err())
		}
		if !strings.Contains(log.String(), "comm without a request closed") ||
			!strings.Contains(log.String(), "peer=sim://silent:") {
			t.Errorf("the log does not name the peer:\n%s", log)
		}
		_ = used.Close()
	})
}

// counting is a comm whose peer sends a large message.
type counting struct {
	comm.Comm
	received atomic.Int64
}

func (c *counting) Received() int64 { return c.received.Load() }

// pair returns both ends of a comm that the rig's server does not serve.
func (r *rig) pair() (ours, theirs comm.Comm) {
	r.Helper()
	l, err := r.net.Host("other").Listen(r.Context(), "sim://other:0", comm.ListenConfig{})
	if err != nil {
		r.Fatal(err)
	}
	if theirs, err = r.net.Host("slow").Dial(r.Context(), l.ContactAddr(), comm.DialConfig{}); err != nil {
		r.Fatal(err)
	}
	if ours, err = l.Accept(r.Context()); err != nil {
		r.Fatal(err)
	}
	_ = l.Close()
	return ours, theirs
}

// A first request that takes longer than FirstRequest to arrive is served while its bytes come.
func TestFirstRequestArrivesSlowly(t *testing.T) {
	bubble(t, Config{}, PoolConfig{}, func(r *rig) {
		s := NewServer(Config{Type: "Slow", FirstRequest: 5 * time.Second, Logger: (&logText{}).logger()})
		addHandlers(s)
		ours, theirs := r.pair()
		c := &counting{Comm: ours}
		done := make(chan error, 1)
		go func() { done <- s.ServeComm(context.Background(), c) }()
		for range 20 {
			time.Sleep(3 * time.Second)
			c.received.Add(1 << 20)
		}
		r.say(theirs, obj{"op": "echo", "data": 1})
		if got := r.hear(theirs); got != int64(1) {
			t.Errorf("echo: got %v, want 1", got)
		}
		_ = theirs.Close()
		if err := <-done; err != nil {
			t.Errorf("ServeComm: %v", err)
		}
		// One that stalls is closed.
		ours, theirs = r.pair()
		c = &counting{Comm: ours}
		c.received.Store(1 << 20)
		go func() { done <- s.ServeComm(context.Background(), c) }()
		<-theirs.Done()
		<-done
		theirs.Abort()
		_ = s.Close()
	})
}

// Requests that wait hold no slot, end with their callers, and are bounded.
func TestWaitingRequests(t *testing.T) {
	cfg := Config{MaxRunning: 2, Waiting: []string{"wait"}, MaxWaiting: 30, MaxWaitingPerHost: 20}
	bubble(t, cfg, PoolConfig{}, func(r *rig) {
		var left atomic.Int64
		r.server.Handle("wait", func(ctx context.Context, _ *Request) (any, error) {
			<-ctx.Done()
			left.Add(1)
			return nil, context.Cause(ctx)
		})
		addHandlers(r.server)
		var comms []comm.Comm
		for range 20 {
			c := r.dial("a")
			r.say(c, obj{"op": "wait"})
			comms = append(comms, c)
		}
		refused := func(host, want string) {
			t.Helper()
			c := r.dial(host)
			defer c.Abort()
			r.say(c, obj{"op": "wait"})
			m, err := c.Read(r.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := decodeReply("wait", "server", m, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("one more of host %s: got %v, want an error with %q", host, err, want)
			}
		}
		refused("a", "the limit for a host")
		refused("a", ErrTooManyWaiting.Error())
		for range 10 {
			c := r.dial("b")
			r.say(c, obj{"op": "wait"})
			comms = append(comms, c)
		}
		time.Sleep(time.Second)
		refused("c", "the limit of the server")
		var sum int
		if err := r.pool.Call(r.Context(), r.addr, "add", pair{1, 2}, &sum); err != nil || sum != 3 {
			t.Errorf("while %d requests wait: got %d, %v, want 3", len(comms), sum, err)
		}
		if got := r.server.Stats(); got.Waiting != 30 || got.Running != 0 {
			t.Errorf("got %+v, want 30 waiting and none running", got)
		}
		for _, c := range comms {
			c.Abort()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.server.Stats(); got.Waiting != 0 || left.Load() != 30 {
			t.Errorf("after the callers left: %+v and %d handlers ended, want none waiting and 30 ended", got,
				left.Load())
		}
	})
}

// Detached handlers and those whose callers want no answer run to their end.
func TestHangUp(t *testing.T) {
	for _, c := range []struct {
		name    string
		request obj
		ends    bool
	}{
		{"caller waits", obj{"op": "work"}, true},
		{"no answer wanted", obj{"op": "work", "reply": false}, false},
		{"detached", obj{"op": "detached"}, false},
		{"takes over", obj{"op": "stream"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{Detached: []string{"detached"}}, PoolConfig{}, func(r *rig) {
				end := make(chan error, 1)
				work := func(ctx context.Context, _ *Request) (any, error) {
					select {
					case <-ctx.Done():
						end <- context.Cause(ctx)
					case <-time.After(10 * time.Second):
						end <- nil
					}
					return nil, nil
				}
				r.server.Handle("work", work)
				r.server.Handle("detached", work)
				r.server.Handle("stream", func(ctx context.Context, q *Request) (any, error) {
					q.Takeover()
					return work(ctx, q)
				})
				p := r.dial("peer")
				r.say(p, c.request)
				time.Sleep(time.Second)
				_ = p.Close()
				err := <-end
				if c.ends != errors.Is(err, context.Canceled) {
					t.Errorf("the handler's context: %v, want an end: %v", err, c.ends)
				}
			})
		})
	}
}

// A handler learns that its answer was not sent.
func TestDelivery(t *testing.T) {
	for _, c := range []struct {
		name   string
		hangUp bool
		reply  bool
		lost   int64
	}{
		{"delivered", false, true, 0},
		{"caller left", true, true, 1},
		{"no answer wanted", false, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, Config{Detached: []string{"take"}}, PoolConfig{}, func(r *rig) {
				var lost atomic.Int64
				r.server.Handle("take", func(context.Context, *Request) (any, error) {
					time.Sleep(2 * time.Second)
					return Delivery{Value: "item", Lost: func() { lost.Add(1) }}, nil
				})
				p := r.dial("peer")
				r.say(p, obj{"op": "take", "reply": c.reply})
				time.Sleep(time.Second)
				if c.hangUp {
					p.Abort()
				} else if c.reply {
					if got := r.hear(p); got != "item" {
						t.Errorf("got %v, want item", got)
					}
				}
				time.Sleep(10 * time.Second)
				if lost.Load() != c.lost {
					t.Errorf("Lost was called %d times, want %d", lost.Load(), c.lost)
				}
				p.Abort()
			})
		})
	}
}

// Peers that are refused or break the protocol are named in the log.
func TestPeersAreNamed(t *testing.T) {
	log := &logText{}
	cfg := Config{Logger: log.logger(), Authorize: func(_ context.Context, r *Request) error {
		if r.Op == "secret" {
			return fs.ErrPermission
		}
		return nil
	}}
	bubble(t, cfg, PoolConfig{}, func(r *rig) {
		r.server.Handle("secret", func(context.Context, *Request) (any, error) { return nil, nil })
		c := r.dial("thief")
		r.say(c, obj{"op": "secret"})
		r.hear(c)
		c.Abort()
		d := r.dial("babbler")
		r.say(d, []any{1, 2, 3})
		<-d.Done()
		time.Sleep(time.Second)
		for _, want := range []string{"request refused", "peer=sim://thief:", "protocol violation by peer",
			"peer=sim://babbler:"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, log)
			}
		}
	})
}
