package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.millstream.dev/comm"
)

// PoolConfig describes a pool. Its zero value is Dask's.
type PoolConfig struct {
	// Limit is how many comms may be open at once, to all addresses together (default
	// 512).
	Limit int
	// Idle is how long a comm is kept that nobody uses (default for ever, as Dask does).
	// Unused comms are also closed when others need their place, and within half a minute
	// when the peer has ended them.
	Idle time.Duration
	// Dial says how to connect.
	Dial comm.DialConfig
}

// Pool keeps comms to any number of addresses and calls ops over them. A comm carries one
// call at a time; calls at the same time have a comm each.
//
// All state is guarded by mu; dials, reads and writes happen outside of it.
type Pool struct {
	net comm.Network
	cfg PoolConfig

	mu      sync.Mutex
	peers   map[string]*peer
	open    int       // comms in use or idle, and dials under way
	waiting []*waiter // for a comm, oldest first, of all addresses
	closed  bool
	timer   *time.Timer // closes idle comms; nil when none is set
	stats   PoolStats
	dials   sync.WaitGroup
	closing sync.WaitGroup
}

// peer is what the pool has with one address.
type peer struct {
	address string
	idle    []idleComm             // the one that was used last is at the end
	busy    map[comm.Comm]struct{} // in use
	dials   map[*dialling]struct{} // attempts under way
	wanted  int                    // waiters of this address
}

type idleComm struct {
	c     comm.Comm
	since time.Time
}

// dialling is one attempt to connect. It is nobody's: whoever waits first gets its comm.
type dialling struct{ cancel context.CancelCauseFunc }

// waiter is a call that has no comm yet. got is filled once, by whoever serves it.
type waiter struct {
	peer *peer
	got  chan taking // buffered
}

type taking struct {
	c     comm.Comm
	reuse bool // it has carried calls before
	err   error
}

// PoolStats are counts of a pool.
type PoolStats struct {
	// Open comms and dials, Active in use, Idle, Dialling and Waiting are of now.
	Open, Active, Idle, Dialling, Waiting int
	// Dials and Reuses are of the pool's life, and so are Collected, comms that were
	// closed to make place or for age.
	Dials, Reuses, Collected int64
}

// NewPool makes a pool on a network: comm.Default, or a host of a simulated one.
func NewPool(n comm.Network, cfg PoolConfig) *Pool {
	cfg.Limit = cmp.Or(max(cfg.Limit, 0), 512)
	return &Pool{net: n, cfg: cfg, peers: map[string]*peer{}}
}

func (p *Pool) peer(address string) *peer {
	x := p.peers[address]
	if x == nil {
		x = &peer{address: address, busy: map[comm.Comm]struct{}{}, dials: map[*dialling]struct{}{}}
		p.peers[address] = x
	}
	return x
}

// forget drops a peer that the pool has nothing with, so that the table does not grow with
// every address ever called.
func (p *Pool) forget(x *peer) {
	if len(x.idle) == 0 && len(x.busy) == 0 && len(x.dials) == 0 && x.wanted == 0 && p.peers[x.address] == x {
		delete(p.peers, x.address)
	}
}

// Acquire returns a comm of the pool for the use of the caller alone, who gives it back
// with Release.
func (p *Pool) Acquire(ctx context.Context, address string) (comm.Comm, error) {
	t, err := p.acquire(ctx, address, false)
	return t.c, err
}

func (p *Pool) acquire(ctx context.Context, address string, fresh bool) (taking, error) {
	if err := ctx.Err(); err != nil {
		return taking{}, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return taking{}, fmt.Errorf("%w: pool", ErrClosed)
	}
	x := p.peer(address)
	if fresh {
		// What is left of the idle ones is as old as the one that failed.
		for len(x.idle) > 0 {
			p.closeIdle(x, 0)
		}
		x = p.peer(address) // which closeIdle may have forgotten
	}
	for len(x.idle) > 0 {
		last := len(x.idle) - 1
		c := x.idle[last].c
		x.idle = x.idle[:last]
		if c.Err() != nil {
			p.discard(c)
			continue
		}
		x.busy[c] = struct{}{}
		p.stats.Reuses++
		p.mu.Unlock()
		return taking{c: c, reuse: true}, nil
	}
	w := &waiter{peer: x, got: make(chan taking, 1)}
	x.wanted++
	p.waiting = append(p.waiting, w)
	p.serve()
	p.mu.Unlock()

	select {
	case t := <-w.got:
		return t, t.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	if i := slices.Index(p.waiting, w); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		x.wanted--
		// Nobody has a use for more dials than there are waiters.
		for d := range x.dials {
			if len(x.dials) <= x.wanted {
				break
			}
			delete(x.dials, d)
			d.cancel(fmt.Errorf("rpc: the call was given up: %w", context.Cause(ctx)))
			p.open--
		}
		p.forget(x)
		p.serve()
		p.mu.Unlock()
		return taking{}, ctx.Err()
	}
	p.mu.Unlock()
	// It was served at the same moment.
	if t := <-w.got; t.err == nil {
		p.Release(address, t.c)
	}
	return taking{}, ctx.Err()
}

// serve begins dials for those who wait, as far as the limit allows, and makes place by
// closing idle comms. The caller holds mu.
func (p *Pool) serve() {
	if p.closed {
		return
	}
	need := map[*peer]int{}
	for _, w := range p.waiting {
		need[w.peer]++
		if need[w.peer] <= len(w.peer.dials) {
			continue // a dial of this address is under way for it
		}
		if p.open >= p.cfg.Limit && !p.collectOne() {
			return
		}
		p.dial(w.peer)
	}
}

// collectOne closes the comm that has been idle for longest. The caller holds mu.
func (p *Pool) collectOne() bool {
	var oldest *peer
	for _, x := range p.peers {
		if len(x.idle) > 0 && (oldest == nil || x.idle[0].since.Before(oldest.idle[0].since)) {
			oldest = x
		}
	}
	if oldest == nil {
		return false
	}
	p.closeIdle(oldest, 0)
	return true
}

func (p *Pool) closeIdle(x *peer, i int) {
	c := x.idle[i].c
	x.idle = slices.Delete(x.idle, i, i+1)
	p.stats.Collected++
	p.discard(c)
	p.forget(x)
}

// discard frees a comm that the pool has no more use for, also one that has ended: its
// socket stays open until this side closes it. The caller holds mu.
func (p *Pool) discard(c comm.Comm) {
	p.open--
	p.closing.Add(1)
	go func() {
		defer p.closing.Done()
		_ = c.Close() // which may take a second
	}()
}

// dial begins one attempt. The caller holds mu.
func (p *Pool) dial(x *peer) {
	ctx, cancel := context.WithCancelCause(context.Background())
	d := &dialling{cancel}
	x.dials[d] = struct{}{}
	p.open++
	p.stats.Dials++
	p.dials.Add(1)
	go func() {
		defer p.dials.Done()
		c, err := p.net.Dial(ctx, x.address, p.cfg.Dial)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		p.mu.Lock()
		_, live := x.dials[d]
		if !live { // Remove, Close or its waiter has given it up, and counted it out
			p.mu.Unlock()
			if err == nil {
				c.Abort()
			}
			return
		}
		delete(x.dials, d)
		if err == nil {
			p.put(x, c, false)
			p.mu.Unlock()
			return
		}
		p.open--
		if w := p.first(x); w != nil {
			w.got <- taking{err: err}
		}
		p.forget(x)
		p.serve()
		p.mu.Unlock()
	}()
}

// first takes the oldest waiter of an address out of the queue.
func (p *Pool) first(x *peer) *waiter {
	for i, w := range p.waiting {
		if w.peer == x {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			x.wanted--
			return w
		}
	}
	return nil
}

// put hands a comm that counts as open to who waits for it, else to the idle ones. The
// caller holds mu.
func (p *Pool) put(x *peer, c comm.Comm, used bool) {
	if w := p.first(x); w != nil {
		x.busy[c] = struct{}{}
		if used {
			p.stats.Reuses++
		}
		w.got <- taking{c: c, reuse: used}
		return
	}
	x.idle = append(x.idle, idleComm{c, time.Now()})
	p.serve() // others may wait for a place
	p.watch()
}

// Release gives a comm back that Acquire returned. One that has ended, or that the pool no
// longer wants, is closed. A comm in the middle of a conversation must be aborted first.
func (p *Pool) Release(address string, c comm.Comm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.peers[address]
	mine := false
	if x != nil {
		_, mine = x.busy[c]
	}
	if !mine { // Remove and Close have closed it
		return
	}
	delete(x.busy, c)
	if p.closed || c.Err() != nil {
		p.discard(c)
		p.forget(x)
		p.serve()
		return
	}
	p.put(x, c, true)
}

// Remove closes all comms to an address, those in use too, and gives up its dials: who
// waits for them gets an error that wraps comm.ErrClosed.
func (p *Pool) Remove(address string) {
	p.mu.Lock()
	x := p.peers[address]
	if x == nil {
		p.mu.Unlock()
		return
	}
	err := fmt.Errorf("rpc: pool: %s was removed: %w", address, comm.ErrClosed)
	comms := p.drop(x, err)
	p.serve()
	p.mu.Unlock()
	closeAll(comms)
}

// drop takes everything of a peer out of the pool and returns its comms. The caller holds
// mu.
func (p *Pool) drop(x *peer, err error) []comm.Comm {
	var comms []comm.Comm
	for _, i := range x.idle {
		comms = append(comms, i.c)
	}
	for c := range x.busy {
		comms = append(comms, c)
	}
	for d := range x.dials {
		d.cancel(err)
	}
	p.open -= len(comms) + len(x.dials)
	x.idle = nil
	clear(x.busy)
	clear(x.dials)
	for w := p.first(x); w != nil; w = p.first(x) {
		w.got <- taking{err: err}
	}
	delete(p.peers, x.address)
	return comms
}

func closeAll(comms []comm.Comm) {
	var all sync.WaitGroup
	for _, c := range comms {
		all.Go(func() { _ = c.Close() })
	}
	all.Wait()
}

// Collect closes all comms that nobody uses.
func (p *Pool) Collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.collectOne() {
	}
}

// endedTime is how often idle comms are looked at that the peer may have ended.
const endedTime = 30 * time.Second

// watch sets the timer that closes idle comms, for age or because the peer has ended them.
// The caller holds mu.
func (p *Pool) watch() {
	if p.timer != nil || p.closed {
		return
	}
	wait := endedTime
	if p.cfg.Idle > 0 {
		wait = min(wait, p.cfg.Idle)
	}
	p.timer = time.AfterFunc(wait, p.sweep)
}

func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.closed {
		return
	}
	limit := time.Now().Add(-p.cfg.Idle)
	left := false
	for _, x := range p.peers {
		for i := len(x.idle) - 1; i >= 0; i-- {
			if x.idle[i].c.Err() != nil || p.cfg.Idle > 0 && !x.idle[i].since.After(limit) {
				p.closeIdle(x, i)
			}
		}
		left = left || len(x.idle) > 0
	}
	p.serve()
	if left {
		p.watch()
	}
}

// Stats returns the counts.
func (p *Pool) Stats() PoolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Waiting = p.open, len(p.waiting)
	for _, x := range p.peers {
		s.Active += len(x.busy)
		s.Idle += len(x.idle)
		s.Dialling += len(x.dials)
	}
	return s
}

// Close closes all comms, those in use too, and waits for dials to end. It is idempotent.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	var comms []comm.Comm
	err := fmt.Errorf("rpc: pool: %w", errors.Join(ErrClosed, comm.ErrClosed))
	for _, x := range p.peers {
		comms = append(comms, p.drop(x, err)...)
	}
	p.mu.Unlock()
	closeAll(comms)
	p.dials.Wait()
	p.closing.Wait()
	return nil
}
