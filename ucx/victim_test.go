package ucx

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

func init() { roles["victim"] = victimRole }

// victimRole is a peer that does what it is told and can be stopped or killed at any
// moment. Commands: "connect TLS KIND ADDR", "send TAG SIZE", "recv TAG SIZE", "am SIZE",
// "stream SIZE", "echo", "wait".
func victimRole(c *control) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var uc *Context
	var w *Worker
	var ep *Endpoint
	var started []*Request
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	for cmd := c.next(); cmd != nil; cmd = c.next() {
		switch cmd[0] {
		case "connect":
			cfg := Config{}
			if cmd[1] != "default" {
				cfg.Options = map[string]string{"TLS": cmd[1]}
			}
			var err error
			if uc, err = NewContext(cfg); err != nil {
				return err
			}
			if w, err = uc.NewWorker(WorkerConfig{}); err != nil {
				return err
			}
			if err = errors.Join(w.OpenAM(1), w.OpenAM(2)); err != nil {
				return err
			}
			if cmd[2] == "socket" {
				ep, err = w.DialSocket(ctx, cmd[3], nil)
			} else {
				ep, err = w.Dial(ctx, cmd[3])
			}
			if err != nil {
				return err
			}
			c.say("connected")
		case "send":
			started = append(started, ep.StartSend(Bytes(make([]byte, number(cmd[2]))), uint64(number(cmd[1]))))
			c.say("ok")
		case "recv":
			started = append(started, ep.StartRecv(Bytes(make([]byte, number(cmd[2]))), uint64(number(cmd[1])),
				FullMask))
			c.say("ok")
		case "am":
			started = append(started, ep.StartSendAM(1, []byte("big"), AMOptions{Rendezvous: true},
				Bytes(make([]byte, number(cmd[1])))))
			c.say("ok")
		case "stream":
			started = append(started, ep.StartSendStream(Bytes(make([]byte, number(cmd[1])))))
			c.say("ok")
		case "echo":
			go func() {
				buf := make([]byte, 64)
				for {
					info, err := ep.Recv(ctx, Bytes(buf), 77, FullMask)
					if err != nil || ep.Send(ctx, Bytes(buf[:info.Len]), 78) != nil {
						return
					}
				}
			}()
			c.say("ok")
		case "wait": // until all that was started has ended; says how
			failed := 0
			for _, r := range started {
				if r.Wait(ctx) != nil {
					failed++
				}
			}
			c.say("ended %d %d", len(started), failed)
			started = nil
		}
	}
	cancel()
	if uc == nil {
		return nil
	}
	return errors.Join(w.Close(), uc.Close())
}

// deathTransport is how a victim is connected.
type deathTransport struct {
	name, kind, tls string
}

var deathTransports = []deathTransport{
	{"lifeline shm", "lifeline", "default"}, {"lifeline tcp", "lifeline", "tcp,self"},
	{"socket shm", "socket", "default"}, {"socket tcp", "socket", "tcp,self"},
}

// scene is a worker with connections to two processes: one that will suffer and one that
// must not notice.
type scene struct {
	t         *testing.T
	transport deathTransport
	ctx       context.Context
	w         *Worker
	addr      string
	accept    func(context.Context) (*Endpoint, error)
	victim    *helper
	ep        *Endpoint // to the victim
	bystander *Endpoint
}

// eachScene runs the cases on each transport, each case with a victim of its own.
func eachScene(t *testing.T, cases map[string]func(*scene)) {
	for _, transport := range deathTransports {
		t.Run(transport.name, func(t *testing.T) {
			s := newScene(t, transport)
			for name, f := range cases {
				t.Run(name, func(t *testing.T) {
					inner := *s
					inner.t = t
					inner.victim, inner.ep = inner.join()
					f(&inner)
				})
			}
		})
	}
}

func newScene(t *testing.T, transport deathTransport) *scene {
	t.Helper()
	leak.Check(t, leak.Wait(10*time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cfg := Config{}
	if transport.tls != "default" {
		cfg.Options = map[string]string{"TLS": transport.tls}
	}
	s := &scene{t: t, transport: transport, ctx: ctx, w: newWorker(t, cfg, WorkerConfig{})}
	if err := errors.Join(s.w.OpenAM(1), s.w.OpenAM(2)); err != nil {
		t.Fatal(err)
	}
	if transport.kind == "socket" {
		l, err := s.w.ListenSocket(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.addr, s.accept = l.Addr().String(), l.Accept
	} else {
		l, err := s.w.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s.addr, s.accept = l.Addr().String(), l.Accept
	}
	var other *helper
	other, s.bystander = s.join()
	other.ask("ok", "echo")
	s.unaffected("at the start")
	return s
}

// join starts a process and connects with it.
func (s *scene) join() (*helper, *Endpoint) {
	s.t.Helper()
	h := startHelper(s.t, "victim")
	h.say("connect %s %s %s", s.transport.tls, s.transport.kind, s.addr)
	ep, err := s.accept(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	h.hear("connected")
	return h, ep
}

// unaffected checks that the other connection of the worker works.
func (s *scene) unaffected(when string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	buf := make([]byte, 16)
	for i := range 10 {
		msg := fmt.Appendf(nil, "ping %d", i)
		if err := s.bystander.Send(ctx, Bytes(msg), 77); err != nil {
			s.t.Fatalf("%s: the other connection cannot send: %v", when, err)
		}
		info, err := s.bystander.Recv(ctx, Bytes(buf), 78, FullMask)
		if err != nil || string(buf[:info.Len]) != string(msg) {
			s.t.Fatalf("%s: the other connection received %q, %v", when, buf[:info.Len], err)
		}
	}
}

// noSlots checks that no operation is left on the worker.
func (s *scene) noSlots() {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		n := s.w.Stats().InFlight
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d operations are still in flight", n)
		}
	}
}

// pendingOps collects operations that are expected to fail.
type pendingOps struct {
	mu    sync.Mutex
	names []string
	errs  map[string]error
	left  sync.WaitGroup
	last  time.Time
}

func (p *pendingOps) add(name string, wait func() error) {
	p.names = append(p.names, name)
	p.left.Go(func() {
		err := wait()
		p.mu.Lock()
		if p.errs == nil {
			p.errs = map[string]error{}
		}
		p.errs[name] = err
		p.last = time.Now()
		p.mu.Unlock()
	})
}

func (p *pendingOps) request(ctx context.Context, name string, r *Request) {
	p.add(name, func() error { return r.Wait(ctx) })
}

// wait waits until all have ended.
func (p *pendingOps) wait(t *testing.T, limit time.Duration) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		p.left.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, n := range p.names {
			if _, ok := p.errs[n]; !ok {
				t.Errorf("%s is still pending", n)
			}
		}
		t.FailNow()
	}
}
