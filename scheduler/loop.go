package scheduler

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/wire"
)

// post is one thing for the loop to do: a message of a stream, or a function.
type post struct {
	from   *stream
	msg    *wire.Message
	graphs []*graph // those of its update-graph messages, decoded by the reader
	do     func()
}

// inbox is where everybody leaves work for the loop.
type inbox struct {
	mu     sync.Mutex
	items  []post // guarded by mu
	closed bool   // guarded by mu
	wake   chan struct{}
}

// put reports false when the loop has ended.
func (in *inbox) put(p post) bool {
	in.mu.Lock()
	if in.closed {
		in.mu.Unlock()
		return false
	}
	in.items = append(in.items, p)
	first := len(in.items) == 1
	in.mu.Unlock()
	if first {
		select {
		case in.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// swap takes all that has gathered and leaves an empty list.
func (in *inbox) swap(empty []post) []post {
	in.mu.Lock()
	defer in.mu.Unlock()
	items := in.items
	in.items = empty
	return items
}

// close returns what nobody will do.
func (in *inbox) close() []post {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	items := in.items
	in.items = nil
	return items
}

// turnPosts is how many posts are done before what was said leaves.
const turnPosts = 64

// run is the loop: the one goroutine that owns the state. It ends when stop is closed.
func (s *Scheduler) run() {
	defer close(s.loopDone)
	tick := time.NewTicker(s.tickInterval())
	defer tick.Stop()
	var items []post
	for {
		items = s.inbox.swap(items[:0])
		if len(items) == 0 {
			select {
			case <-s.inbox.wake:
			case <-tick.C:
				s.now = time.Now()
				if err := s.protect(s.tick); err != nil {
					s.log.Error("tick panicked", "panic", err, "stack", string(err.Stack))
				}
				s.flush()
			case <-s.stop:
				s.endLoop()
				return
			}
			continue
		}
		s.now = time.Now()
		for i := range items {
			s.handle(&items[i])
			items[i] = post{}
			if i%turnPosts == turnPosts-1 {
				s.flush()
			}
		}
		s.flush()
	}
}

// handle does one post. A panic of a message ends the stream that sent it; functions have
// a protection of their own, see do.
func (s *Scheduler) handle(p *post) {
	if p.do != nil {
		p.do()
		return
	}
	unkept := false
	if !p.from.gone {
		if err := s.protect(func() { unkept = s.message(p) }); err != nil {
			unkept = false
			s.log.Error("stream message panicked", "peer", p.from.comm.PeerAddr(), "panic", err, "stack", string(err.Stack))
			s.badMessage(p.from, err)
		}
	}
	if unkept && p.from.out.reuse {
		p.msg.Recycle()
	} else {
		p.msg.Release()
	}
	p.from.credit()
}

// protect runs f and returns its panic. A panic while an event is applied to the state goes
// on and ends the scheduler: the state may be inconsistent, and its results wrong. With a
// journal it can be started again.
func (s *Scheduler) protect(f func()) (err *rpc.PanicError) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err = &rpc.PanicError{Value: v, Stack: debug.Stack()}
		if s.applying {
			panic(err)
		}
	}()
	f()
	return nil
}

// endLoop refuses what has been left.
func (s *Scheduler) endLoop() {
	for _, p := range s.inbox.close() {
		if p.msg != nil {
			p.msg.Release()
		}
	}
	s.flush()
}

// do runs f in the loop and waits for it. f must not block; it always runs to its end
// before do returns, unless the scheduler has closed. A panic of f is returned as an
// *rpc.PanicError, but for one of the state, see protect.
func (s *Scheduler) do(ctx context.Context, f func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan struct{})
	var panicked *rpc.PanicError
	result := func() error {
		if panicked != nil {
			return panicked
		}
		return nil
	}
	if !s.inbox.put(post{do: func() { defer close(done); panicked = s.protect(f) }}) {
		return s.closedError()
	}
	select {
	case <-done:
		return result()
	case <-s.loopDone:
	}
	select {
	case <-done: // it was among the last that were done
		return result()
	default:
		return s.closedError()
	}
}

// ask runs f in the loop and returns what it returns.
func ask[T any](ctx context.Context, s *Scheduler, f func() (T, error)) (T, error) {
	var out T
	var err error
	if e := s.do(ctx, func() { out, err = f() }); e != nil {
		var none T
		return none, e
	}
	return out, err
}

func (s *Scheduler) closedError() error {
	return fmt.Errorf("scheduler %s: %w", s.id, rpc.ErrClosed)
}
