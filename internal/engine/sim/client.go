package sim

import (
	"fmt"
	"time"

	sched "go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/taskid"
)

// future is a key that a client holds.
type future struct {
	n       *node
	sub     int // index of its submission
	done    bool
	erred   bool
	checked bool // value or error verified
}

// client submits graphs, checks their results, and releases them.
type client struct {
	w        *world
	name     string
	id       sched.ClientID
	up, down *link
	online   bool
	subs     []submission
	futures  map[taskid.Key]*future
	order    []*future // in order of submission; released ones are removed
	left     int       // number of graphs yet to be submitted
	released []taskid.Key
}

func (w *world) newClient(i int) *client {
	c := &client{w: w, name: fmt.Sprintf("client-%d", i), id: sched.NoClient, futures: map[taskid.Key]*future{},
		left: w.cfg.Graphs}
	c.connect()
	w.clock.after(time.Duration(w.rnd.IntN(1000))*time.Millisecond, c.submitNext)
	c.poll()
	return c
}

func (c *client) connect() {
	h := c.w.head
	if c.w.over || c.online {
		return
	}
	if !h.up {
		c.w.clock.after(200*time.Millisecond, c.connect)
		return
	}
	life := h.life
	c.online = true
	c.up = c.w.newLink(nil, func(m any) {
		if h.life == life && h.up {
			h.fromClient(c, m)
		}
	})
	c.down = c.w.newLink(nil, c.receive)
	c.up.send(hello{c})
	if h.life > 1 {
		c.reattach()
	}
}

// reattach sends a restarted scheduler the keys that the client holds and those that it has released: messages in
// flight when the scheduler was killed are lost.
func (c *client) reattach() {
	var keys []taskid.Key
	for _, f := range c.order {
		f.done = f.done && f.erred // values may be lost
		keys = append(keys, f.n.key)
	}
	if len(c.released) > 0 {
		c.up.send(&sched.ClientReleases{Keys: c.released})
		c.released = nil
	}
	if len(keys) > 0 {
		c.up.send(&sched.ClientDesires{Keys: keys})
	}
}

// cut closes the stream after the scheduler was killed.
func (c *client) cut() {
	if !c.online {
		return
	}
	c.online = false
	c.up.drop()
	c.down.drop()
	c.w.clock.after(c.w.delay(), c.connect)
}

func (c *client) send(m any) {
	if c.online {
		c.up.send(m)
	}
}

// submitNext submits a graph; some of its tasks may depend on earlier results that are still held.
func (c *client) submitNext() {
	if c.w.over || c.left == 0 {
		return
	}
	c.left--
	r := c.w.rnd
	var known []*node
	for _, f := range c.order {
		if !f.n.canceled {
			known = append(known, f.n)
		}
	}
	if make := c.w.cfg.graph; make != nil {
		c.submit(make(c.w, len(c.subs)))
	} else {
		c.submit(c.w.randomGraph(fmt.Sprintf("%s-g%d", c.name, len(c.subs)), 1+r.IntN(2*c.w.cfg.Nodes), known))
	}
	c.w.clock.after(time.Duration(r.IntN(5000))*time.Millisecond, c.submitNext)
}

func (c *client) submit(s submission) {
	c.subs = append(c.subs, s)
	for _, n := range s.wanted {
		f := &future{n: n, sub: len(c.subs) - 1}
		c.futures[n.key] = f
		c.order = append(c.order, f)
	}
	c.w.trace("%s submits %d tasks, wants %d", c.name, len(s.nodes), len(s.wanted))
	c.send(&sched.UpdateGraph{Graph: s.graph(), Keys: keysOf(s.wanted), FIFOTimeout: 100 * time.Millisecond})
}

// resubmit submits the dependencies of a future again: the scheduler has lost or canceled it.
func (c *client) resubmit(f *future) {
	s := submission{wanted: []*node{f.n}}.closure()
	c.w.report.Resubmitted++
	f.done, f.erred, f.checked = false, false, false
	c.w.trace("%s submits %s again, %d tasks", c.name, f.n.key, len(s.nodes))
	c.send(&sched.UpdateGraph{Graph: s.graph(), Keys: keysOf(s.wanted), FIFOTimeout: 100 * time.Millisecond})
}

func (c *client) receive(m any) {
	msg, ok := m.(toClient)
	if !ok {
		return
	}
	for _, k := range msg.keys {
		f := c.futures[k]
		if f == nil {
			continue // released meanwhile
		}
		if c.w.tracing {
			c.w.trace("%s <- %v %s", c.name, msg.kind, k)
		}
		switch msg.kind {
		case sched.KeyInMemory:
			if f.n.fails {
				c.w.fail("%s is in memory, although the task or an input always fails", k)
			}
			f.done, f.erred = true, false
		case sched.KeyErred:
			c.erred(f, msg.fail)
		case sched.LostData, sched.TaskRetried:
			f.done, f.erred = false, false
		case sched.CancelledKeys:
			if !f.n.canceled && c.w.head.life == 1 {
				c.w.fail("%s was canceled, although no client has canceled it or a dependency", k)
			}
			c.resubmit(f)
		default:
			c.w.fail("unknown message to a client: kind %v", msg.kind)
		}
	}
}

func (c *client) erred(f *future, why *sched.Failure) {
	switch {
	case f.n.fails && why.Kind == sched.TaskFailed:
		f.done, f.erred, f.checked = true, true, true
	case why.Kind == sched.KilledWorker:
		// Too many workers were lost while they ran it: the user retries.
		c.w.report.KilledWorker++
		c.send(&sched.Retry{Keys: []taskid.Key{why.Key}})
	default:
		c.w.fail("%s: got error %v (kind %d, caused by %s), want none", f.n.key, why, why.Kind, why.Key)
	}
}

// poll checks received values and releases some of them, periodically.
func (c *client) poll() {
	if c.w.over {
		return
	}
	var gone []taskid.Key
	keep := c.order[:0]
	for _, f := range c.order {
		if f.done && !f.checked {
			c.check(f)
		}
		if f.checked && f.done && c.online && (c.left == 0 || c.w.rnd.IntN(8) == 0) && c.w.rnd.IntN(3) == 0 {
			gone = append(gone, f.n.key)
			delete(c.futures, f.n.key)
			c.w.report.Checked++
			continue
		}
		keep = append(keep, f)
	}
	clear(c.order[len(keep):])
	c.order = keep
	if len(gone) > 0 {
		c.released = append(c.released, gone...)
		c.send(&sched.ClientReleases{Keys: gone})
	}
	c.w.clock.after(250*time.Millisecond, c.poll)
}

// check fetches a value from a worker that holds it.
func (c *client) check(f *future) {
	if !c.w.head.up {
		return
	}
	t := c.w.head.s.Task(f.n.key)
	if t == nil {
		return // canceled or lost: a message about it is in flight
	}
	for i := range t.NumHolders() {
		p := c.w.byAddress(t.Holder(i).Address())
		if p == nil || p.frozen > c.w.clock.now || p.cutPeers > c.w.clock.now {
			continue
		}
		v, ok := p.store[f.n.key]
		if !ok {
			continue // its report to the scheduler is in flight
		}
		if v != f.n.value {
			c.w.fail("%s on %s: got value %x, want %x", f.n.key, p.name, v, f.n.value)
		}
		f.checked = true
		return
	}
}

// cancel cancels the key of one future.
func (c *client) cancel() {
	if !c.online || len(c.order) == 0 {
		return
	}
	f := c.order[c.w.rnd.IntN(len(c.order))]
	markCancelled(f.n)
	c.w.report.Canceled++
	c.w.trace("%s cancels %s", c.name, f.n.key)
	c.send(&sched.CancelKeys{Keys: []taskid.Key{f.n.key}, Force: c.w.rnd.IntN(2) == 0, Reason: "user"})
}

func markCancelled(n *node) {
	if n.canceled {
		return
	}
	n.canceled = true
	for _, d := range n.dependent {
		markCancelled(d)
	}
}

// finished reports whether the client has submitted, checked and released everything.
func (c *client) finished() bool { return c.left == 0 && len(c.order) == 0 }
