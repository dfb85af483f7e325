package pyproc

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// PoolConfig configures a pool of children that each serve one owner.
type PoolConfig struct {
	Config
	// Size is the maximum number of children (default: the number of CPUs, at least 2).
	Size int
	// Max is the maximum if all children are in use for long: an owner that has waited for SurgeAfter (default 2 s)
	// gets an additional child (default 4 × Size). A single owner cannot use Size of them, so that one with many long
	// requests does not block the others.
	Max        int
	SurgeAfter time.Duration
	// Idle is how long an idle child is kept for its owner (default 1 min).
	Idle time.Duration
	// Setup is called with each new child before it is used; an error ends the child.
	Setup func(ctx context.Context, p *Process) error
	// NoSpare disables the child that is started in advance for the next owner.
	NoSpare bool
	// SpareAfter is the time after the last acquisition at which that child is started (default 10 s): a new owner has
	// work to do, and a start uses half a second of CPU time.
	SpareAfter time.Duration
}

// Pool manages children that each belong to one owner: no owner can access what a child has seen of another owner.
type Pool struct {
	cfg    PoolConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	all        []*pooled     // guarded by mu
	freed      chan struct{} // closed and replaced when a place may be free; guarded by mu
	spareTimer *time.Timer   // starts the next spare child; nil before the first acquisition; guarded by mu
}

// pooled is a child of a pool, or the place for one that is starting. The lock of the pool guards it.
type pooled struct {
	owner string // "" for the spare child
	p     *Process
	busy  bool // in use, or starting
	timer *time.Timer
	// starting is set for a spare child that is being started, and closed when the start has succeeded or failed. An
	// owner that needs the child meanwhile takes it over and waits.
	starting chan struct{}
}

// NewPool returns a pool without children.
func NewPool(cfg PoolConfig) *Pool {
	cfg.Size = cmp.Or(cfg.Size, max(runtime.GOMAXPROCS(0), 2))
	cfg.Max = max(cmp.Or(cfg.Max, 4*cfg.Size), cfg.Size)
	cfg.SurgeAfter = cmp.Or(cfg.SurgeAfter, 2*time.Second)
	cfg.Idle = cmp.Or(cfg.Idle, time.Minute)
	cfg.SpareAfter = cmp.Or(cfg.SpareAfter, 10*time.Second)
	p := &Pool{cfg: cfg, freed: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Acquire returns a child that only owner has used and that is not in use. release returns it to the pool and must be
// called once. If all places are taken, Acquire replaces an idle child, or waits.
func (l *Pool) Acquire(ctx context.Context, owner string) (p *Process, release func(), err error) {
	surge := false
	var patience <-chan time.Time
	for {
		c, freed, err := l.take(owner, surge)
		if err != nil {
			return nil, nil, err
		}
		if c == nil {
			if patience == nil {
				timer := time.NewTimer(l.cfg.SurgeAfter)
				defer timer.Stop()
				patience = timer.C
			}
			select {
			case <-freed:
				continue
			case <-patience:
				surge = true
				continue
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
		if ok, err := l.awaitStart(ctx, c); err != nil {
			return nil, nil, err
		} else if !ok {
			continue
		}
		if c.p == nil {
			p, err := l.start(ctx)
			if err != nil {
				l.drop(c)
				return nil, nil, err
			}
			l.put(c, p)
		} else if c.p.Err() != nil { // it has ended while it was idle
			l.drop(c)
			continue
		}
		l.spareLater()
		return c.p, func() { l.putBack(c) }, nil
	}
}

// AcquireIdle is Acquire for work that could be done elsewhere: it returns a running child of the owner that is not in
// use, or nil.
func (l *Pool) AcquireIdle(owner string) (p *Process, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		if !c.busy && c.owner == owner && c.p.Err() == nil {
			c.use()
			return c.p, func() { l.putBack(c) }
		}
	}
	return nil, nil
}

func (l *Pool) start(ctx context.Context) (*Process, error) {
	p, err := Start(ctx, l.cfg.Config)
	if err == nil && l.cfg.Setup != nil {
		if err = l.cfg.Setup(ctx, p); err != nil {
			_ = p.Close()
		}
	}
	return p, err
}

// Current returns the running children, in use or not.
func (l *Pool) Current() []*Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*Process
	for _, c := range l.all {
		if c.p != nil {
			out = append(out, c.p)
		}
	}
	return out
}

// take assigns a child to the owner and returns it, or a place at which to start one; or nil and a channel to wait for.
// surge allows more than Size of them.
func (l *Pool) take(owner string, surge bool) (*pooled, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	var spare, coming, idle *pooled
	owned := 0
	for _, c := range l.all {
		if c.owner == owner {
			owned++
		}
		switch {
		case c.busy && c.owner == "":
			coming = c
		case c.busy:
		case c.owner == owner:
			c.use()
			return c, nil, nil
		case c.owner == "":
			spare = c
		case idle == nil:
			idle = c // idle for the longest time: putBack appends at the end
		}
	}
	if spare = cmp.Or(spare, coming); spare != nil {
		spare.owner = owner
		spare.use()
		return spare, nil, nil
	}
	if len(l.all) >= l.cfg.Size {
		switch {
		case idle != nil:
			l.remove(idle)
		case !surge || len(l.all) >= l.cfg.Max || owned >= max(l.cfg.Max-l.cfg.Size, 1):
			return nil, l.freed, nil
		}
	}
	c := &pooled{owner: owner, busy: true}
	l.all = append(l.all, c)
	return c, nil, nil
}

func (c *pooled) use() {
	c.busy = true
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// put sets the started child of a place. It ends the child if the pool was closed in the meantime.
func (l *Pool) put(c *pooled, p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.p = p
	if l.ctx.Err() != nil {
		p.Kill(ErrClosed)
	}
}

// putBack returns a child to the pool.
func (l *Pool) putBack(c *pooled) {
	if c.p.Err() != nil {
		l.drop(c)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.busy = false
	i := slices.Index(l.all, c)
	if i < 0 { // the pool is closed
		return
	}
	if len(l.all) > l.cfg.Size {
		l.remove(c)
		return
	}
	l.all = append(slices.Delete(l.all, i, i+1), c)
	c.timer = time.AfterFunc(l.cfg.Idle, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !c.busy && slices.Contains(l.all, c) {
			l.remove(c)
		}
	})
	l.wake()
}

// drop removes a place whose child has ended or did not start.
func (l *Pool) drop(c *pooled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.all, c) {
		l.remove(c)
	}
}

// remove ends a child and frees its place, without waiting for its end. The caller holds the lock.
func (l *Pool) remove(c *pooled) {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.p != nil {
		c.p.Kill(errIdle)
	}
	i := slices.Index(l.all, c)
	l.all = slices.Delete(l.all, i, i+1)
	l.wake()
}

func (l *Pool) wake() {
	close(l.freed)
	l.freed = make(chan struct{})
}

// awaitStart waits for a child that was taken over while it was starting. It reports whether there is a child to use,
// or a place at which to start one.
func (l *Pool) awaitStart(ctx context.Context, c *pooled) (bool, error) {
	l.mu.Lock()
	starting := c.starting
	l.mu.Unlock()
	if starting == nil {
		return true, nil
	}
	select {
	case <-starting:
		l.mu.Lock()
		defer l.mu.Unlock()
		c.starting = nil
		return c.p != nil, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.owner = "" // spare again
	select {
	case <-starting:
		c.starting, c.busy = nil, false
		l.wake()
	default:
	}
	return false, ctx.Err()
}

// spareLater starts a spare child when no owner has acquired one for a while.
func (l *Pool) spareLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.NoSpare || l.ctx.Err() != nil:
	case l.spareTimer == nil:
		l.spareTimer = time.AfterFunc(l.cfg.SpareAfter, l.Spare)
	default:
		l.spareTimer.Reset(l.cfg.SpareAfter)
	}
}

// Spare starts a child for the next owner if there is none, because a start takes long: it imports Dask. It does not
// wait for the start.
func (l *Pool) Spare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.NoSpare || l.ctx.Err() != nil || len(l.all) >= l.cfg.Size ||
		slices.ContainsFunc(l.all, func(c *pooled) bool { return c.owner == "" }) {
		return
	}
	c := &pooled{busy: true, starting: make(chan struct{})}
	l.all = append(l.all, c)
	l.wg.Go(func() {
		defer close(c.starting) // the field is set to nil only after it was closed
		p, err := l.start(l.ctx)
		if err != nil {
			l.drop(c) // the next owner starts a child and receives the error
			return
		}
		l.put(c, p)
		l.mu.Lock()
		defer l.mu.Unlock()
		if c.owner == "" {
			c.busy, c.starting = false, nil
			l.wake()
		}
	})
}

// Close ends all children and waits for them. Calls of current users fail.
func (l *Pool) Close() error {
	l.mu.Lock()
	l.cancel() // with the lock held: nothing is added to wg afterwards
	if l.spareTimer != nil {
		l.spareTimer.Stop()
	}
	l.mu.Unlock()
	l.wg.Wait()
	l.mu.Lock()
	all := l.all
	l.all = nil
	for _, c := range all {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	l.wake()
	l.mu.Unlock()
	for _, c := range all {
		l.mu.Lock()
		p := c.p
		l.mu.Unlock()
		if p != nil {
			_ = p.Close()
		}
	}
	return nil
}
