package clique

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"time"

	"go.millstream.dev/internal/collective"
)

// ncclPool has the communicators of one session. NCCL requires the same order of operations on all ranks of a
// communicator, and rounds of tasks have different orders: each round uses one communicator exclusively until it ends.
type ncclPool struct {
	device int
	g      *collective.Group // of the session; its failure ends the pool

	mu     sync.Mutex // guards the fields below
	free   map[uint64]*ncclComm
	all    map[*ncclComm]struct{}
	closed bool
	ending sync.WaitGroup // communicators of sub-cliques that are being closed

	stop    chan struct{}
	watched chan struct{}
}

func newNCCLPool(ctx context.Context, g *collective.Group, device int) (*ncclPool, error) {
	first, err := newNCCLComm(ctx, g, device)
	if err != nil {
		return nil, err
	}
	p := &ncclPool{device: device, g: g, free: map[uint64]*ncclComm{first.name: first},
		all:  map[*ncclComm]struct{}{first: {}},
		stop: make(chan struct{}), watched: make(chan struct{})}
	go p.watch()
	return p, nil
}

// checkPause is how often communicators with operations in flight are checked. The loss of a rank is reported earlier,
// by the group.
const checkPause = 20 * time.Millisecond

// watch aborts all communicators when the group fails, and the group when NCCL fails.
func (p *ncclPool) watch() {
	defer close(p.watched)
	check := time.NewTicker(checkPause)
	defer check.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.g.Done():
			p.abort(p.g.Err())
			return
		case <-check.C:
			for _, c := range p.list() {
				if !c.busy() {
					continue
				}
				if err := c.c.Check(); err != nil {
					p.g.Abort(err) // closes p.g.Done
				}
			}
		}
	}
}

func (p *ncclPool) list() []*ncclComm {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.all))
}

// abort aborts all communicators.
func (p *ncclPool) abort(why error) {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range p.list() {
		all.Go(func() { c.abort(why) })
	}
	all.Wait()
}

// close closes the pool. It aborts the communicators if the group has failed.
func (p *ncclPool) close() {
	close(p.stop)
	<-p.watched
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ending.Wait()
	failed := p.g.Err()
	var all sync.WaitGroup
	for _, c := range p.list() {
		all.Go(func() {
			if failed != nil {
				c.abort(failed)
				return
			}
			c.close()
		})
	}
	all.Wait()
}

// maxOffered is the number of free communicators that a rank offers; there are rarely more than two.
const maxOffered = 15

// lease returns a communicator that is free on all ranks of a group, or creates one. The ranks exchange the names of
// their free communicators, which are reserved meanwhile: so two groups never wait for each other, at the cost of
// possibly one more communicator than necessary.
func (p *ncclPool) lease(ctx context.Context, g *collective.Group) (*ncclComm, error) {
	offered, err := p.take()
	if err != nil {
		return nil, err
	}
	chosen, err := p.common(ctx, g, offered)
	p.mu.Lock()
	for name, c := range offered {
		if c != chosen {
			p.free[name] = c
		}
	}
	p.mu.Unlock()
	if chosen != nil || err != nil {
		return chosen, err
	}
	return p.add(ctx, g)
}

// take takes up to maxOffered free communicators.
func (p *ncclPool) take() (map[uint64]*ncclComm, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, collective.ErrClosed
	}
	out := map[uint64]*ncclComm{}
	for _, name := range slices.Sorted(maps.Keys(p.free)) {
		if len(out) < maxOffered {
			out[name] = p.free[name]
			delete(p.free, name)
		}
	}
	return out, nil
}

// common returns a communicator that all ranks have offered, nil if there is none.
func (p *ncclPool) common(ctx context.Context, g *collective.Group, offered map[uint64]*ncclComm) (*ncclComm,
	error) {
	const each = 8 * (1 + maxOffered) // number and names
	mine := binary.LittleEndian.AppendUint64(make([]byte, 0, each), uint64(len(offered)))
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		mine = binary.LittleEndian.AppendUint64(mine, name)
	}
	all := make([]byte, each*g.Size())
	if err := g.Do(ctx, AllGather(Of(mine[:each]), Of(all)).c); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(offered))
	for r := range g.Size() {
		words := all[r*each:][:each]
		n := min(binary.LittleEndian.Uint64(words), maxOffered)
		names = slices.DeleteFunc(names, func(name uint64) bool {
			for i := range n {
				if binary.LittleEndian.Uint64(words[8+8*i:]) == name {
					return false
				}
			}
			return true
		})
	}
	if len(names) == 0 {
		return nil, nil
	}
	return offered[names[0]], nil
}

// add creates a communicator of the ranks of a group.
func (p *ncclPool) add(ctx context.Context, g *collective.Group) (*ncclComm, error) {
	c, err := newNCCLComm(ctx, g, p.device)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.all[c] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		c.abort(collective.ErrClosed)
		return nil, collective.ErrClosed
	}
	return c, nil
}

// release returns a leased communicator to the pool. Operations in flight continue.
func (p *ncclPool) release(c *ncclComm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.free[c.name] = c
	}
}

// drop closes the communicator of a sub-clique in the background.
func (p *ncclPool) drop(c *ncclComm) {
	p.mu.Lock()
	if _, ok := p.all[c]; !ok || p.closed {
		p.mu.Unlock()
		return // close or abort closes it
	}
	delete(p.all, c)
	p.ending.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.ending.Done()
		c.close()
	}()
}
