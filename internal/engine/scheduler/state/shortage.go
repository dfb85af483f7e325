package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// Reason is the reason why no running worker can run a task.
type Reason uint8

const (
	// NoWorkersThere means that there are no workers at all.
	NoWorkersThere Reason = iota
	// NoFunctions means that no worker has the functions of the task's client.
	NoFunctions
	// NoBuild means that workers have the functions only in other builds of the program than the client's.
	NoBuild
	// NoAbility means that no worker runs tasks of the kind, such as Python tasks.
	NoAbility
	// NoNamed means that none of the workers that the task is restricted to has joined.
	NoNamed
	// NoResources means that no worker has enough of a resource for the task.
	NoResources
	// NoMatch means that each requirement is met by some worker, but no worker meets all of them.
	NoMatch
	// NotRunning means that the workers that could run the task are paused or closing.
	NotRunning

	numReasons
)

var reasonNames = [numReasons]string{"no-workers", "functions", "build", "ability", "workers", "resources",
	"restrictions", "paused"}

// String returns the reason in the form of metrics and messages.
func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "unknown"
}

// Reasons returns all reasons.
func Reasons() []Reason {
	all := make([]Reason, numReasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// Shortage is a set of ready tasks with equal requirements that no running worker can run. It is valid until the next
// Apply.
type Shortage struct {
	// Reason is the reason of the shortage.
	Reason Reason
	// Registry and Needs are the requirements of the tasks; see Graph and Node.
	Registry string
	Needs    Can
	// Workers and Resources are the restrictions, and Best[i] is the most that one worker has of Resources[i], -1 if no
	// worker has the resource.
	Workers   []string
	Resources []Resource
	Best      []float64
	// Tasks is the number of waiting tasks, Example the key of the first of them, Since the start of its wait.
	Tasks   int
	Example taskid.Key
	Since   time.Time
	// Clients are those that hold the tasks, or results that depend on them.
	Clients []ShortageOf

	pool   *pool
	notes  *notes  // nil if the tasks have no restrictions
	sample []*Task // where the search for clients starts
}

// ShortageOf is the part of a Shortage that concerns one client.
type ShortageOf struct {
	Client ClientID
	// Keys are waiting results that the client holds; More reports whether there are others.
	Keys []taskid.Key
	More bool
}

const (
	// shortageScan bounds the number of waiting tasks, and of their dependents, that one report visits.
	shortageScan = 50_000
	// shortageKeys bounds ShortageOf.Keys.
	shortageKeys = 1000
)

// Short reports whether tasks wait that no running worker can run.
func (s *State) Short() bool {
	if s.held {
		return false
	}
	if s.stranded.n > 0 {
		return true
	}
	if s.counts[Queued] == 0 {
		return false
	}
	return slices.ContainsFunc(s.pools.all(), (*pool).short)
}

// short reports whether the pool has queued tasks and no running worker for them.
func (p *pool) short() bool { return p.queue.n > 0 && p.numBy(1) == 0 }

// Shortages returns the tasks that no running worker can run by their requirements, with the clients that wait for them
// if clients is set. Of very many tasks only the first are visited.
func (s *State) Shortages(clients bool) []Shortage {
	if !s.Short() {
		return nil
	}
	var all []Shortage
	type key struct {
		p *pool
		n *notes
	}
	index := map[key]int{}
	group := func(p *pool, n *notes, first *Task, since int64) *Shortage {
		k := key{p, n}
		i, ok := index[k]
		if !ok {
			i = len(all)
			index[k] = i
			all = append(all, shortage(s, p, n, first, since))
		}
		return &all[i]
	}
	seen := 0
	for t := s.stranded.head; t != nil && seen < shortageScan; t = t.next {
		seen++
		g := group(t.pool, t.restriction(), t, t.since)
		g.Tasks++
		g.sample = append(g.sample, t)
	}
	for _, p := range s.pools.all() {
		if !p.short() {
			continue
		}
		g := group(p, nil, p.queue.peek(), p.emptySince)
		g.Tasks += p.queue.n
		for _, list := range [][]*Task{p.queue.row[p.queue.first:], p.queue.heap} {
			for _, t := range list[:min(len(list), max(0, shortageScan-seen))] {
				if seen++; t != nil {
					g.sample = append(g.sample, t)
				}
			}
		}
	}
	if clients {
		findClients(s, all)
	}
	for i := range all {
		all[i].sample = nil
	}
	return all
}

// restriction returns the notes that restrict where a task may run; nil if any worker of its pool may.
func (t *Task) restriction() *notes {
	if n := t.notes; n != nil && n.restricted && !n.AllowOtherWorkers {
		return n
	}
	return nil
}

func shortage(s *State, p *pool, n *notes, first *Task, since int64) Shortage {
	x := Shortage{Registry: p.registry, Needs: p.can, Example: first.key, Since: time.Unix(0, since), pool: p, notes: n}
	if n != nil {
		x.Workers, x.Resources = n.Workers, n.Resources
		x.Best = make([]float64, len(n.Resources))
	}
	for i := range x.Best {
		x.Best[i] = -1
		for w := range s.Workers() {
			x.Best[i] = max(x.Best[i], w.supply(n.Resources[i].Name))
		}
	}
	x.Reason = reason(s, p, n)
	return x
}

// reason returns what is missing for tasks of a pool with restrictions: the requirement that no worker meets, if there
// is one.
func reason(s *State, p *pool, n *notes) Reason {
	var fits, builds, named, supplied, both bool
	for w := range s.Workers() {
		fit := p == s.pools.any || w.pool == p || w.pool.runs(p)
		isNamed := n == nil || len(n.Workers) == 0 || slices.ContainsFunc(n.Workers, w.named)
		allowed := n == nil || n.allows(w)
		fits = fits || fit
		builds = builds || w.pool.functions == p.functions
		named = named || isNamed
		supplied = supplied || n == nil || n.supplied(w)
		both = both || fit && allowed
	}
	switch {
	case s.workers.n == 0:
		return NoWorkersThere
	case both:
		return NotRunning
	case !fits && p.registry != "" && builds:
		return NoBuild
	case !fits && p.registry != "":
		return NoFunctions
	case !fits:
		return NoAbility
	case !named:
		return NoNamed
	case !supplied:
		return NoResources
	}
	return NoMatch
}

// findClients finds, for each shortage, the clients that hold its tasks or their dependents.
func findClients(s *State, all []Shortage) {
	s.walk++
	budget := shortageScan
	var stack []*Task
	for i := range all {
		x := &all[i]
		stack = append(stack[:0], x.sample...)
		slices.Reverse(stack) // the first is visited first
		for len(stack) > 0 && budget > 0 {
			t := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if t.mark == s.walk {
				continue
			}
			t.mark = s.walk
			budget--
			for _, w := range t.wants {
				x.wantedBy(w.c.id, t.key)
			}
			for j := range t.dependents {
				if d := t.dependents[j].t; d.state == Waiting && d.mark != s.walk {
					stack = append(stack, d)
				}
			}
		}
		if len(stack) > 0 {
			for j := range x.Clients {
				x.Clients[j].More = true
			}
		}
	}
}

func (x *Shortage) wantedBy(c ClientID, k taskid.Key) {
	for i := range x.Clients {
		if of := &x.Clients[i]; of.Client == c {
			if len(of.Keys) < shortageKeys {
				of.Keys = append(of.Keys, k)
			} else {
				of.More = true
			}
			return
		}
	}
	x.Clients = append(x.Clients, ShortageOf{Client: c, Keys: []taskid.Key{k}})
}

func (ev *FailShortage) apply(s *State) {
	x := ev.Shortage
	var found []*Task
	for t := s.stranded.head; t != nil; t = t.next {
		if t.pool == x.pool && t.restriction() == x.notes {
			found = append(found, t)
		}
	}
	if x.notes == nil && x.pool.short() {
		x.pool.queue.each(func(t *Task) { found = append(found, t) })
	}
	for _, t := range found {
		if t.state == NoWorkerState || t.state == Queued { // others failed together with an earlier one
			s.fail(t, &Failure{Kind: NoValidWorker, Key: t.key, ExceptionText: "task " + t.key.String() +
				" cannot run: " + ev.Text})
		}
	}
}
