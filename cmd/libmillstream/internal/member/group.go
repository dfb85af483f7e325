package member

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/clique"
)

// group has the operations between GroupStart and GroupEnd.
type group struct {
	mu      sync.Mutex // guards the fields below; held while an operation starts
	depth   int
	ctx     context.Context
	cancel  context.CancelFunc
	pending []*Request
}

// GroupStart makes Do start operations without waiting for them, until GroupEnd. Groups may be nested.
func (m *Member) GroupStart() error {
	if _, err := m.Rank(); err != nil {
		return err
	}
	g := &m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.depth == 0 {
		g.ctx, g.cancel = m.bounded()
	}
	g.depth++
	return nil
}

// addToGroup starts an operation if a group is open, and reports whether it did.
func (m *Member) addToGroup(r *clique.Rank, o *Operation) (bool, error) {
	g := &m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.depth == 0 {
		return false, nil
	}
	c, u, err := m.call(r, o)
	if err != nil {
		return false, err
	}
	g.pending = append(g.pending, &Request{r.Start(g.ctx, c), u})
	return true, nil
}

// GroupEnd waits for the operations since the outermost GroupStart, and returns the first error.
func (m *Member) GroupEnd() error {
	g := &m.group
	g.mu.Lock()
	if g.depth == 0 {
		g.mu.Unlock()
		return fmt.Errorf("member: %w: end of a group that was not started", ErrInvalid)
	}
	g.depth--
	if g.depth > 0 {
		g.mu.Unlock()
		return nil
	}
	return g.end()
}

// end waits for the operations of the group. The caller has locked it.
func (g *group) end() error {
	pending, cancel := g.pending, g.cancel
	g.depth, g.pending, g.cancel = 0, nil, nil
	g.mu.Unlock()
	if cancel != nil {
		defer cancel()
	}
	return waitAll(pending)
}

// waitAll waits for requests, whose contexts bound them, and returns the first error.
func waitAll(list []*Request) (first error) {
	for _, q := range list {
		<-q.Done()
		if err := q.Finish(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Message is one message of Multicast: a part of a buffer, by numbers of elements, to or from a rank.
type Message struct {
	Base          uintptr
	Offset, Count uint64
	Rank          int
}

// Multicast sends messages to several ranks and receives others from several ranks at once, with the kind of elements,
// the tag, the memory and the stream of o. Received messages must have the expected length.
func (m *Member) Multicast(o Operation, to, from []Message) error {
	r, err := m.Rank()
	if err != nil {
		return err
	}
	type prepared struct {
		c clique.Call
		u *use
	}
	var list []prepared
	n := make([]int, len(from))
	release := func() {
		for _, p := range list {
			p.u.release()
		}
	}
	size := uint64(max(o.Kind.Size(), 1))
	for i, x := range append(append([]Message(nil), from...), to...) {
		c := o
		c.Code, c.Count, c.Peer = Send, x.Count, x.Rank
		at := x.Base + uintptr(x.Offset*size)
		if i < len(from) {
			c.Code, c.Recv = Recv, at
		} else {
			c.Send = at
		}
		if x.Rank < 0 || x.Rank >= r.Size() {
			err = fmt.Errorf("member: multicast: %w: no rank %d of %d", ErrInvalid, x.Rank, r.Size())
		}
		var p prepared
		if err == nil {
			p.c, p.u, err = m.call(r, &c)
		}
		if err != nil {
			release()
			return err
		}
		if i < len(from) {
			p.c = p.c.WithLen(&n[i])
		}
		list = append(list, p)
	}
	ctx, cancel := m.bounded()
	defer cancel()
	requests := make([]*Request, len(list))
	for i, p := range list {
		requests[i] = &Request{r.Start(ctx, p.c), p.u}
	}
	errs := []error{waitAll(requests)}
	for i, x := range from {
		if errs[0] == nil && uint64(n[i]) != x.Count {
			errs = append(errs, fmt.Errorf("member: multicast: rank %d has sent %d elements, want %d", x.Rank, n[i],
				x.Count))
		}
	}
	return errors.Join(errs...)
}
