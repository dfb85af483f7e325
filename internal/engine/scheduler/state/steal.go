package state

import (
	"math"
	"slices"
	"time"
)

// stealing is a request to a worker to give a task back, so that another one gets it.
type stealing struct {
	id                    uint64
	victim, thief         *Worker
	victimTime, thiefTime float64 // seconds of occupancy that move
}

// steals counts the requests to give tasks back.
type steals struct {
	asked    uint64 // since the start
	inFlight int
	last     time.Time // balancing round
}

const (
	stealLevels = 15
	// unstealable is the list of what is not to be stolen: it is long-running, about to be stolen, or
	// moving it would cost more than waiting.
	unstealable = stealLevels
	numLists    = stealLevels + 1

	// stealLatency is what moving a task costs beside its data, in seconds.
	stealLatency = 0.1
	// mostSteals bounds the tasks that one balancing round looks at.
	mostSteals = 10_000
)

// stealLevel is the list that a task belongs to: the lower, the cheaper it is to move, compared with
// computing it.
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

// balance asks busy workers to give tasks to idle ones.
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
	thieves []*Worker // the one that will be idle first leads
	victims []victim
	looked  int
}

func (b *balancer) run() {
	for level := range stealLevels {
		for _, v := range b.victims {
			// The latest task first: it would start last. When some in a row are not worth it, others of
			// the same worker are hardly so.
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

// consider asks for a task if a thief would start it clearly sooner than its worker, and tells whether it did.
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
	b.sinkThief(slices.Index(b.thieves, thief)) // it goes on until there is nothing to gain
	return true
}

// askFor sends a task's worker the request to give it back.
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

// evacuateAfter is how long a worker must be paused before its tasks are taken from it: memory often comes
// back at once.
const evacuateAfter = time.Second

// evacuate asks workers that do not run tasks at present for all that they have not started, if others can take
// it: a worker whose memory and disk are full may pause for ever. It is not a matter of balance, and so NoStealing
// does not switch it off. A task that was refused runs, and is not asked for again.
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

// thiefFor finds the thief where the task would start first, among the leading ones and those that hold its
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

// sinkThief moves a thief that has got a task behind those that are idle earlier.
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

// endSteal ends a request, however it has ended.
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
			w.inFlightS = 0 // what rounding has left
		}
	}
	return st
}

// stealResponse is a victim's answer.
func (ev *StealResponse) apply(s *State) {
	t := s.tasks.get(ev.Key)
	if t == nil || t.steal == nil || t.steal.id != ev.Steal || t.steal.victim.id != ev.Worker {
		return // the request has been overtaken by something else
	}
	st := endSteal(s, t)
	switch ev.State {
	case "ready", "constrained", "waiting": // the victim has given it up
		thief := st.thief
		if !st.victim.running() { // many may leave it at once: each goes where there is least to do by now
			thief = choose(s, t)
		}
		if thief == nil || !s.pools.canTake(thief, t) || s.held {
			s.release(t)
			return
		}
		s.exitProcessing(t)
		s.enterProcessing(t, thief)
		s.compute(t)
	case "", "released", "error", "missing", "forgotten": // it does not have it: nobody knows what became of it
		s.release(t)
	default: // it has started: executing, long-running, memory, cancelled, resumed
		t.refused = true
	}
}
