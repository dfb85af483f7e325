package ucx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

func init() { roles["collector"] = collectorRole }

// collectorRole accepts connections at a lifeline or a UCX listener, receives all tag
// messages and says which tags came: "listening ADDR", then "count" is answered with
// "got DISTINCT TOTAL BAD ENDPOINTS".
func collectorRole(c *control) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind, tls := os.Getenv("COLLECT_KIND"), os.Getenv("COLLECT_TLS")
	cfg := Config{}
	if tls != "" {
		cfg.Options = map[string]string{"TLS": tls}
	}
	uc, err := NewContext(cfg)
	if err != nil {
		return err
	}
	w, err := uc.NewWorker(WorkerConfig{})
	if err != nil {
		return err
	}
	var accept func(context.Context) (*Endpoint, error)
	if kind == "socket" {
		l, err := w.ListenSocket(ctx, "127.0.0.1:0")
		if err != nil {
			return err
		}
		accept = l.Accept
		c.say("listening %s", l.Addr())
	} else {
		l, err := w.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			return err
		}
		accept = l.Accept
		c.say("listening %s", l.Addr())
	}
	var open atomic.Int64
	go func() {
		for {
			ep, err := accept(ctx)
			if err != nil {
				return
			}
			open.Add(1)
			if os.Getenv("COLLECT_CHATTY") != "" {
				go func() { // talks to a peer that does not listen
					for range 300 {
						if ep.Send(ctx, Bytes(make([]byte, 1000)), 1<<60) != nil {
							return
						}
					}
				}()
			}
			go func() {
				<-ep.Done()
				_ = ep.Close()
				open.Add(-1)
			}()
		}
	}()
	var mu sync.Mutex
	seen := map[uint64]int{}
	bad := 0
	for range 4 {
		go func() {
			buf := make([]byte, 256<<10)
			for {
				info, err := w.Recv(ctx, Bytes(buf), 0, AnyTag)
				if err != nil {
					return
				}
				mu.Lock()
				seen[info.Tag]++
				if want := testBytes(info.Tag, info.Len); string(want) != string(buf[:info.Len]) {
					bad++
				}
				mu.Unlock()
			}
		}()
	}
	for cmd := c.next(); cmd != nil; cmd = c.next() {
		mu.Lock()
		total := 0
		for _, n := range seen {
			total += n
		}
		c.say("got %d %d %d %d", len(seen), total, bad, open.Load())
		mu.Unlock()
	}
	cancel()
	return errors.Join(w.Close(), uc.Close())
}

// roundSizes are the messages of one connection. The last ones are eager: a rendezvous
// would only end when the peer has read all before it.
var roundSizes = []int{40000, 1, 100, 5000, 5000, 8}

// sendRounds makes connections, sends on each and closes it at once.
func sendRounds(ctx context.Context, w *Worker, kind, addr string, rounds, parallel int, sizes []int) error {
	var next atomic.Int64
	errs := make(chan error, parallel)
	for range parallel {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= rounds {
					errs <- nil
					return
				}
				if err := sendRound(ctx, w, kind, addr, uint64(i)<<8, sizes); err != nil {
					errs <- fmt.Errorf("round %d: %w", i, err)
					return
				}
			}
		}()
	}
	var all error
	for range parallel {
		all = errors.Join(all, <-errs)
	}
	return all
}

func sendRound(ctx context.Context, w *Worker, kind, addr string, tag uint64, sizes []int) error {
	var ep *Endpoint
	var err error
	if kind == "socket" {
		ep, err = w.DialSocket(ctx, addr, nil)
	} else {
		ep, err = w.Dial(ctx, addr)
	}
	if err != nil {
		return err
	}
	var reqs []*Request
	for k, n := range sizes {
		t := tag | uint64(k)
		if k%2 == 0 {
			if err := ep.Send(ctx, Bytes(testBytes(t, n)), t); err != nil {
				return fmt.Errorf("send: %w", err)
			}
		} else { // not waited for: Close has to
			reqs = append(reqs, ep.StartSend(Bytes(testBytes(t, n)), t))
		}
	}
	if err := ep.Shutdown(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	for _, r := range reqs {
		if err := r.Wait(ctx); err != nil {
			return fmt.Errorf("started send: %w", err)
		}
	}
	return nil
}

// TestRoundsLoseNothing makes 1,000 connections in all, sends on each, closes it at once
// and finds every message at the other process.
func TestRoundsLoseNothing(t *testing.T) {
	for _, c := range []struct {
		kind, tls string
		rounds    int
		chatty    string
	}{
		{"lifeline", "", 300, ""}, {"lifeline", "tcp", 100, ""}, {"lifeline", "tcp", 100, "chatty"},
		{"socket", "", 300, ""}, {"socket", "tcp", 100, ""}, {"socket", "tcp", 100, "chatty"},
	} {
		t.Run(c.kind+"/"+c.tls+c.chatty, func(t *testing.T) {
			leak.Check(t)
			h := startHelper(t, "collector", "COLLECT_KIND="+c.kind, "COLLECT_TLS="+c.tls, "COLLECT_CHATTY="+c.chatty)
			addr := h.hear("listening")[0]
			cfg := Config{}
			if c.tls != "" {
				cfg.Options = map[string]string{"TLS": c.tls}
			}
			w := newWorker(t, cfg, WorkerConfig{})
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := sendRounds(ctx, w, c.kind, addr, c.rounds, 4, roundSizes); err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf("%d %d 0 0", c.rounds*len(roundSizes), c.rounds*len(roundSizes))
			var got string
			const limit, pause = 10 * time.Second, 20 * time.Millisecond
			for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(pause) {
				f := h.ask("got", "count")
				if got = fmt.Sprint(f[0], " ", f[1], " ", f[2], " ", f[3]); got == want {
					break
				}
			}
			if got != want {
				t.Errorf("arrived (distinct, total, damaged, open endpoints) %s, want %s", got, want)
			}
			h.quit()
		})
	}
}

// TestCloseWhilePeerSleeps closes connections whose peer does not run, so that nothing of
// what was sent has been read when the close begins. All of it is there when it wakes.
func TestCloseWhilePeerSleeps(t *testing.T) {
	for _, kind := range []string{"lifeline", "socket"} {
		for _, tls := range []string{"", "tcp"} {
			t.Run(kind+"/"+tls, func(t *testing.T) {
				leak.Check(t)
				h := startHelper(t, "collector", "COLLECT_KIND="+kind, "COLLECT_TLS="+tls)
				addr := h.hear("listening")[0]
				cfg := Config{}
				if tls != "" {
					cfg.Options = map[string]string{"TLS": tls}
				}
				w := newWorker(t, cfg, WorkerConfig{})
				ctx := testContext(t)
				const conns, messages, size = 8, 100, 5000
				var eps []*Endpoint
				for range conns {
					var ep *Endpoint
					var err error
					if kind == "socket" {
						ep, err = w.DialSocket(ctx, addr, nil)
					} else {
						ep, err = w.Dial(ctx, addr)
					}
					if err != nil {
						t.Fatal(err)
					}
					eps = append(eps, ep)
				}
				h.signal(syscall.SIGSTOP)
				closed := make(chan error, conns)
				for i, ep := range eps {
					go func() {
						for k := range messages {
							tag := uint64(i*messages + k)
							if err := ep.Send(ctx, Bytes(testBytes(tag, size)), tag); err != nil {
								closed <- fmt.Errorf("send: %w", err)
								return
							}
						}
						closed <- ep.Shutdown(ctx)
					}()
				}
				time.Sleep(300 * time.Millisecond)
				h.signal(syscall.SIGCONT)
				for range conns {
					if err := <-closed; err != nil {
						t.Error(err)
					}
				}
				want := fmt.Sprintf("%d %d 0 0", conns*messages, conns*messages)
				var got string
				for deadline := time.Now().Add(5 * time.Second); got != want &&
					time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
					f := h.ask("got", "count")
					got = fmt.Sprint(f[0], " ", f[1], " ", f[2], " ", f[3])
				}
				if got != want {
					t.Errorf("arrived (distinct, total, damaged, open endpoints) %s, want %s", got, want)
				}
				h.quit()
			})
		}
	}
}

// TestSoakConnectClose connects and closes, and finds goroutines, descriptors, endpoints
// and memory where they were. `make test` makes 1,000 rounds, `make soak` 10,000 of each
// kind, and goes on for its time.
func TestSoakConnectClose(t *testing.T) {
	for kind, rounds := range map[string]int{"lifeline": 800, "socket": 200} {
		t.Run(kind, func(t *testing.T) {
			end := time.Now()
			if v := os.Getenv("MILLSTREAM_SOAK"); v != "" {
				d, err := time.ParseDuration(v)
				if err != nil {
					t.Fatalf("MILLSTREAM_SOAK: %v", err)
				}
				rounds, end = 10000, time.Now().Add(d)
			}
			wa, wb := newWorker(t, Config{}, WorkerConfig{Name: "client"}), newWorker(t, Config{},
				WorkerConfig{Name: "server"})
			addr := serveRounds(t, wb, kind)
			connectRounds(t, wa, kind, addr, 100) // UCX's pools and Go's heap reach their size
			settled(t, wa, wb)
			t.Run("rounds", func(t *testing.T) {
				leak.Check(t, leak.MaxRSS(rssAllowance))
				for n := 0; n < rounds || time.Now().Before(end); n += 200 {
					connectRounds(t, wa, kind, addr, 200)
				}
				settled(t, wa, wb)
			})
		})
	}
}

// serveRounds accepts connections and closes each when its peer has left.
func serveRounds(t *testing.T, w *Worker, kind string) (addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	var accept func(context.Context) (*Endpoint, error)
	if kind == "socket" {
		l, err := w.ListenSocket(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr, accept = l.Addr().String(), l.Accept
	} else {
		l, err := w.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr, accept = l.Addr().String(), l.Accept
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			ep, err := accept(ctx)
			if err != nil {
				return
			}
			serving.Go(func() {
				<-ep.Done()
				_ = ep.Close()
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return addr
}

func connectRounds(t *testing.T, w *Worker, kind, addr string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := sendRounds(ctx, w, kind, addr, n, 2, nil); err != nil {
		t.Fatal(err)
	}
}

// settled waits until both workers know of no endpoint any more.
func settled(t *testing.T, ws ...*Worker) {
	t.Helper()
	for _, w := range ws {
		var eps, handles, lines int
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			w.peers.mu.Lock()
			eps, handles, lines = len(w.peers.eps), len(w.peers.handles), len(w.peers.lifelines)
			w.peers.mu.Unlock()
			if eps+handles+lines == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("worker %s still has %d endpoints, %d handles, %d lifelines", w.name(), eps, handles, lines)
			}
		}
		// Exactly one ucp_ep_close_nbx for each endpoint that UCX made.
		made, gone := atomic.LoadUint64(&w.drv.c.Stats.EPCreated), atomic.LoadUint64(&w.drv.c.Stats.EPClosed)
		if made != gone {
			t.Errorf("worker %s made %d endpoints in UCX and closed %d", w.name(), made, gone)
		}
	}
}
