// Package loop runs the messages and functions of a scheduler one after the other: in a goroutine of its own, or in
// that of the caller if there is nothing else to do, which saves a wakeup.
//
// The scheduler and its subsystems follow one rule: state that is not guarded by a lock is accessed in the loop only.
// Functions that run in the loop must not block. Slow work is done by the goroutine of the request, which enters the
// loop with [Ask], [Await] or Do while it accesses state.
package loop

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"go.millstream.dev/internal/rpc"
)

// Loop is the interface of the loop for subsystems.
type Loop interface {
	// Do runs f in the loop and waits for it. f must not block; it always runs to completion before Do returns, unless
	// the loop has ended. A panic of f is returned as an *rpc.PanicError.
	Do(ctx context.Context, f func()) error
	// Later runs f in the loop after the current work. It does not wait; a loop that has ended drops f.
	Later(f func())
	// Now returns the time of the current turn. Only functions in the loop may call it.
	Now() time.Time
	// Idle reports whether nothing is queued after the current turn.
	Idle() bool
	// Done returns a channel that is closed when the loop has ended.
	Done() <-chan struct{}
	// ClosedError returns the error of calls after the end of the loop.
	ClosedError() error
}

// Config specifies the functions of a Runner. All run in the loop.
type Config[M any] struct {
	// Handle handles one message. It recovers its own panics, see Runner.Protect.
	Handle func(*M)
	// Drop frees a message that is left when the loop ends.
	Drop func(*M)
	// Flush is called at the end of a turn, and after every 64 posts of a long one.
	Flush func()
	// Tick is called at intervals of Interval while there is nothing else to do.
	Tick     func()
	Interval time.Duration
	// TickPanicked is called after a panic of Tick, Panicked after one that has ended the loop.
	TickPanicked func(*rpc.PanicError)
	Panicked     func(v any)
	// Closed returns the error of calls after the end of the loop. Any goroutine may call it.
	Closed func() error
}

// Runner is the loop of a scheduler, with messages of type M. New returns one.
type Runner[M any] struct {
	cfg  Config[M]
	stop chan struct{}
	done chan struct{}
	wake chan struct{}

	mu     sync.Mutex
	posts  []post[M] // guarded by mu
	closed bool      // guarded by mu

	// turn is held by the goroutine that runs messages and functions, and guards all below.
	turn     sync.Mutex
	running  bool // Run has been called and has not ended
	broken   any  // a panic in the goroutine of a caller that has left state inconsistent
	now      time.Time
	critical bool
}

// post is a message or a function for the loop.
type post[M any] struct {
	do  func()
	msg M
}

// New returns a loop that Run runs.
func New[M any](cfg Config[M]) *Runner[M] {
	return &Runner[M]{cfg: cfg, stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Now returns the time of the current turn; zero before the first. Only functions in the loop may call it.
func (r *Runner[M]) Now() time.Time { return r.now }

// Done returns a channel that is closed when the loop has ended.
func (r *Runner[M]) Done() <-chan struct{} { return r.done }

// ClosedError returns the error of calls after the end of the loop.
func (r *Runner[M]) ClosedError() error { return r.cfg.Closed() }

// SetCritical sets whether a panic leaves state inconsistent, and returns the previous setting. Only functions in the
// loop may call it.
func (r *Runner[M]) SetCritical(on bool) (before bool) {
	before, r.critical = r.critical, on
	return before
}

// Post handles a message, or queues it for the loop if that is busy. It reports false if the loop has ended.
func (r *Runner[M]) Post(m M) bool {
	if r.enter() {
		r.turnHere(func() { r.cfg.Handle(&m) })
		return true
	}
	return r.put(post[M]{msg: m})
}

// enter starts a turn in the goroutine of the caller if nothing is queued and no other turn runs; turnHere must follow.
func (r *Runner[M]) enter() bool {
	if !r.turn.TryLock() {
		return false
	}
	if r.running && r.broken == nil && r.Idle() {
		return true
	}
	r.turn.Unlock()
	return false
}

// turnHere runs a turn in the goroutine of the caller. A panic ends the loop.
func (r *Runner[M]) turnHere(f func()) {
	defer func() {
		if r.broken = recover(); r.broken != nil {
			r.signal()
		}
		r.turn.Unlock()
	}()
	r.now = time.Now()
	f()
	r.cfg.Flush()
}

// Idle reports whether nothing is queued and the loop has not ended. Any goroutine may call it.
func (r *Runner[M]) Idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts) == 0 && !r.closed
}

// Len returns the number of queued messages and functions. Any goroutine may call it.
func (r *Runner[M]) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.posts)
}

// Later runs f in the loop after the current work.
func (r *Runner[M]) Later(f func()) { r.put(post[M]{do: f}) }

func (r *Runner[M]) put(p post[M]) bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	r.posts = append(r.posts, p)
	first := len(r.posts) == 1
	r.mu.Unlock()
	if first {
		r.signal()
	}
	return true
}

// signal wakes the loop.
func (r *Runner[M]) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// swap takes all posts and leaves an empty list.
func (r *Runner[M]) swap(empty []post[M]) []post[M] {
	r.mu.Lock()
	defer r.mu.Unlock()
	posts := r.posts
	r.posts = empty
	return posts
}

// turnPosts is the number of posts that are handled before Flush.
const turnPosts = 64

// Run runs the loop. It returns when Stop is called, or after a panic that has left state inconsistent, which it passes
// to Config.Panicked.
func (r *Runner[M]) Run() {
	defer func() {
		if v := recover(); v != nil {
			r.cfg.Panicked(v)
		}
	}()
	r.run()
}

func (r *Runner[M]) run() {
	defer close(r.done)
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	var posts []post[M]
	r.take()
	defer func() {
		r.running = false
		r.turn.Unlock()
	}()
	r.running = true
	for {
		posts = r.swap(posts[:0])
		if len(posts) > 0 {
			r.handle(posts)
			continue
		}
		r.turn.Unlock()
		select {
		case <-r.wake:
			r.take()
		case <-tick.C:
			r.take()
			r.now = time.Now()
			if err := r.Protect(r.cfg.Tick); err != nil {
				r.cfg.TickPanicked(err)
			}
			r.cfg.Flush()
		case <-r.stop:
			r.take()
			r.end()
			return
		}
	}
}

// take waits for the turn. It panics if another goroutine has left state inconsistent.
func (r *Runner[M]) take() {
	r.turn.Lock()
	if r.broken != nil {
		panic(r.broken)
	}
}

// handle runs a turn.
func (r *Runner[M]) handle(posts []post[M]) {
	r.now = time.Now()
	for i := range posts {
		if p := &posts[i]; p.do != nil {
			p.do()
		} else {
			r.cfg.Handle(&p.msg)
		}
		posts[i] = post[M]{}
		if i%turnPosts == turnPosts-1 {
			r.cfg.Flush()
		}
	}
	r.cfg.Flush()
}

// end drops the remaining posts.
func (r *Runner[M]) end() {
	r.mu.Lock()
	r.closed = true
	posts := r.posts
	r.posts = nil
	r.mu.Unlock()
	for i := range posts {
		if posts[i].do == nil {
			r.cfg.Drop(&posts[i].msg)
		}
	}
	r.cfg.Flush()
}

// Stop ends the loop. It does not wait, see Done. It may be called once.
func (r *Runner[M]) Stop() { close(r.stop) }

// Protect runs f and returns its panic. A panic in a critical section, see SetCritical, is not recovered and ends the
// loop: state may be inconsistent. Only functions in the loop may call it.
func (r *Runner[M]) Protect(f func()) (err *rpc.PanicError) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err = &rpc.PanicError{Value: v, Stack: debug.Stack()}
		if r.critical {
			panic(err)
		}
	}()
	f()
	return nil
}

// Do runs f in the loop and waits for it, see Loop.
func (r *Runner[M]) Do(ctx context.Context, f func()) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done := make(chan struct{})
	var panicked *rpc.PanicError
	ended := false // false after a panic of f in a critical section
	result := func() error {
		switch {
		case panicked != nil:
			return panicked
		case !ended:
			return r.ClosedError()
		}
		return nil
	}
	do := func() {
		defer close(done)
		panicked = r.Protect(f)
		ended = true
	}
	if r.enter() {
		if r.turnHere(do); !ended { // the loop ends
			<-r.done
		}
		return result()
	}
	if !r.put(post[M]{do: do}) {
		return r.ClosedError()
	}
	select {
	case <-done:
		return result()
	case <-r.done:
	}
	select {
	case <-done: // f was among the last posts
		return result()
	default:
		return r.ClosedError()
	}
}
