package client

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// What the client says to the scheduler goes through one queue, in the order in which the
// client's state changed: a key that is released and wanted again must not be released in
// the end. The client's mu owns the queue; the writer, a goroutine, empties it.

// outItem is one message: encoded, or a graph that may still grow.
type outItem struct {
	raw   msgpack.Raw
	graph *graphOut
}

// graphOptions are what update-graph says about all of its tasks. Tasks with equal ones may
// go together.
type graphOptions struct {
	fifo       string
	actors     bool
	submitting task.Key
}

// graphOut is an update-graph: open while it is the last in the queue, so that tasks that
// are submitted one by one travel together, then kept until its tasks have ended in case the
// scheduler has to be told again.
type graphOut struct {
	opts   graphOptions
	seq    int // graphs may refer to earlier ones
	w      task.GraphWriter
	wanted []byte // keys, one behind the other
	n      int    // of them
	left   int    // of them that have not ended
	notes  map[string]int
	sealed *wire.Serialized
	// unordered leaves the order of the tasks to the scheduler.
	unordered bool
	dask      *daskGraph // the sealed graph as Dask's scheduler takes it; nil for one of ours
}

// maxQueued is how many bytes of graphs may wait for the writer. Submitters wait beyond it: a
// scheduler that is slow, or away, must not fill the client's memory.
const maxQueued = 256 << 20

// room waits until there is place in the queue.
func (c *Client) room(ctx context.Context) error {
	for {
		c.mu.Lock()
		if c.closed != nil || c.queued < maxQueued {
			err := c.closed
			c.mu.Unlock()
			return err
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ctx.Done():
		}
	}
}

// growNodes is how many tasks a graph may have and still take more.
const growNodes = 16384

// graphFor returns a graph that tasks with these options can join. The caller holds mu.
func (c *Client) graphFor(opts graphOptions) *graphOut {
	c.flushReleases()
	if n := len(c.out); n > 0 {
		if g := c.out[n-1].graph; g != nil && g.sealed == nil && g.opts == opts && g.w.Len() < growNodes {
			return g
		}
	}
	g := &graphOut{opts: opts}
	c.queue(g)
	return g
}

// queue adds a graph to what is said. The caller holds mu.
func (c *Client) queue(g *graphOut) {
	c.flushReleases()
	c.seq++
	g.seq = c.seq
	c.queued += g.w.Size()
	c.out = append(c.out, outItem{graph: g})
	c.graphs[g] = struct{}{}
}

// annotate adds annotations once.
func (g *graphOut) annotate(a *task.Annotations) int {
	if a.IsZero() {
		return task.None
	}
	text := string(a.Append(nil))
	if i, ok := g.notes[text]; ok {
		return i
	}
	if g.notes == nil {
		g.notes = make(map[string]int)
	}
	i := g.w.Annotations(a)
	g.notes[text] = i
	return i
}

// want adds a key to those that are wanted.
func (g *graphOut) want(ks *keyState) {
	g.wanted = append(g.wanted, ks.key...)
	g.n++
	if ks.graph == nil && !ks.status.ended() {
		ks.graph = g
		g.left++
	}
}

// done notes that a key of the graph has ended.
func (g *graphOut) done(ks *keyState) {
	ks.graph = nil
	g.left--
}

// seal ends the graph: nothing joins it any more. The caller holds the client's mu.
func (c *Client) seal(g *graphOut) error {
	if g.sealed != nil {
		return nil
	}
	g.sealed = g.w.SerializedFor(c.registry())
	g.w = task.GraphWriter{}
	if !c.identity.dask() {
		return nil
	}
	// Dask's scheduler reads graphs one after the other, but in two steps if it has to order
	// the tasks, and in one if not. Behind one that it orders all take two: none overtakes
	// another that it depends on.
	c.unordered = slices.DeleteFunc(c.unordered, func(x *graphOut) bool { return x.left <= 0 })
	if g.unordered {
		c.unordered = append(c.unordered, g)
	}
	var err error
	g.dask, err = newDaskGraph(g.sealed, len(c.unordered) == 0)
	return err
}

// append adds the message of a sealed graph.
func (g *graphOut) append(b *rpc.Batch) {
	expr := g.sealed
	if g.dask != nil {
		expr = g.dask.expr
	}
	b.Begin()
	b.Body = appendField(msgpack.AppendMapHeader(b.Body, 9), "op", "update-graph")
	b.Body = msgpack.AppendString(b.Body, "expr_ser")
	b.Serialized(expr)
	body := msgpack.AppendString(b.Body, "keys")
	if g.dask != nil { // releases before 2025.7 want a set
		body = msgpack.AppendMapHeader(body, 2)
		body = msgpack.AppendString(body, "__Set__")
		body = msgpack.AppendBool(body, true)
		body = msgpack.AppendString(body, "as-list")
	}
	body = msgpack.AppendArrayHeader(body, g.n)
	body = append(body, g.wanted...)
	body = msgpack.AppendString(body, "internal_priority")
	if g.dask != nil && g.dask.priority != nil {
		body = append(body, g.dask.priority...)
	} else {
		body = msgpack.AppendNil(body)
	}
	body = msgpack.AppendString(body, "submitting_task")
	if g.opts.submitting == "" {
		body = msgpack.AppendNil(body)
	} else {
		body = append(body, g.opts.submitting...)
	}
	body = appendField(body, "fifo_timeout", g.opts.fifo)
	body = msgpack.AppendString(body, "actors")
	body = msgpack.AppendBool(body, g.opts.actors)
	b.Body = msgpack.AppendString(body, "annotations")
	switch {
	case g.dask == nil: // they are in the graph
		b.Body = msgpack.AppendMapHeader(b.Body, 0)
	case g.dask.pickled != nil:
		b.Pickled(g.dask.pickled)
	default:
		b.Body = append(b.Body, g.dask.annotations...)
	}
	b.Body = msgpack.AppendString(b.Body, "span_metadata")
	if g.dask != nil {
		b.Pickled(spanMetadata())
		return
	}
	b.Body = msgpack.AppendString(msgpack.AppendMapHeader(b.Body, 1), "collections")
	b.Body = msgpack.AppendArrayHeader(b.Body, 0)
}

func appendField(b []byte, name, value string) []byte {
	return msgpack.AppendString(msgpack.AppendString(b, name), value)
}

// flushReleases turns what was released into a message, before what is said next. The caller
// holds mu.
func (c *Client) flushReleases() {
	if len(c.releasing) == 0 {
		return
	}
	c.out = append(c.out, outItem{raw: keysMessage("client-releases-keys", c.releasing, c.id)})
	c.releasing = c.releasing[:0]
}

// keysMessage is an op about keys.
func keysMessage(op string, keys []task.Key, client string) msgpack.Raw {
	n := 64 + len(client)
	for _, k := range keys {
		n += len(k)
	}
	b := make([]byte, 0, n)
	b = msgpack.AppendMapHeader(b, 3)
	b = appendField(b, "op", op)
	b = msgpack.AppendString(b, "keys")
	b = task.AppendKeys(b, keys)
	return appendField(b, "client", client)
}

// say queues a message. The caller holds mu.
func (c *Client) say(raw msgpack.Raw) {
	c.flushReleases()
	c.out = append(c.out, outItem{raw: raw})
	c.poke()
}

func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// take empties the queue into one message.
func (c *Client) take() ([]outItem, *wire.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushReleases()
	if len(c.out) == 0 {
		return nil, nil
	}
	items := c.out
	c.out, c.queued = nil, 0
	items = slices.DeleteFunc(items, func(it outItem) bool {
		if it.graph == nil {
			return false
		}
		err := c.seal(it.graph)
		if err != nil {
			c.refuse(it.graph, err)
		}
		return err != nil
	})
	if c.space != nil {
		close(c.space)
		c.space = nil
	}
	for g := range c.graphs { // those whose tasks have all ended need not be said again
		if g.left <= 0 && g.sealed != nil {
			delete(c.graphs, g)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return items, encodeItems(items)
}

// refuse ends the keys of a graph that cannot be said. The caller holds mu.
func (c *Client) refuse(g *graphOut, err error) {
	for _, ks := range c.keys {
		if ks.graph == g {
			c.settle(ks, Failed, fmt.Errorf("client: task %s: %w", ks.key, err))
		}
	}
}

// encodeItems makes one message, a list of maps. Its graphs are sealed.
func encodeItems(items []outItem) *wire.Message {
	n := 8
	for _, it := range items {
		n += len(it.raw) + 256
		if it.graph != nil {
			n += len(it.graph.wanted)
		}
	}
	b := rpc.NewBatch(n)
	for _, it := range items {
		if it.graph != nil {
			it.graph.append(b)
		} else {
			b.Begin()
			b.Body = append(b.Body, it.raw...)
		}
	}
	return b.Message()
}

// write sends what is queued, until ctx or the comm ends. It returns what it had taken and
// could not send.
func (c *Client) write(ctx context.Context, s *stream) ([]outItem, error) {
	for {
		items, m := c.take()
		if m == nil {
			if err := c.Err(); err != nil { // all has been said
				return nil, err
			}
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		err := s.comm.Write(ctx, m)
		m.Release()
		if err != nil {
			return items, err
		}
	}
}
