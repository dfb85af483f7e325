package state

import (
	"fmt"
	"math"
	"slices"
)

// InvalidState is a broken invariant.
type InvalidState struct {
	// Task is what it was about, as text; empty if it was the state as a whole.
	Task string
	// Problem is what does not hold.
	Problem string
	// Story is what the log knows about the key.
	Story string
}

// Error tells the story as well.
func (e *InvalidState) Error() string {
	if e.Task == "" {
		return "worker/state: " + e.Problem
	}
	return fmt.Sprintf("worker/state: %s: %s; story:%s", e.Task, e.Problem, e.Story)
}

// checker collects the first thing that does not hold.
type checker struct {
	s   *State
	err *InvalidState
}

// that notes a problem of a task, or of the state if t is nil, unless ok.
func (c *checker) that(t *Task, ok bool, format string, args ...any) {
	if ok || c.err != nil {
		return
	}
	c.err = &InvalidState{Problem: fmt.Sprintf(format, args...)}
	if t != nil {
		c.err.Task, c.err.Story = t.String(), c.s.storyText(t.key)
	}
}

// Check looks at every invariant and returns the first that does not hold, as an
// *InvalidState. It reads the whole state: for tests and for Config.Validate.
func (s *State) Check() error {
	c := &checker{s: s}
	var counts [numStates]int
	var nbytes int64
	for key, t := range s.tasks {
		c.that(t, t.key == key, "it is known as %v", key)
	}
	for _, t := range s.sorted() {
		c.that(t, int(t.state) < numStates && t.state != Forgotten && t.state != Rescheduled, "no task stays in this state")
		c.that(t, t.rec == noState && !t.done, "something was left undone: rec %v, done %v", t.rec, t.done)
		counts[min(int(t.state), numStates-1)]++
		if t.state == Memory {
			nbytes += t.nbytes
		}
		c.edges(t)
		c.holders(t)
		c.task(t)
	}
	c.that(nil, counts == s.counts, "counts are %v, want %v", s.counts, counts)
	c.that(nil, nbytes == s.nbytes, "nbytes is %d, want %d", s.nbytes, nbytes)
	c.that(nil, counts[Fetch] == s.fetchCount, "fetchCount is %d, want %d", s.fetchCount, counts[Fetch])
	c.lists()
	c.transfers()
	c.resources()
	c.progress()
	if c.err != nil {
		return c.err
	}
	return nil
}

// edges: both ends know each other, and who waits for whom is counted.
func (c *checker) edges(t *Task) {
	var waiting, waiters int32
	for i, e := range t.deps {
		c.that(t, e.task.state != Forgotten && c.s.tasks[e.task.key] == e.task, "dependency %v is not known", e.task)
		ok := int(e.back) < len(e.task.dependents) && e.task.dependents[e.back] == backEdge{t, int32(i)}
		c.that(t, ok, "dependency %v does not know it", e.task)
		if e.waiting {
			waiting++
			c.that(t, e.task.state != Released && e.task.state != Memory && e.task.state != Cancelled, "waits for %v in vain; its story:%s", e.task, c.s.storyText(e.task.key))
		}
		if t.state == Waiting {
			c.that(t, e.waiting == (e.task.state != Memory), "waits for %v: %v", e.task, e.waiting)
		}
		if t.state == Ready || t.state == Constrained {
			c.that(t, e.task.state == Memory, "%v is not here", e.task)
		}
	}
	for i, b := range t.dependents {
		ok := int(b.slot) < len(b.task.deps) && b.task.deps[b.slot].task == t && b.task.deps[b.slot].back == int32(i)
		c.that(t, ok, "dependent %v does not know it", b.task)
		if ok && b.task.deps[b.slot].waiting {
			waiters++
		}
	}
	c.that(t, t.nwaiting == waiting, "nwaiting is %d, want %d", t.nwaiting, waiting)
	c.that(t, t.nwaiters == waiters, "nwaiters is %d, want %d", t.nwaiters, waiters)
	c.that(t, (waiting > 0) == (t.state == Waiting), "waits for %d dependencies", waiting)
}

// holders: peers know what they hold, and what is to be fetched is in the heaps of all.
func (c *checker) holders(t *Task) {
	for i, h := range t.whoHas {
		p := h.peer
		c.that(t, p.address != c.s.cfg.Address && c.s.peers[p.address] == p, "holder %s is not a peer", p.address)
		c.that(t, int(h.has) < len(p.has) && p.has[h.has] == peerTask{t, int32(i)}, "holder %s does not know it", p.address)
		c.that(t, (h.heap >= 0) == (t.state == Fetch), "in the heap of %s: %d", p.address, h.heap)
		if h.heap >= 0 {
			e := p.needed.entries[h.heap]
			c.that(t, e.task == t && e.slot == int32(i), "the heap of %s has %v in its place", p.address, e.task)
		}
	}
}

// task: what must hold for a task in its state.
func (c *checker) task(t *Task) {
	wanted := t.nwaiters > 0 || t.acquired || t.scattered
	switch t.state {
	case Released:
		c.that(t, len(t.dependents) > 0, "nobody depends on it")
	case Fetch:
		c.that(t, len(t.whoHas) > 0 && wanted, "%d holders, wanted %v", len(t.whoHas), wanted)
	case Missing:
		c.that(t, len(t.whoHas) == 0 && wanted, "%d holders, wanted %v", len(t.whoHas), wanted)
	case Flight:
		c.that(t, wanted, "nobody wants it")
	case Ready:
		c.that(t, t.needs == nil, "it needs resources")
	case Constrained:
		c.that(t, t.needs != nil, "it needs no resources")
	case Erred:
		c.that(t, t.failure != nil, "it has no failure")
	case Cancelled:
		c.that(t, t.nwaiters == 0 && t.next == noState, "%d wait for it, next %v", t.nwaiters, t.next)
	case Resumed:
		ok := t.previous == Flight && t.next == Waiting || t.previous != Flight && t.next == Fetch && wanted
		c.that(t, ok, "wanted %v", wanted)
	}
	under := t.running() || t.flying()
	c.that(t, (t.state == Cancelled || t.state == Resumed) == (t.previous != noState), "previous is %v", t.previous)
	c.that(t, under || t.previous == noState, "nothing is under way")
	c.that(t, t.next == noState || t.state == Resumed, "next is %v", t.next)
	c.that(t, t.stored == (t.state == Memory || t.scattered), "stored %v, scattered %v", t.stored, t.scattered)
	c.that(t, under || !t.scattered, "scattered, and nothing is under way")
	c.that(t, !t.scattered || t.state != Cancelled, "scattered")
	c.that(t, t.running() || !t.aborted && !t.rerun && !t.orphaned || t.state == Memory || t.state == Erred, "flags of a run are left")
	c.that(t, t.flying() == (t.comingFrom != nil), "coming from %v", t.comingFrom)
	if p := t.comingFrom; p != nil {
		c.that(t, p.flying && slices.Contains(p.inFlight, t), "the transfer from %s is without it", p.address)
	}
	c.that(t, t.state == Waiting || t.nwaiting == 0, "waits for %d", t.nwaiting)
}

// lists: each has the tasks of its state, in their places.
func (c *checker) lists() {
	s := c.s
	check := func(name string, l *list, want int, ok func(*Task) bool) {
		c.that(nil, l.len() == want, "%s has %d tasks, want %d", name, l.len(), want)
		for i, t := range l.tasks {
			c.that(t, ok(t) && t.pos == int32(i) && s.tasks[t.key] == t, "it is at %d of %s", i, name)
		}
	}
	in := func(st TaskState) func(*Task) bool { return func(t *Task) bool { return t.state == st } }
	check("waiting", &s.waiting, s.counts[Waiting], in(Waiting))
	check("missing", &s.missing, s.counts[Missing], in(Missing))
	check("memory", &s.inMemory, s.counts[Memory], in(Memory))
	var running, long int
	for _, t := range s.tasks {
		if t.running() {
			if t.state == LongRunning || t.previous == LongRunning {
				long++
			} else {
				running++
			}
		}
	}
	check("executing", &s.executing, running, func(t *Task) bool { return t.state == Executing || t.previous == Executing })
	check("long-running", &s.longRunning, long, func(t *Task) bool { return t.state == LongRunning || t.previous == LongRunning })

	constrained := 0
	c.heap("ready", &s.ready, Ready)
	for _, set := range s.needSets {
		constrained += set.ready.len()
		c.heap("constrained", &set.ready, Constrained)
	}
	c.that(nil, s.ready.len() == s.counts[Ready], "%d tasks are in ready, want %d", s.ready.len(), s.counts[Ready])
	c.that(nil, constrained == s.counts[Constrained], "%d tasks are in constrained, want %d", constrained, s.counts[Constrained])
}

func (c *checker) heap(name string, h *heap, st TaskState) {
	for i, e := range h.entries {
		c.that(e.task, e.task.state == st, "it is in %s", name)
		c.that(e.task, i == 0 || !e.less(&h.entries[(i-1)/4]), "%s is out of order at %d", name, i)
		if e.slot < 0 {
			c.that(e.task, e.task.pos == int32(i), "%s has it at %d and not at %d", name, i, e.task.pos)
		}
	}
}

// transfers: peers, and what is under way.
func (c *checker) transfers() {
	s := c.s
	flights, askable := 0, 0
	var bytes int64
	for address, p := range s.peers {
		c.that(nil, p.address == address, "peer %s is known as %s", p.address, address)
		c.heap("needed of "+address, &p.needed, Fetch)
		for i, h := range p.has {
			ok := int(h.slot) < len(h.task.whoHas) && h.task.whoHas[h.slot].peer == p && h.task.whoHas[h.slot].has == int32(i)
			c.that(h.task, ok, "it does not know its holder %s", address)
		}
		can := p.needed.len() > 0 && !p.flying && !p.busy
		c.that(nil, can == (p.pos >= 0), "peer %s can be asked: %v, at %d", address, can, p.pos)
		if can && p.pos >= 0 {
			askable++
			c.that(nil, s.askable[p.pos] == p, "peer %s is not at %d", address, p.pos)
		}
		if p.flying {
			flights++
			bytes += p.inBytes
			for _, t := range p.inFlight {
				c.that(t, t.flying() && t.comingFrom == p, "it is in the transfer from %s", address)
			}
		}
	}
	c.that(nil, askable == len(s.askable), "%d peers can be asked, want %d", len(s.askable), askable)
	c.that(nil, flights == s.flights && bytes == s.inBytes, "%d transfers of %d bytes, want %d of %d", s.flights, s.inBytes, flights, bytes)
}

// resources: what is not available is held by tasks that run.
func (c *checker) resources() {
	s := c.s
	held := make([]float64, len(s.supplies))
	users := map[*needSet]int{}
	for _, t := range s.tasks {
		if t.needs != nil {
			users[t.needs]++
			if t.running() {
				for _, n := range t.needs.needs {
					held[n.supply] += n.amount
				}
			}
		}
		if t.nextNeeds != nil {
			c.that(t, t.rerun, "it knows what its next run needs, and there is none")
			users[t.nextNeeds]++
		}
	}
	for i, sup := range s.supplies {
		c.that(nil, math.Abs(sup.total-sup.available-held[i]) < 1e-6, "%g of %g %s are available and %g held", sup.available, sup.total, sup.name, held[i])
	}
	for _, set := range s.needSets {
		c.that(nil, set.users == users[set] && set.users > 0, "a set of resources has %d users, want %d", set.users, users[set])
	}
	c.that(nil, len(users) <= len(s.needSets), "%d sets of resources are used and %d known", len(users), len(s.needSets))
}

// progress: nothing waits that could go on.
func (c *checker) progress() {
	s := c.s
	c.that(nil, s.executing.len() <= s.cfg.Threads, "%d tasks run on %d threads", s.executing.len(), s.cfg.Threads)
	c.that(nil, len(s.recs)+len(s.added)+len(s.orphans)+len(s.lost) == 0, "recommendations are left")
	if !s.running {
		return
	}
	if s.executing.len() < s.cfg.Threads {
		t := s.nextReady()
		c.that(t, t == nil, "it could run")
	}
	if len(s.askable) > 0 && !s.throttled() {
		c.that(nil, s.inBytes > 0, "data could be fetched from %s", s.askable[0].address)
	}
}
