package ucx

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/mem"
)

func init() { roles["frames"] = framesRole }

// framesRole is a peer that sends or takes messages of frames and can be stopped or
// killed meanwhile. Commands: "connect TLS ADDR", "send SIZE", "recv".
func framesRole(c *control) error {
	ctx := context.Background()
	var uc *Context
	var w *Worker
	var ep *Endpoint
	for cmd := c.next(); cmd != nil; cmd = c.next() {
		switch cmd[0] {
		case "connect":
			var err error
			if uc, err = NewContext(Config{Options: map[string]string{"TLS": cmd[1]}}); err != nil {
				return err
			}
			if w, err = uc.NewWorker(WorkerConfig{}); err != nil {
				return err
			}
			if ep, err = w.Dial(ctx, cmd[2]); err != nil {
				return err
			}
			c.say("connected")
		case "send":
			n, _ := strconv.Atoi(cmd[1])
			go func() {
				err := ep.SendFrames(ctx, Bytes([]byte("small")), Bytes(bytes.Repeat([]byte{0xaa}, n)))
				c.say("sent %v", err == nil)
			}()
			c.say("ok")
		case "recv":
			f, err := ep.RecvFrames(ctx, Allocators{})
			c.say("received %d %v", len(f), err == nil)
		}
	}
	if uc == nil {
		return nil
	}
	return errors.Join(w.Close(), uc.Close())
}

// framesPeer connects to a helper in its role.
func framesPeer(t *testing.T, ctx context.Context, tls string) (*helper, *Endpoint) {
	t.Helper()
	leak.Check(t, leak.Wait(10*time.Second))
	w := newWorker(t, Config{Options: map[string]string{"TLS": tls}}, WorkerConfig{})
	l, err := w.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h := startHelper(t, "frames")
	h.say("connect %s %s", tls, l.Addr())
	ep, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.hear("connected")
	return h, ep
}

var framesTransports = map[string]string{"shm": "posix,sysv,cma,self,tcp", "tcp": "tcp,self"}

// untilArrived waits until the parts of a message are here, without taking it.
func untilArrived(t *testing.T, ctx context.Context, ep *Endpoint, parts int) {
	t.Helper()
	fc := ep.frameConn()
	for ctx.Err() == nil {
		fc.mu.Lock()
		msg := fc.msgs[1]
		here := msg != nil && msg.table != nil && len(msg.parts) == parts
		fc.mu.Unlock()
		if here {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("the message did not arrive")
}

// A receiver whose sender is stopped in the middle gets its memory back at its
// deadline, and nothing writes to it when the sender goes on.
func TestFramesSenderStopped(t *testing.T) {
	for name, tls := range framesTransports {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			h, ep := framesPeer(t, ctx, tls)
			h.ask("ok", "send %d", 64<<20)
			untilArrived(t, ctx, ep, 1)
			h.signal(syscall.SIGSTOP)
			pool := &keepingResource{Resource: mem.NewMmap(mem.MmapConfig{})}
			defer pool.release()
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			f, err := ep.RecvFrames(short, Allocators{Host: pool})
			if err == nil { // copied out of the stopped process by the kernel
				if !bytes.Equal(f[1].Bytes(), bytes.Repeat([]byte{0xaa}, 64<<20)) {
					t.Error("the frame differs")
				}
				f.Release()
				h.signal(syscall.SIGCONT)
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
			waitDone(t, ctx, ep)
			for _, b := range pool.given {
				copy(b.Bytes(), bytes.Repeat([]byte{0xcc}, b.Len()))
			}
			h.signal(syscall.SIGCONT)
			h.hear("sent") // well or not: UCX's sends may end before they fail
			for _, b := range pool.given {
				if bytes.Contains(b.Bytes(), []byte{0xaa}) {
					t.Error("memory was written after the call had returned")
				}
			}
		})
	}
}

// keepingResource keeps a reference to what it gives, to look at it later.
type keepingResource struct {
	mem.Resource
	given []*mem.Buffer
}

func (r *keepingResource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	b, err := r.Resource.Alloc(ctx, n)
	if err == nil {
		r.given = append(r.given, b.Retain())
	}
	return b, err
}

func (r *keepingResource) release() {
	for _, b := range r.given {
		b.Release()
	}
}

// A sender whose receiver is stopped gets its memory back at its deadline.
func TestFramesReceiverStopped(t *testing.T) {
	for name, tls := range framesTransports {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			h, ep := framesPeer(t, ctx, tls)
			h.say("recv")
			h.signal(syscall.SIGSTOP)
			buf := make([]byte, 64<<20)
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := ep.SendFrames(short, Bytes([]byte("small")), Bytes(buf))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 15*time.Second {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
			h.signal(syscall.SIGCONT)
			if got := h.hear("received"); got[1] != "false" {
				t.Error("the receiver got a message that was not sent")
			}
		})
	}
}

// A killed peer ends what waits for it, at once.
func TestFramesPeerKilled(t *testing.T) {
	for name, tls := range framesTransports {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			h, ep := framesPeer(t, ctx, tls)
			recv, send := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := ep.RecvFrames(ctx, Allocators{})
				recv <- err
			}()
			go func() { send <- ep.SendFrames(ctx, Bytes(make([]byte, 64<<20))) }()
			time.Sleep(50 * time.Millisecond)
			start := time.Now()
			h.kill()
			for what, ch := range map[string]chan error{"receive": recv, "send": send} {
				var st Status // which one depends on who notices first
				if err := <-ch; !errors.As(err, &st) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
			}
			t.Logf("known after %v", time.Since(start))
			if err := ep.SendFrames(ctx, Bytes([]byte{1})); err == nil {
				t.Error("a send to a dead peer succeeded")
			}
		})
	}
}

// A sender that dies within a message: the receiver does not take half of it.
func TestFramesSenderKilled(t *testing.T) {
	for name, tls := range framesTransports {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			h, ep := framesPeer(t, ctx, tls)
			h.ask("ok", "send %d", 64<<20)
			untilArrived(t, ctx, ep, 1)
			h.kill()
			waitDone(t, ctx, ep)
			if _, err := ep.RecvFrames(ctx, Allocators{}); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v", err)
			}
			if _, err := ep.RecvFrames(ctx, Allocators{}); err == nil {
				t.Error("a message after the end")
			}
		})
	}
}
