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

// ncclPool has the communicators of one session. NCCL wants all operations of a communicator in
// the same order on all ranks, and rounds of tasks have orders of their own: each lane has one
// communicator to itself while it lasts, and the next lane takes it over.
type ncclPool struct {
	device int
	g      *collective.Group // of the session; its failure is theirs

	mu     sync.Mutex // owns what follows
	free   map[uint64]*ncclComm
	all    map[*ncclComm]struct{}
	closed bool
	ending sync.WaitGroup // communicators of sub-cliques on their way out

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

// lookPause is how often communicators with work under way are asked how they are. The deaths
// of ranks do not wait for it: the group tells of them.
const lookPause = 20 * time.Millisecond

// watch aborts everything when the group fails, and the group when NCCL does.
func (p *ncclPool) watch() {
	defer close(p.watched)
	look := time.NewTicker(lookPause)
	defer look.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-p.g.Done():
			p.abort(p.g.Err())
			return
		case <-look.C:
			for _, c := range p.list() {
				if !c.busy() {
					continue
				}
				if err := c.c.Check(); err != nil {
					p.g.Abort(err) // and then p.g.Done
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

// abort ends all communicators with what is under way on them.
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

// close ends the pool; in peace unless the group has failed.
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

// most is how many free communicators a rank offers; there are seldom more than two.
const most = 15

// lease finds a communicator that is free on all ranks of a lane, or makes one. Each rank tells
// what it has, over the lane, and keeps that for the lane until all have told: two lanes never
// wait for each other, at the price of one communicator more than would do.
func (p *ncclPool) lease(ctx context.Context, lane *collective.Group) (*ncclComm, error) {
	offered, err := p.take()
	if err != nil {
		return nil, err
	}
	chosen, err := p.common(ctx, lane, offered)
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
	return p.add(ctx, lane)
}

// take takes up to most of the free ones.
func (p *ncclPool) take() (map[uint64]*ncclComm, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, collective.ErrClosed
	}
	out := map[uint64]*ncclComm{}
	for _, name := range slices.Sorted(maps.Keys(p.free)) {
		if len(out) < most {
			out[name] = p.free[name]
			delete(p.free, name)
		}
	}
	return out, nil
}

// common is what all ranks have offered, nil if there is nothing.
func (p *ncclPool) common(ctx context.Context, lane *collective.Group, offered map[uint64]*ncclComm) (*ncclComm,
	error) {
	const each = 8 * (1 + most) // how many, and their names
	mine := binary.LittleEndian.AppendUint64(make([]byte, 0, each), uint64(len(offered)))
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		mine = binary.LittleEndian.AppendUint64(mine, name)
	}
	all := make([]byte, each*lane.Size())
	if err := lane.Do(ctx, AllGather(Of(mine[:each]), Of(all)).c); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(offered))
	for r := range lane.Size() {
		words := all[r*each:][:each]
		n := min(binary.LittleEndian.Uint64(words), most)
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

// add makes a communicator of a group's ranks.
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

// giveBack ends a lease: the next lane may use it, behind what is under way.
func (p *ncclPool) giveBack(c *ncclComm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.free[c.name] = c
	}
}

// drop ends a communicator of a sub-clique, beside everything else.
func (p *ncclPool) drop(c *ncclComm) {
	p.mu.Lock()
	if _, ok := p.all[c]; !ok || p.closed {
		p.mu.Unlock()
		return // close or abort sees to it
	}
	delete(p.all, c)
	p.ending.Add(1)
	p.mu.Unlock()
	go func() {
		defer p.ending.Done()
		c.close()
	}()
}
