package tracker

import (
	"context"
	"fmt"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// Item is one message of the queue: an encoded message, or a graph that may still grow.
type Item struct {
	raw   message.Raw
	graph *Graph
}

// maxQueued is the number of bytes of graphs that may be queued. Submitters then wait, so that a scheduler that is slow
// or lost does not fill the memory of the client.
const maxQueued = 256 << 20

// WaitForSpace waits until there is space in the queue, or ctx or the client ends.
func (t *Tracker) WaitForSpace(ctx context.Context) error {
	for {
		t.mu.Lock()
		if t.closed != nil || t.queued < maxQueued {
			err := t.closed
			t.mu.Unlock()
			return err
		}
		if t.space == nil {
			t.space = make(chan struct{})
		}
		space := t.space
		t.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// growNodes is the number of tasks below which a graph accepts more.
const growNodes = 16384

// graphFor returns a graph to which tasks with these options can be added. The caller holds mu.
func (t *Tracker) graphFor(opts Options) *Graph {
	t.flushReleases()
	if n := len(t.out); n > 0 {
		if g := t.out[n-1].graph; g != nil && g.sealed == nil && g.opts == opts && g.w.Len() < growNodes {
			return g
		}
	}
	g := &Graph{opts: opts}
	t.queueGraph(g)
	return g
}

// queueGraph adds a graph to the queue. The caller holds mu.
func (t *Tracker) queueGraph(g *Graph) {
	t.flushReleases()
	t.seq++
	g.seq = t.seq
	t.queued += g.w.Size()
	t.out = append(t.out, Item{graph: g})
	t.graphs[g] = struct{}{}
}

// flushReleases queues a message about the released keys, before the next message. The caller holds mu.
func (t *Tracker) flushReleases() {
	if len(t.releasing) == 0 {
		return
	}
	n := 0
	for _, k := range t.releasing {
		n += len(k)
	}
	f := message.ClientReleasesKeys{Keys: t.releasing, Client: t.cfg.ID}
	b := message.Buffer{Body: make([]byte, 0, 64+len(t.cfg.ID)+n)}
	f.Append(&b)
	t.out = append(t.out, Item{raw: b.Body})
	t.releasing = t.releasing[:0]
}

// Message is a message to the scheduler, one of the structs of package message, without frames.
type Message interface{ Append(*message.Buffer) }

// Queue queues a message. It returns an error if the client has ended.
func (t *Tracker) Queue(m Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	t.queue(m)
	return nil
}

// queue queues a message. The caller holds mu.
func (t *Tracker) queue(m Message) {
	t.flushReleases()
	var b message.Buffer
	m.Append(&b)
	t.out = append(t.out, Item{raw: b.Body})
	t.wakeWriter()
}

func (t *Tracker) wakeWriter() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Wake returns a channel that has a token when something may be queued.
func (t *Tracker) Wake() <-chan struct{} { return t.wake }

// Take empties the queue into one message, nil if the queue is empty. The items are for Resume if the message cannot be
// sent.
func (t *Tracker) Take() ([]Item, *wire.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flushReleases()
	if len(t.out) == 0 {
		return nil, nil
	}
	items := t.out
	t.out, t.queued = nil, 0
	items = slices.DeleteFunc(items, func(it Item) bool {
		if it.graph == nil {
			return false
		}
		err := t.seal(it.graph)
		if err != nil {
			t.failGraph(it.graph, err)
		}
		return err != nil
	})
	t.freeSpace()
	for g := range t.graphs { // graphs whose tasks have all ended are not sent again
		if g.left <= 0 && g.sealed != nil {
			delete(t.graphs, g)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return items, encodeItems(items)
}

// freeSpace wakes the goroutines that wait for space. The caller holds mu.
func (t *Tracker) freeSpace() {
	if t.space != nil {
		close(t.space)
		t.space = nil
	}
}

// failGraph fails the keys of a graph that cannot be encoded. The caller holds mu.
func (t *Tracker) failGraph(g *Graph, err error) {
	for s := range t.keys.All() {
		if s.graph == g {
			s.end(Failed, fmt.Errorf("client: task %s: %w", s.key, err))
		}
	}
}

// encodeItems returns one message, a list of maps. Its graphs are sealed.
func encodeItems(items []Item) *wire.Message {
	n := 8
	for _, it := range items {
		n += len(it.raw) + 256
		if it.graph != nil {
			n += len(it.graph.wanted)
		}
	}
	b := rpc.NewBatch(n)
	for _, it := range items {
		b.Begin()
		if it.graph != nil {
			it.graph.append(&b.Buffer)
		} else {
			b.Body = append(b.Body, it.raw...)
		}
	}
	return b.Message()
}
