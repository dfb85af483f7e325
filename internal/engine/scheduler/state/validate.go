package state

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.millstream.dev/internal/taskid"
)

// check panics with a report if the state contradicts itself after an event. It costs as much as the state
// is large.
func check(s *State, ev Event) {
	if problem, about := problem(s); problem != "" {
		text := fmt.Sprintf("%+v", ev)
		if len(text) > 2000 {
			text = text[:2000] + "…"
		}
		story := ""
		if about != "" {
			story = "\nstory of " + about.String() + ":" + s.log.text(about)
		}
		panic(fmt.Sprintf("scheduler/state: broken after event %d, %T%s:\n\t%s%s", s.events, ev, text, problem, story))
	}
}

// Check reports the first contradiction within the state, empty if there is none: what Config.Validate does
// after each event.
func (s *State) Check() string {
	problem, about := problem(s)
	if problem != "" && about != "" {
		problem += "\nstory of " + about.String() + ":" + s.log.text(about)
	}
	return problem
}

// problem finds a contradiction, and the task that it is about if it is about one.
func problem(s *State) (string, taskid.Key) {
	v := &validator{s: s, processing: map[*Prefix]int{}}
	v.run()
	if len(v.problems) == 0 {
		return "", ""
	}
	return strings.Join(v.problems, "\n\t"), v.about
}

type validator struct {
	s        *State
	problems []string
	about    taskid.Key
	// processing is how many tasks of each prefix workers have.
	processing map[*Prefix]int
}

func (v *validator) want(ok bool, t *Task, format string, args ...any) {
	if ok || len(v.problems) >= 10 {
		return
	}
	text := fmt.Sprintf(format, args...)
	if t != nil {
		text = fmt.Sprintf("task %s (%s): %s", t.key, t.state, text)
		if v.about == "" {
			v.about = t.key
		}
	}
	v.problems = append(v.problems, text)
}

func (v *validator) run() {
	s := v.s
	v.want(len(s.stack) == 0 && len(s.out.freeing) == 0, nil, "%d recommendations and %d workers' orders are left",
		len(s.stack), len(s.out.freeing))
	var counts [numTaskStates]int
	groups := map[*Group]*[numTaskStates]int{}
	groupBytes := map[*Group]int64{}
	pools := map[*pool]int{}
	refs := map[*notes]int{}
	inFlight, known := 0, 0
	for t := range s.Tasks() {
		v.want(s.tasks.get(t.key) == t, t, "is not found by its key")
		known++
		v.task(t)
		counts[t.state]++
		if groups[t.group] == nil {
			groups[t.group] = &[numTaskStates]int{}
		}
		groups[t.group][t.state]++
		if t.state == Memory {
			groupBytes[t.group] += s.ledger.size(t)
		}
		pools[t.pool]++
		if t.notes != nil {
			refs[t.notes]++
		}
		if t.steal != nil {
			inFlight++
		}
	}
	v.want(known == s.tasks.n, nil, "%d tasks are known, counted %d", known, s.tasks.n)
	for st := range Forgotten {
		v.want(counts[st] == s.counts[st], nil, "%d tasks are %s, counted %d", counts[st], st, s.counts[st])
	}
	v.want(inFlight == s.steals.inFlight, nil, "%d tasks are being stolen, counted %d", inFlight, s.steals.inFlight)
	v.want(len(groups) == len(s.groups.byName) && len(groups) == len(s.groups.list), nil,
		"%d groups have tasks, %d and %d are listed", len(groups), len(s.groups.byName), len(s.groups.list))
	for g, n := range groups {
		sum := g.states[Forgotten]
		for st := range Forgotten {
			v.want(n[st] == g.states[st], nil, "group %s: %d tasks are %s, counted %d", g.name, n[st], st, g.states[st])
			sum += n[st]
		}
		v.want(sum == g.total, nil, "group %s: %d tasks, counted %d", g.name, sum, g.total)
		v.want(groupBytes[g] == g.nbytes, nil, "group %s: %d bytes, counted %d", g.name, groupBytes[g], g.nbytes)
	}
	v.want(len(refs) == len(s.notes.byID), nil, "%d annotations are in use, %d are kept", len(refs), len(s.notes.byID))
	for n, r := range refs {
		v.want(n.refs == r, nil, "annotations of %d tasks count %d", r, n.refs)
	}
	v.workers()
	v.pools(pools)
	v.clients()
	n := 0
	for t := s.stranded.head; t != nil; t = t.next {
		v.want(t.state == NoWorkerState, t, "is among those without a worker")
		n++
	}
	v.want(n == s.stranded.n && n == counts[NoWorkerState], nil,
		"%d tasks are listed without a worker, counted %d and %d", n, s.stranded.n, counts[NoWorkerState])
}

func (v *validator) task(t *Task) {
	s := v.s
	v.want(t.target == none, t, "has a recommendation left: %d", t.target)
	v.want(t.state != Forgotten, t, "is forgotten and still known")
	v.want(t.group != nil && t.pool != nil, t, "has no group or pool")
	waitingOn, waiters := 0, 0
	for i, e := range t.deps {
		d := e.t
		v.want(s.tasks.get(d.key) == d, t, "depends on %s, which is not known", d.key)
		v.want(int(e.back) < len(d.dependents) && d.dependents[e.back].t == t &&
			int(d.dependents[e.back].back) == i, t, "is not among the dependents of %s", d.key)
		if d.state != Memory {
			waitingOn++
		}
		if t.state.inPlay() {
			v.want(d.state != Released && d.state != Erred, t, "needs %s, which is %s", d.key, d.state)
		}
	}
	for i, e := range t.dependents {
		d := e.t
		v.want(int(e.back) < len(d.deps) && d.deps[e.back].t == t && int(d.deps[e.back].back) == i, t,
			"is not among the dependencies of %s", d.key)
		if d.state.inPlay() {
			waiters++
		}
	}
	v.want(int(t.waiters) == waiters, t, "has %d dependents in play, counted %d", waiters, t.waiters)
	if t.state == Waiting {
		v.want(int(t.waitingOn) == waitingOn, t, "waits for %d, counted %d", waitingOn, t.waitingOn)
		v.want(waitingOn > 0 || t.expecting() && (s.held || len(s.away.data) > 0), t, "waits for nothing")
	} else {
		v.want(t.waitingOn == 0, t, "waits for %d", t.waitingOn)
	}
	if t.state == Queued || t.state == NoWorkerState || t.state == Processing {
		v.want(waitingOn == 0, t, "lacks %d dependencies", waitingOn)
	}
	v.want((t.worker != nil) == (t.state == Processing), t, "has the worker %v", t.worker != nil)
	v.want((len(t.holders) > 0) == (t.state == Memory), t, "has %d holders", len(t.holders))
	v.want((t.failure != nil) == (t.state == Erred), t, "has the failure %v", t.failure)
	v.want((t.place != -1) == (t.state == Queued), t, "has the place %d in a queue", t.place)
	v.want(!t.seceded && !t.refused || t.state == Processing, t, "is long-running or was refused to be stolen")
	v.want(!t.orphan || t.state == Memory || t.state == Erred, t, "has lost a dependency for good")
	if t.state.inPlay() || t.state == Memory && len(t.spec) > 0 {
		v.want(t.needed(), t, "is not needed")
	}
	if t.state == Released {
		v.want(!t.needed(), t, "is needed")
	}
	v.want(t.needed() || len(t.dependents) > 0 || t.state == Memory && len(t.spec) == 0, t, "is not referred to")
	if t.state == NoWorkerState && !s.held {
		w := v.wouldChoose(t)
		v.want(w == nil, t, "could run on a worker")
	}
	if t.steal != nil {
		v.want(t.state == Processing && t.worker == t.steal.victim && t.list == unstealable, t,
			"is being stolen from somebody else")
	}
	for i, h := range t.holders {
		v.want(!h.w.removed && int(h.place) < len(h.w.holds) && h.w.holds[h.place].t == t &&
			int(h.w.holds[h.place].place) == i, t, "is not among what %s holds", h.w.address)
		v.want(t.wide == nil || t.wide.has(h.w.id), t, "does not know %s as holder", h.w.address)
	}
	for i, w := range t.wants {
		v.want(!w.c.removed && int(w.place) < len(w.c.wants) && w.c.wants[w.place].t == t &&
			int(w.c.wants[w.place].place) == i, t, "is not among what %s wants", w.c.name)
	}
}

// wouldChoose is choose without its traces.
func (v *validator) wouldChoose(t *Task) *Worker {
	turn := 0
	if t.notes != nil {
		turn = t.notes.turn
	}
	w := choose(v.s, t)
	if t.notes != nil {
		t.notes.turn = turn
	}
	return w
}

func (v *validator) workers() {
	s := v.s
	all, running, threads := 0, 0, 0
	var net int64
	for id, w := range s.workers.all {
		if w == nil {
			continue
		}
		v.want(w.id == WorkerID(id) && s.workers.byAddress[w.address] == w && s.workers.byName[w.name] == w &&
			!w.removed, nil, "worker %s is not where it should be", w.address)
		all++
		threads += w.threads
		net += w.netBytes
		if w.running() {
			running++
		}
		v.want((w.place >= 0) == w.running(), nil, "worker %s (%s) has place %d in its pool", w.address, w.status,
			w.place)
		v.worker(w)
	}
	v.want(all == s.workers.n && running == s.workers.running && threads == s.workers.threads, nil,
		"%d workers, %d running, %d threads; counted %d, %d, %d", all, running, threads, s.workers.n,
		s.workers.running, s.workers.threads)
	v.want(len(s.workers.byAddress) == all && len(s.workers.byName) == all, nil,
		"%d workers have %d addresses and %d names", all, len(s.workers.byAddress), len(s.workers.byName))
	v.want(len(v.processing) == len(s.ledger.processing), nil, "%d prefixes are processing, %d are listed",
		len(v.processing), len(s.ledger.processing))
	for i, p := range s.ledger.processing {
		v.want(p.place == i && p.processing == v.processing[p], nil,
			"prefix %s: %d tasks are processing, counted %d", p.name, v.processing[p], p.processing)
	}
	v.want(net == s.ledger.netBytes, nil, "workers fetch %d bytes, counted %d", net, s.ledger.netBytes)
}

func (v *validator) worker(w *Worker) {
	s := v.s
	processing, seceded, actors, others := 0, 0, 0, 0
	counts := map[*Prefix]int{}
	needs := map[*Task]int32{}
	used := make([]float64, len(w.used))
	for l := range w.lists {
		n := 0
		for t := w.lists[l].head; t != nil; t = t.next {
			v.want(t.worker == w && int(t.list) == l, t, "is not processed by %s from list %d", w.address, l)
			n++
			processing++
			switch {
			case t.seceded:
				seceded++
			case t.other:
				others++
			default:
				counts[t.group.prefix]++
			}
			if !t.seceded {
				v.processing[t.group.prefix]++
			}
			if t.actor {
				actors++
			}
			for _, e := range t.deps {
				if !w.holdsTask(e.t) {
					needs[e.t]++
				}
			}
			if t.notes != nil {
				for _, r := range t.notes.Resources {
					for i := range w.resources {
						if w.resources[i].Name == r.Name {
							used[i] += r.Amount
						}
					}
				}
			}
		}
		v.want(n == w.lists[l].n, nil, "worker %s has %d tasks in list %d, counted %d", w.address, n, l, w.lists[l].n)
	}
	v.want(processing == w.processing && seceded == w.seceded, nil,
		"worker %s processes %d (%d long-running), counted %d (%d)", w.address, processing, seceded, w.processing,
		w.seceded)
	v.want(others == w.others, nil, "worker %s counts %d by estimate, %d", w.address, others, w.others)
	v.want(len(counts) == len(w.counts), nil, "worker %s processes %d prefixes, counted %d", w.address, len(counts),
		len(w.counts))
	for _, c := range w.counts {
		v.want(counts[c.p] == c.n, nil, "worker %s processes %d of %s, counted %d", w.address, counts[c.p],
			c.p.name, c.n)
	}
	for i := range used {
		v.want(math.Abs(used[i]-w.used[i]) < 1e-9, nil, "worker %s has %g of %s in use, counted %g", w.address,
			used[i], w.resources[i].Name, w.used[i])
	}
	var net, nbytes int64
	for t, n := range w.needs {
		// It may be fewer: a replica that was there when a task was assigned may have gone.
		v.want(0 < n.tasks && n.tasks <= needs[t], t, "is needed by %d tasks on %s, counted %d", needs[t],
			w.address, n.tasks)
		net += n.nbytes
	}
	v.want(net == w.netBytes, nil, "worker %s fetches %d bytes, counted %d", w.address, net, w.netBytes)
	for _, h := range w.holds {
		nbytes += s.ledger.size(h.t)
		if h.t.actor {
			actors++
		}
		v.want(s.tasks.get(h.t.key) == h.t && h.t.state == Memory, h.t, "is held by %s", w.address)
	}
	v.want(nbytes == w.nbytes, nil, "worker %s holds %d bytes, counted %d", w.address, nbytes, w.nbytes)
	v.want(actors == w.actors, nil, "worker %s has %d actors, counted %d", w.address, actors, w.actors)
	v.want(w.load == float64(w.active())/float64(w.threads), nil, "worker %s has the load %g", w.address, w.load)
}

func (v *validator) pools(tasks map[*pool]int) {
	s := v.s
	v.want(len(s.pools.byKey) == len(s.pools.list), nil, "%d pools, %d listed", len(s.pools.byKey), len(s.pools.list))
	queued := 0
	for _, p := range s.pools.all() {
		v.want(p.tasks == tasks[p], nil, "pool %q has %d tasks, counted %d", p.registry, tasks[p], p.tasks)
		for _, q := range s.pools.all() {
			v.want(slices.Contains(p.by, q) == q.runs(p) && slices.Contains(p.by, q) == slices.Contains(q.takes, p),
				nil, "pools %v and %v do not know of each other", p.poolKey, q.poolKey)
		}
		workers, threads := 0, 0
		for w := range s.Workers() {
			if w.pool == p {
				workers++
				threads += w.threads
			}
		}
		v.want(workers == p.workers && threads == p.threads, nil,
			"pool %q has %d workers with %d threads, counted %d and %d", p.registry, workers, threads, p.workers,
			p.threads)
		for i, w := range p.heap {
			v.want(int(w.place) == i && w.pool == p && w.running(), nil, "worker %s is at place %d of pool %q",
				w.address, i, p.registry)
			v.want(i == 0 || !w.before(p.heap[(i-1)/2]), nil, "pool %q is no heap at %d", p.registry, i)
		}
		n := 0
		p.queue.each(func(t *Task) {
			n++
			v.want(t.state == Queued && t.pool == p, t, "is in the queue of pool %q", p.registry)
			v.want(t.prio.Compare(p.queue.peek().prio) >= 0, t, "is not behind the first of its queue")
		})
		v.want(n == p.queue.n, nil, "the queue of pool %q has %d tasks, counted %d", p.registry, n, p.queue.n)
		queued += n
		if t := p.next(); t != nil && len(p.heap) > 0 && !s.held {
			base, _ := slotsFor(s, p.heap[0], t.group.prefix)
			v.want(p.heap[0].active() >= base, t, "is queued although %s has a slot", p.heap[0].address)
		}
	}
	v.want(queued == s.counts[Queued], nil, "%d tasks are in queues, counted %d", queued, s.counts[Queued])
}

func (v *validator) clients() {
	for id, c := range v.s.clients.all {
		if c == nil {
			continue
		}
		v.want(c.id == ClientID(id) && v.s.clients.byName[c.name] == c, nil, "client %s is not where it should be",
			c.name)
		for i, w := range c.wants {
			v.want(int(w.place) < len(w.t.wants) && w.t.wants[w.place].c == c && int(w.t.wants[w.place].place) == i,
				w.t, "does not know that %s wants it", c.name)
		}
	}
}
