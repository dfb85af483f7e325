package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.millstream.dev/internal/task"
)

// reconnect looks for the scheduler again and tells it, under the same id, what the client
// holds. It returns nil when the client has ended instead.
func (c *Client) reconnect(unsent []outItem, why error) *stream {
	c.mu.Lock()
	limit := c.cfg.Reconnect // Shutdown changes it
	if c.identity.dask() {
		c.forget()
		unsent = nil
	}
	c.mu.Unlock()
	if limit < 0 {
		c.fail(fmt.Errorf("%w: the scheduler at %s is lost: %w", ErrClosed, c.address, why))
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	c.pool.Remove(c.address)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := c.register(ctx)
		if err == nil {
			c.resume(s, unsent)
			c.log.Info("scheduler is back", "scheduler", c.address)
			return s
		}
		if ctx.Err() != nil {
			if c.ctx.Err() == nil {
				c.fail(fmt.Errorf("%w: the scheduler at %s has been lost for %v: %w", ErrClosed, c.address, limit, err))
			}
			return nil
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// forget cancels all futures: a scheduler of Dask's forgets a client whose connection ends.
// The caller holds mu.
func (c *Client) forget() {
	for _, ks := range c.keys {
		c.cancelKey(ks, "scheduler-connection-lost", "the client lost the connection to the scheduler: submit "+
			"the work again")
	}
	c.out, c.queued, c.releasing, c.unordered = nil, 0, c.releasing[:0], nil
	clear(c.graphs)
	if c.space != nil {
		close(c.space)
		c.space = nil
	}
}

// resume queues what a scheduler that may know nothing has to be told: the graphs whose
// tasks have not ended, then what was not sent, then the keys that are wanted. All of it may
// be said twice.
func (c *Client) resume(s *stream, unsent []outItem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.identity.dask() && !c.identity.dask() { // another program took the address over
		c.forget()
		unsent = nil
	}
	c.identity = s.identity
	c.forgetShortages()
	old := append(unsent, c.out...)
	c.out = nil
	queued := make(map[*graphOut]bool)
	for _, it := range old {
		if it.graph != nil {
			queued[it.graph] = true
		}
	}
	var again []*graphOut
	for g := range c.graphs {
		if !queued[g] && g.sealed != nil && g.left > 0 {
			again = append(again, g)
			g.wanted, g.n = nil, 0 // keys that were released since are no longer wanted
		}
	}
	slices.SortFunc(again, func(a, b *graphOut) int { return a.seq - b.seq })
	for _, g := range again {
		c.out = append(c.out, outItem{graph: g})
	}
	c.out = append(c.out, old...)
	var wanted []task.Key
	for k, ks := range c.keys {
		switch g := ks.graph; {
		case g != nil && !queued[g] && g.sealed != nil:
			g.wanted = append(g.wanted, k...)
			g.n++
		case g == nil && ks.status != Canceled:
			wanted = append(wanted, k)
		}
	}
	if len(wanted) > 0 {
		c.say(keysMessage("client-desires-keys", wanted, c.id))
	}
	for topic := range c.events {
		c.say(topicMessage("subscribe-topic", topic))
	}
	c.poke()
}
