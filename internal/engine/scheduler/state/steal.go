package state

import (
	"math"
	"slices"
	"time"
)

// stealing is a request to a worker to give up a task, so that another one runs it.
type stealing struct {
	id                    uint64
	victim, thief         *Worker
	victimTime, thiefTime float64 // seconds of occupancy that move
}

// steals counts the requests to give up tasks.
type steals struct {
	asked    uint64 // since the start
	inFlight int
	last     time.Time // time of the last balancing round
}

const (
	stealLevels = 15
	// unstealable is the list of tasks that are not stolen: they are long-running, being stolen, or moving them would
	// cost more than waiting.
	unstealable = stealLevels
	numLists    = stealLevels + 1

	// stealLatency is the cost of moving a task in addition to its data, in seconds.
	stealLatency = 0.1
	// mostSteals bounds the tasks that one balancing round visits.
	mostSteals = 10_000
)

// stealLevel returns the list of a task: the lower, the cheaper it is to move, compared with computing it.
func stealLevel(s *State, t *Task) uint8 {
	p := t.group.prefix
	if p.fast || t.actor || s.cfg.NoStealing {
		return unstealable
	}
	if len(t.deps) == 0 {
		return 0
	}
	compute := s.ledger.duration(p)
	if compute <= 0 {
		return unstealable
	}
	var nbytes int64
	for i := range t.deps {
		nbytes += s.ledger.size(t.deps[i].t)
	}
	transfer := float64(nbytes)/s.ledger.bandwidth + stealLatency
	level := int(math.Round(math.Log2(transfer/compute) + 6))
	if level >= stealLevels {
		return unstealable
	}
	return uint8(max(level, 1))
}

// relist moves a processing task to another list of its worker.
func (t *Task) relist(to uint8) {
	t.worker.lists[t.list].remove(t)
	t.list = to
	t.worker.lists[to].push(t)
}

// balance requests tasks from busy workers for idle ones.
func balance(s *State) {
	if s.cfg.NoStealing || s.held || s.workers.running < 2 || s.counts[Processing] == 0 {
		return
	}
	total := s.TotalOccupancy()
	b := balancer{s: s}
	var candidates []victim
	for w := range s.Workers() {
		occupancy := s.Occupancy(w)
		if w.running() && unoccupied(s, w, occupancy+w.inFlightS, w.processing+w.inFlight, total) {
			b.thieves = append(b.thieves, w)
			continue
		}
		if w.processing+w.inFlight > w.threads && occupancy+w.inFlightS > 0.2 {
			candidates = append(candidates, victim{w, occupancy + w.inFlightS, saturated(s, w, occupancy, total)})
		}
	}
	if len(b.thieves) == 0 || len(candidates) == 0 {
		return
	}
	slices.SortStableFunc(candidates, func(x, y victim) int {
		switch {
		case x.saturated != y.saturated:
			if x.saturated {
				return -1
			}
			return 1
		case x.occupancy > y.occupancy:
			return -1
		case x.occupancy < y.occupancy:
			return 1
		}
		return 0
	})
	b.victims = candidates
	if len(b.victims) > 10 && !b.victims[10].saturated {
		b.victims = b.victims[:10]
	}
	b.sortThieves()
	b.run()
}

type victim struct {
	w         *Worker
	occupancy float64
	saturated bool
}

// balancer is one balancing round.
type balancer struct {
	s       *State
	thieves []*Worker // ordered by the time at which they will be idle
	victims []victim
	looked  int
}

func (b *balancer) run() {
	for level := range stealLevels {
		for _, v := range b.victims {
			// The latest task first: it would start last. If some in a row are not worth moving, others of the same
			// worker hardly are.
			for t, misses := v.w.lists[level].tail, 0; t != nil && misses < sampled; {
				if b.looked >= mostSteals {
					return
				}
				b.looked++
				before := t.prev
				if misses++; b.consider(t, v.w) {
					misses = 0
				}
				t = before
			}
		}
	}
}

func (b *balancer) combined(w *Worker) float64 { return b.s.Occupancy(w) + w.inFlightS }

// consider requests a task if a thief would start it clearly sooner than its worker, and reports whether it did.
func (b *balancer) consider(t *Task, victim *Worker) bool {
	s := b.s
	thief := b.thiefFor(t)
	if thief == nil || thief == victim {
		return false
	}
	compute := s.ledger.duration(t.group.prefix)
	victimTime, thiefTime := compute+s.ledger.fetchTime(t, victim), compute+s.ledger.fetchTime(t, thief)
	if b.combined(thief)+thiefTime > b.combined(victim)-victimTime/2 {
		return false
	}
	requestSteal(s, t, thief, victimTime, thiefTime)
	b.sinkThief(slices.Index(b.thieves, thief)) // continue until there is nothing to gain
	return true
}

// requestSteal sends a task's worker the request to give it up.
func requestSteal(s *State, t *Task, thief *Worker, victimTime, thiefTime float64) {
	victim := t.worker
	s.steals.asked++
	t.steal = &stealing{s.steals.asked, victim, thief, victimTime, thiefTime}
	s.steals.inFlight++
	victim.inFlight--
	thief.inFlight++
	victim.inFlightS -= victimTime
	thief.inFlightS += thiefTime
	t.relist(unstealable)
	a := s.out.add(StealRequest)
	a.Worker, a.Task, a.Key, a.RunID, a.Number = victim.id, t, t.key, t.runID, s.steals.asked
}

// evacuateAfter is how long a worker must be paused before its tasks are moved: memory is often freed soon.
const evacuateAfter = time.Second

// evacuate requests all tasks that have not started from workers that are not running, if others can run them: a worker
// whose memory and disk are full may pause indefinitely. This is not balancing, so NoStealing does not turn it off. A
// task that its worker does not give up is running, and is not requested again.
func evacuate(s *State) {
	if s.workers.running == 0 || s.workers.running == s.workers.n || s.held {
		return
	}
	for w := range s.Workers() {
		if w.running() || w.processing == w.seceded || w.retiring == nil && s.now.Sub(w.stopped) < evacuateAfter {
			continue
		}
		for i := range w.lists {
			for t := w.lists[i].head; t != nil; {
				next := t.next
				if t.steal == nil && !t.seceded && !t.actor && !t.refused {
					if thief := choose(s, t); thief != nil {
						compute := s.ledger.duration(t.group.prefix)
						requestSteal(s, t, thief, compute+s.ledger.fetchTime(t, w), compute+s.ledger.fetchTime(t,
							thief))
					}
				}
				t = next
			}
		}
	}
}

// thiefFor finds the thief on which the task would start first, among the leading ones and those that hold its
// dependencies.
func (b *balancer) thiefFor(t *Task) *Worker {
	s := b.s
	n := t.notes
	if n != nil && (!n.restricted || n.AllowOtherWorkers) {
		n = nil
	}
	var best *Worker
	var bestStart float64
	look := func(w *Worker) {
		start := b.combined(w)/float64(w.threads) + s.ledger.fetchTime(t, w)
		if best == nil || start < bestStart || start == bestStart && w.nbytes < best.nbytes {
			best, bestStart = w, start
		}
	}
	seen := 0
	for _, w := range b.thieves {
		if s.pools.canTake(w, t) && (n == nil || n.allows(w)) {
			look(w)
			if seen++; seen >= sampled {
				break
			}
		}
	}
	return best
}

func (b *balancer) sortThieves() {
	slices.SortStableFunc(b.thieves, func(v, w *Worker) int {
		x, y := b.combined(v)/float64(v.threads), b.combined(w)/float64(w.threads)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// sinkThief moves a thief that has received a task behind those that are idle earlier.
func (b *balancer) sinkThief(i int) {
	w := b.thieves[i]
	key := b.combined(w) / float64(w.threads)
	for ; i+1 < len(b.thieves); i++ {
		next := b.thieves[i+1]
		if b.combined(next)/float64(next.threads) >= key {
			break
		}
		b.thieves[i] = next
	}
	b.thieves[i] = w
}

// endSteal ends a request, whatever its outcome.
func endSteal(s *State, t *Task) *stealing {
	st := t.steal
	if st == nil {
		return nil
	}
	t.steal = nil
	s.steals.inFlight--
	st.victim.inFlight++
	st.thief.inFlight--
	st.victim.inFlightS += st.victimTime
	st.thief.inFlightS -= st.thiefTime
	if s.steals.inFlight == 0 {
		for w := range s.Workers() {
			w.inFlightS = 0 // drop rounding errors
		}
	}
	return st
}

// apply handles a victim's response.
func (ev *StealResponse) apply(s *State) {
	t := s.tasks.Get(ev.Key)
	if t == nil || t.steal == nil || t.steal.id != ev.Steal || t.steal.victim.id != ev.Worker {
		return // the request is obsolete
	}
	st := endSteal(s, t)
	switch ev.State {
	case "ready", "constrained", "waiting": // the victim has given up the task
		thief := st.thief
		if !st.victim.running() { // many may be moved at once: choose again for each
			thief = choose(s, t)
		}
		if thief == nil || !s.pools.canTake(thief, t) || s.held {
			s.release(t)
			return
		}
		cancelOrders(s, t)
		s.exitProcessing(t)
		s.enterProcessing(t, thief)
		s.order(t, thief)
	case "", "released", "error", "missing", "forgotten": // the victim does not have the task: its run is lost
		s.release(t)
	default: // started: executing, long-running, memory, cancelled, resumed
		t.refused = true
	}
}
