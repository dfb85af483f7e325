package pyproc

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// PoolConfig describes children that each serve one owner.
type PoolConfig struct {
	Config
	// Size is how many may be there at once (default the number of CPUs, at least 2).
	Size int
	// Max is how many may be there when all are in use for long: an owner that has waited for SurgeAfter (default 2 s)
	// gets one more (default 4 × Size). Size of them are out of reach for any single owner, so that one with many
	// requests that take long does not keep the others out.
	Max        int
	SurgeAfter time.Duration
	// Idle is how long a child without work is kept for its owner (default 1 min).
	Idle time.Duration
	// Setup is called with each new child before anybody gets it; an error ends the child.
	Setup func(ctx context.Context, p *Process) error
	// NoSpare does not start a child ahead of the next owner's first need.
	NoSpare bool
	// SpareAfter is how long after the last acquisition that is (default 10 s): an owner that
	// has come has work to do, and a start takes half a second of a processor from it.
	SpareAfter time.Duration
}

// Pool keeps children of which each belongs to one owner: what it has seen of one is
// never within reach of another.
type Pool struct {
	cfg    PoolConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	all   []*lent       // guarded by mu
	freed chan struct{} // closed and made anew when a place may have become free; guarded by mu
	later *time.Timer   // starts the next spare one; nil before the first acquisition; guarded by mu
}

// lent is one child of a pool, or the place for one that is starting. The pool's lock
// owns it.
type lent struct {
	owner string // "" for the spare one
	p     *Process
	busy  bool // in use, or starting
	timer *time.Timer
	// starting, of a spare one that is being started, is closed when that has ended, well or
	// not. Who needs it meanwhile takes it over and waits.
	starting chan struct{}
}

// NewPool starts nothing yet.
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

// Acquire returns a child that only owner has used and that is not in use. release returns
// it to the pool and must be called once. When all places are taken, Acquire takes that of a
// child without work, or waits.
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
		if ok, err := l.arrived(ctx, c); err != nil {
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
		} else if c.p.Err() != nil { // it died while nobody looked
			l.drop(c)
			continue
		}
		l.spareLater()
		return c.p, func() { l.give(c) }, nil
	}
}

// AcquireIdle is Acquire for work that could be done elsewhere: it returns a child only if
// the owner has one that runs and that nobody uses now, and else nil.
func (l *Pool) AcquireIdle(owner string) (p *Process, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.all {
		if !c.busy && c.owner == owner && c.p.Err() == nil {
			c.use()
			return c.p, func() { l.give(c) }
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

// Current are the children that run now, in use or not.
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

// take returns a child that is now the owner's, perhaps one that has yet to be started;
// or nil and what to wait for. surge allows more than Size of them.
func (l *Pool) take(owner string, surge bool) (*lent, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	var spare, coming, idle *lent
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
			idle = c // the one that has waited longest: give puts them at the end
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
	c := &lent{owner: owner, busy: true}
	l.all = append(l.all, c)
	return c, nil, nil
}

func (c *lent) use() {
	c.busy = true
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// put sets the child that has been started for a place. A pool that was closed meanwhile
// ends it.
func (l *Pool) put(c *lent, p *Process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.p = p
	if l.ctx.Err() != nil {
		p.Kill(ErrClosed)
	}
}

// give takes a child back.
func (l *Pool) give(c *lent) {
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

// drop forgets a place whose child is gone or did not come.
func (l *Pool) drop(c *lent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.all, c) {
		l.remove(c)
	}
}

// remove ends a child and frees its place. The lock is held; the end is not waited for.
func (l *Pool) remove(c *lent) {
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

// arrived waits for a child that was taken over while it was being started. It reports
// whether there is one to use, or a place to start one at.
func (l *Pool) arrived(ctx context.Context, c *lent) (bool, error) {
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
	c.owner = "" // it is for the next one again
	select {
	case <-starting:
		c.starting, c.busy = nil, false
		l.wake()
	default:
	}
	return false, ctx.Err()
}

// spareLater starts a spare child when nobody has come for a while.
func (l *Pool) spareLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.NoSpare || l.ctx.Err() != nil:
	case l.later == nil:
		l.later = time.AfterFunc(l.cfg.SpareAfter, l.Spare)
	default:
		l.later.Reset(l.cfg.SpareAfter)
	}
}

// Spare starts a child for the next owner, if there is none: a start takes long, since Dask is
// imported. It does not wait for it.
func (l *Pool) Spare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.NoSpare || l.ctx.Err() != nil || len(l.all) >= l.cfg.Size ||
		slices.ContainsFunc(l.all, func(c *lent) bool { return c.owner == "" }) {
		return
	}
	c := &lent{busy: true, starting: make(chan struct{})}
	l.all = append(l.all, c)
	l.wg.Go(func() {
		defer close(c.starting) // the field is nil only for those who have seen it closed
		p, err := l.start(l.ctx)
		if err != nil {
			l.drop(c) // whoever needs one starts it anew, and is told
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

// Close ends all children and waits. Who still uses one sees its end.
func (l *Pool) Close() error {
	l.mu.Lock()
	l.cancel() // under the lock: nothing is added to wg after it
	if l.later != nil {
		l.later.Stop()
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
