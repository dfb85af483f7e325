package state

import (
	"math"
	"slices"
)

// Rule is an invariant of the state, which holds after every event.
type Rule struct {
	// Name is the name of the rule. The text of a violation begins with it.
	Name string
	// Statement describes the invariant.
	Statement string
	task      func(c *checker, t *Task) // checks one task
	whole     func(c *checker)          // checks the state
}

// Rules returns the invariants in the order of Check.
func Rules() []Rule { return rules }

// taskRule returns a rule about each task; check calls c.want.
func taskRule(name, statement string, check func(c *checker, t *Task)) Rule {
	return Rule{Name: name, Statement: statement, task: check}
}

// stateRule returns a rule about the state; check calls c.want.
func stateRule(name, statement string, check func(c *checker)) Rule {
	return Rule{Name: name, Statement: statement, whole: check}
}

var rules = slices.Concat(taskRules, edgeRules, holderRules, flightRules, totalRules, transferRules, resourceRules,
	progressRules)

var taskRules = []Rule{
	stateRule("key-index", "A task is found by its key.", func(c *checker) {
		for _, t := range c.tasks {
			c.want(t, c.s.tasks.Get(t.key) == t, "not found by its key")
		}
	}),
	taskRule("lasting-state", "No task stays rescheduled or forgotten.", func(c *checker, t *Task) {
		lasting := int(t.state) < numStates && t.state != Forgotten && t.state != Rescheduled
		c.want(t, lasting, "stays in state %d", t.state)
	}),
	taskRule("event-complete", "After an event no recommendation and no end of a run or transfer is left.",
		func(c *checker, t *Task) {
			c.want(t, t.rec == noState && !t.done, "recommended %v, ended %v", t.rec, t.done)
		}),
	taskRule("released-referenced", "A released task is known only because others depend on it.",
		func(c *checker, t *Task) {
			c.want(t, t.state != Released || len(t.dependents) > 0, "no task depends on it")
		}),
	taskRule("resource-state", "A ready task needs no resources, a constrained one does.",
		func(c *checker, t *Task) {
			c.want(t, t.state != Ready || t.needs == nil, "needs resources")
			c.want(t, t.state != Constrained || t.needs != nil, "needs no resources")
		}),
	taskRule("erred-failure", "A task that erred has a failure.", func(c *checker, t *Task) {
		c.want(t, t.state != Erred || t.failure != nil, "has no failure")
	}),
	taskRule("stored-value", "The store has a value for the tasks in memory and those that were scattered.",
		func(c *checker, t *Task) {
			c.want(t, t.stored == (t.state == Memory || t.scattered), "stored %v, scattered %v", t.stored, t.scattered)
		}),
}

var edgeRules = []Rule{
	taskRule("dependency-known", "Dependencies are known tasks.", func(c *checker, t *Task) {
		for _, e := range t.deps {
			c.want(t, e.task.state != Forgotten && c.s.tasks.Get(e.task.key) == e.task,
				"dependency %v is not known", e.task)
		}
	}),
	taskRule("dependency-edges", "Both ends of a dependency have references to each other.",
		func(c *checker, t *Task) {
			for i, e := range t.deps {
				ok := int(e.back) < len(e.task.dependents) && e.task.dependents[e.back] == backEdge{t, int32(i)}
				c.want(t, ok, "dependency %v has no edge to it", e.task)
			}
			for i, b := range t.dependents {
				ok := int(b.slot) < len(b.task.deps) && b.task.deps[b.slot].task == t &&
					b.task.deps[b.slot].back == int32(i)
				c.want(t, ok, "dependent %v has no edge to it", b.task)
			}
		}),
	taskRule("waiting-for-arrival", "Awaited dependencies run, are fetched or requested.", func(c *checker, t *Task) {
		for _, e := range t.deps {
			st := e.task.state
			c.want(t, !e.waiting || st != Released && st != Memory && st != Cancelled,
				"waits for %v; its story:%s", e.task, c.s.log.text(e.task.key))
		}
	}),
	taskRule("waiting-flags", "A waiting task waits for exactly those dependencies that are not in memory.",
		func(c *checker, t *Task) {
			for _, e := range t.deps {
				c.want(t, t.state != Waiting || e.waiting == (e.task.state != Memory), "waits for %v: %v", e.task,
					e.waiting)
			}
		}),
	taskRule("ready-inputs", "The dependencies of a ready or constrained task are in memory.",
		func(c *checker, t *Task) {
			for _, e := range t.deps {
				c.want(t, t.state != Ready && t.state != Constrained || e.task.state == Memory, "%v is not in memory",
					e.task)
			}
		}),
	taskRule("waiting-count", "The dependencies that a task waits for are counted.", func(c *checker, t *Task) {
		n := t.countWaiting()
		c.want(t, t.nwaiting == n, "nwaiting is %d, want %d", t.nwaiting, n)
	}),
	taskRule("waiter-count", "The dependents that wait for a task are counted.", func(c *checker, t *Task) {
		var n int32
		for _, b := range t.dependents {
			if b.task.deps[b.slot].waiting {
				n++
			}
		}
		c.want(t, t.nwaiters == n, "nwaiters is %d, want %d", t.nwaiters, n)
	}),
	taskRule("waiting-state", "A task waits for dependencies in state waiting, and in no other.",
		func(c *checker, t *Task) {
			n := t.countWaiting()
			c.want(t, (n > 0) == (t.state == Waiting), "waits for %d dependencies", n)
		}),
}

// countWaiting returns the number of dependencies that a task waits for.
func (t *Task) countWaiting() (n int32) {
	for _, e := range t.deps {
		if e.waiting {
			n++
		}
	}
	return n
}

// wantedHere reports whether the value of a task is wanted although the task is not run on this worker.
func (t *Task) wantedHere() bool { return t.nwaiters > 0 || t.acquired || t.scattered }

var holderRules = []Rule{
	taskRule("holder-known", "Holders are known peers other than the worker itself.", func(c *checker, t *Task) {
		for _, h := range t.whoHas {
			p := h.peer
			c.want(t, p.address != c.s.cfg.Address && c.s.peers.byAddress[p.address] == p,
				"holder %s is not a peer", p.address)
		}
	}),
	taskRule("holder-edges", "A holder and its task have references to each other.", func(c *checker, t *Task) {
		for i, h := range t.whoHas {
			p := h.peer
			c.want(t, int(h.has) < len(p.has) && p.has[h.has] == peerTask{t, int32(i)},
				"holder %s has no edge to it", p.address)
		}
	}),
	taskRule("fetch-heaps", "A task that is to be fetched is in the heaps of all its holders, no other is in one.",
		func(c *checker, t *Task) {
			for i, h := range t.whoHas {
				p := h.peer
				c.want(t, (h.heap >= 0) == (t.state == Fetch), "place %d in the heap of %s", h.heap, p.address)
				if h.heap >= 0 && int(h.heap) < p.needed.len() {
					e := p.needed.entries[h.heap]
					c.want(t, e.task == t && e.slot == int32(i), "the heap of %s has %v in its place", p.address,
						e.task)
				}
			}
		}),
	taskRule("fetch-wanted", "A task that is to be fetched has holders and is wanted.", func(c *checker, t *Task) {
		c.want(t, t.state != Fetch || len(t.whoHas) > 0 && t.wantedHere(),
			"%d holders, wanted %v", len(t.whoHas), t.wantedHere())
	}),
	taskRule("missing-wanted", "A missing task has no holders and is wanted.", func(c *checker, t *Task) {
		c.want(t, t.state != Missing || len(t.whoHas) == 0 && t.wantedHere(),
			"%d holders, wanted %v", len(t.whoHas), t.wantedHere())
	}),
}

var flightRules = []Rule{
	taskRule("previous-state", "A task has a previous state while it is cancelled or resumed: a run or a transfer.",
		func(c *checker, t *Task) {
			c.want(t, (t.state == Cancelled || t.state == Resumed) == (t.previous != noState),
				"previous is %v", t.previous)
			c.want(t, t.previous == noState || t.running() || t.flying(), "previous is %v", t.previous)
		}),
	taskRule("run-flags", "Flags of a run are set only during the run, and on its result.",
		func(c *checker, t *Task) {
			flags := t.aborted || t.rerun || t.orphaned
			c.want(t, !flags || t.running() || t.state == Memory || t.state == Erred,
				"aborted %v, rerun %v, orphaned %v", t.aborted, t.rerun, t.orphaned)
		}),
	taskRule("next-state", "A task has a next state only while it is resumed.", func(c *checker, t *Task) {
		c.want(t, t.next == noState || t.state == Resumed, "next is %v", t.next)
	}),
	taskRule("resumed-direction", "A resumed task was fetched and is to run, or runs and is to be fetched.",
		func(c *checker, t *Task) {
			ok := t.previous == Flight && t.next == Waiting || t.previous != Flight && t.next == Fetch && t.wantedHere()
			c.want(t, t.state != Resumed || ok, "wanted %v", t.wantedHere())
		}),
	taskRule("cancelled-unwanted", "No task waits for a cancelled one.", func(c *checker, t *Task) {
		c.want(t, t.state != Cancelled || t.nwaiters == 0, "%d wait for it", t.nwaiters)
	}),
	taskRule("flight-wanted", "A task being fetched is wanted, else it is cancelled.", func(c *checker, t *Task) {
		c.want(t, t.state != Flight || t.wantedHere(), "not wanted")
	}),
	taskRule("scattered-in-flight", "Scattered values wait for the end of a run or transfer that is wanted.",
		func(c *checker, t *Task) {
			c.want(t, !t.scattered || (t.running() || t.flying()) && t.state != Cancelled, "scattered")
		}),
	taskRule("coming-from", "A task being fetched refers to its peer, whose transfer includes it.",
		func(c *checker, t *Task) {
			c.want(t, t.flying() == (t.comingFrom != nil), "coming from %v", t.comingFrom)
			if p := t.comingFrom; p != nil {
				c.want(t, p.flying && slices.Contains(p.inFlight, t), "the transfer from %s is without it", p.address)
			}
		}),
}

var totalRules = []Rule{
	stateRule("state-counts", "Tasks are counted by state.", func(c *checker) {
		var counts [numStates]int
		for _, t := range c.tasks {
			counts[min(int(t.state), numStates-1)]++
		}
		c.want(nil, counts == c.s.tasks.counts, "counts are %v, want %v", c.s.tasks.counts, counts)
	}),
	stateRule("memory-bytes", "The bytes of all results are counted.", func(c *checker) {
		var nbytes int64
		for _, t := range c.tasks {
			if t.state == Memory {
				nbytes += t.nbytes
			}
		}
		c.want(nil, nbytes == c.s.nbytes, "nbytes is %d, want %d", c.s.nbytes, nbytes)
	}),
	stateRule("fetch-count", "Tasks that are to be fetched are counted.", func(c *checker) {
		n := c.s.tasks.counts[Fetch]
		c.want(nil, n == c.s.fetchCount, "fetchCount is %d, want %d", c.s.fetchCount, n)
	}),
	stateRule("list-members", "Each list has the tasks of its state, in their places.", func(c *checker) { c.lists() }),
	stateRule("heap-members", "Each heap has the tasks of its state, in their places.", func(c *checker) {
		s := c.s
		c.heap("ready", &s.ready, Ready)
		constrained := 0
		for _, set := range s.resources.sets {
			constrained += set.ready.len()
			c.heap("constrained", &set.ready, Constrained)
		}
		ready := s.tasks.counts[Ready]
		c.want(nil, s.ready.len() == ready, "%d tasks are in ready, want %d", s.ready.len(), ready)
		n := s.tasks.counts[Constrained]
		c.want(nil, constrained == n, "%d tasks are in constrained, want %d", constrained, n)
		for address, p := range s.peers.byAddress {
			c.heap("needed of "+address, &p.needed, Fetch)
		}
	}),
	stateRule("heap-order", "Heaps are in order.", func(c *checker) {
		ordered := func(name string, h *heap) {
			for i := range h.entries {
				e := &h.entries[i]
				c.want(e.task, i == 0 || !e.less(&h.entries[(i-1)/4]), "%s is out of order at %d", name, i)
			}
		}
		ordered("ready", &c.s.ready)
		for _, set := range c.s.resources.sets {
			ordered("constrained", &set.ready)
		}
		for address, p := range c.s.peers.byAddress {
			ordered("needed of "+address, &p.needed)
		}
	}),
}

var transferRules = []Rule{
	stateRule("peer-index", "A peer is found by its address.", func(c *checker) {
		for address, p := range c.s.peers.byAddress {
			c.want(nil, p.address == address, "peer %s is known as %s", p.address, address)
		}
	}),
	stateRule("peer-edges", "A peer and the tasks that it holds have references to each other.", func(c *checker) {
		for address, p := range c.s.peers.byAddress {
			for i, h := range p.has {
				ok := int(h.slot) < len(h.task.whoHas) && h.task.whoHas[h.slot].peer == p &&
					h.task.whoHas[h.slot].has == int32(i)
				c.want(h.task, ok, "has no edge to its holder %s", address)
			}
		}
	}),
	stateRule("askable-peers", "Peers that have needed data are listed unless they are busy or have a pending request.",
		func(c *checker) { c.askable() }),
	stateRule("transfer-members", "The tasks of a transfer are being fetched from its peer.", func(c *checker) {
		for address, p := range c.s.peers.byAddress {
			for _, t := range p.inFlight {
				c.want(t, !p.flying || t.flying() && t.comingFrom == p, "is in the transfer from %s", address)
			}
		}
	}),
	stateRule("transfer-totals", "Transfers and their bytes are counted.", func(c *checker) {
		n, bytes := 0, int64(0)
		for _, p := range c.s.peers.byAddress {
			if p.flying {
				n++
				bytes += p.inBytes
			}
		}
		tr := &c.s.transfers
		c.want(nil, n == tr.inFlight && bytes == tr.bytes,
			"%d transfers of %d bytes, want %d of %d", tr.inFlight, tr.bytes, n, bytes)
	}),
}

var resourceRules = []Rule{
	stateRule("resource-balance", "The unavailable part of a resource is held by running tasks.", func(c *checker) {
		held := make([]float64, len(c.s.resources.supplies))
		for _, t := range c.tasks {
			if t.needs != nil && t.running() {
				for _, n := range t.needs.needs {
					held[n.supply] += n.amount
				}
			}
		}
		for i, sup := range c.s.resources.supplies {
			c.want(nil, math.Abs(sup.total-sup.available-held[i]) < 1e-6,
				"%g of %g %s are available and %g held", sup.available, sup.total, sup.name, held[i])
		}
	}),
	taskRule("next-needs", "Only a run that is followed by another one has the requirements of that run.",
		func(c *checker, t *Task) { c.want(t, t.nextNeeds == nil || t.rerun, "there is no next run") }),
	stateRule("resource-users", "Sets of resources count their users, and are removed with the last.",
		func(c *checker) {
			users := map[*needSet]int{}
			for _, t := range c.tasks {
				if t.needs != nil {
					users[t.needs]++
				}
				if t.nextNeeds != nil {
					users[t.nextNeeds]++
				}
			}
			for _, set := range c.s.resources.sets {
				c.want(nil, set.users == users[set] && set.users > 0,
					"a set of resources has %d users, want %d", set.users, users[set])
			}
			n := len(c.s.resources.sets)
			c.want(nil, len(users) <= n, "%d sets of resources are used and %d known", len(users), n)
		}),
}

var progressRules = []Rule{
	stateRule("thread-limit", "No more tasks run than there are threads.", func(c *checker) {
		n, threads := c.s.executing.len(), c.s.cfg.Threads
		c.want(nil, n <= threads, "%d tasks run on %d threads", n, threads)
	}),
	stateRule("announced", "After an event all changes are announced.", func(c *checker) {
		s := c.s
		n := len(s.recs) + len(s.added) + len(s.orphans) + len(s.lost)
		c.want(nil, n == 0, "%d recommendations and announcements are left", n)
	}),
	stateRule("idle-thread", "No task is ready while a thread and its resources are free.", func(c *checker) {
		if s := c.s; s.running && s.executing.len() < s.cfg.Threads {
			t := s.nextReady()
			c.want(t, t == nil, "could run")
		}
	}),
	stateRule("idle-transfer", "No data waits to be fetched while nothing is being fetched.", func(c *checker) {
		if s := c.s; s.running && len(s.peers.askable) > 0 && !s.transfers.throttled() {
			c.want(nil, s.transfers.bytes > 0, "data could be fetched from %s", s.peers.askable[0].address)
		}
	}),
}
