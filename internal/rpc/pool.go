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

// PoolConfig configures a pool. Its zero value has Dask's defaults.
type PoolConfig struct {
	// Limit is the maximum number of open comms, to all addresses together (default 512).
	Limit int
	// Idle is how long an unused comm is kept (default forever, as in Dask). Unused comms are also closed when others
	// need their place, and within half a minute after the peer has closed them.
	Idle time.Duration
	// Dial configures the connections.
	Dial comm.DialConfig
}

// Pool keeps comms to any number of addresses and calls ops over them. A comm carries one call at a time; concurrent
// calls have a comm each.
//
// All state is guarded by mu; dials, reads and writes happen without it.
type Pool struct {
	net comm.Network
	cfg PoolConfig

	mu      sync.Mutex
	peers   map[string]*peer
	open    int       // comms in use or idle, and dials in progress
	waiting []*waiter // for a comm, oldest first, of all addresses
	closed  bool
	timer   *time.Timer // closes idle comms; nil when none is set
	stats   PoolStats
	dials   sync.WaitGroup
	closing sync.WaitGroup
}

// peer is the state of the pool for one address.
type peer struct {
	address string
	idle    []idleComm             // the one that was used last is at the end
	busy    map[comm.Comm]struct{} // in use
	dials   map[*dialing]struct{}  // attempts in progress
	wanted  int                    // waiters of this address
}

type idleComm struct {
	c     comm.Comm
	since time.Time
}

// dialing is one attempt to connect. It belongs to no call: the first waiter gets its comm.
type dialing struct{ cancel context.CancelCauseFunc }

// waiter is a call without a comm. got is filled once, when it is served.
type waiter struct {
	peer *peer
	got  chan taking // buffered
}

type taking struct {
	c     comm.Comm
	reuse bool // it has been used before
	err   error
}

// PoolStats are statistics of a pool.
type PoolStats struct {
	// Open (comms and dials), Active (in use), Idle, Dialling and Waiting are current numbers.
	Open, Active, Idle, Dialling, Waiting int
	// Dials and Reuses are totals, and so is Collected, the number of comms closed to make room or because of their
	// age.
	Dials, Reuses, Collected int64
}

// NewPool returns a pool on a network: comm.Default, or a host of a simulated one.
func NewPool(n comm.Network, cfg PoolConfig) *Pool {
	cfg.Limit = cmp.Or(max(cfg.Limit, 0), 512)
	return &Pool{net: n, cfg: cfg, peers: map[string]*peer{}}
}

func (p *Pool) peer(address string) *peer {
	x := p.peers[address]
	if x == nil {
		x = &peer{address: address, busy: map[comm.Comm]struct{}{}, dials: map[*dialing]struct{}{}}
		p.peers[address] = x
	}
	return x
}

// forget removes a peer without state, so that the table does not grow with every address ever called.
func (p *Pool) forget(x *peer) {
	if len(x.idle) == 0 && len(x.busy) == 0 && len(x.dials) == 0 && x.wanted == 0 && p.peers[x.address] == x {
		delete(p.peers, x.address)
	}
}

// Acquire returns a comm of the pool for exclusive use by the caller, who returns it with Release.
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
		// The remaining idle comms are as old as the one that failed.
		for len(x.idle) > 0 {
			p.closeIdle(x, 0)
		}
		x = p.peer(address) // closeIdle may have removed it
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
		// More dials than waiters are not needed.
		for d := range x.dials {
			if len(x.dials) <= x.wanted {
				break
			}
			delete(x.dials, d)
			d.cancel(fmt.Errorf("rpc: call canceled: %w", context.Cause(ctx)))
			p.open--
		}
		p.forget(x)
		p.serve()
		p.mu.Unlock()
		return taking{}, ctx.Err()
	}
	p.mu.Unlock()
	// The waiter was served at the same time.
	if t := <-w.got; t.err == nil {
		p.Release(address, t.c)
	}
	return taking{}, ctx.Err()
}

// serve starts dials for waiters, up to the limit, and makes room by closing idle comms. The caller holds mu.
func (p *Pool) serve() {
	if p.closed {
		return
	}
	need := map[*peer]int{}
	for _, w := range p.waiting {
		need[w.peer]++
		if need[w.peer] <= len(w.peer.dials) {
			continue // a dial of this address is in progress
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

// discard closes a comm that the pool no longer uses, also one that has ended: its socket stays open until this side
// closes it. The caller holds mu.
func (p *Pool) discard(c comm.Comm) {
	p.open--
	p.closing.Add(1)
	go func() {
		defer p.closing.Done()
		_ = c.Close() // may take a second
	}()
}

// dial starts one attempt. The caller holds mu.
func (p *Pool) dial(x *peer) {
	ctx, cancel := context.WithCancelCause(context.Background())
	d := &dialing{cancel}
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
		if !live { // canceled and uncounted by Remove, Close or its waiter
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

// first removes the oldest waiter of an address from the queue.
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

// put passes a comm that counts as open to a waiter, or adds it to the idle ones. The caller holds mu.
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
	p.serve() // others may wait for room
	p.watch()
}

// Release returns a comm of Acquire. It is closed if it has ended, or if the pool no longer needs it. A comm in the
// middle of an exchange must be aborted first.
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

// Remove closes all comms to an address, also those in use, and cancels its dials: their waiters get an error that
// wraps comm.ErrClosed.
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

// drop removes a peer from the pool and returns its comms. The caller holds mu.
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

// Collect closes all unused comms.
func (p *Pool) Collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.collectOne() {
	}
}

// endedTime is the interval at which idle comms are checked for a close by the peer.
const endedTime = 30 * time.Second

// watch sets the timer that closes idle comms, because of their age or because the peer has closed them. The caller
// holds mu.
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

// Stats returns the statistics.
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

// Close closes all comms, also those in use, and waits for dials to end. It is idempotent.
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
