package state

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Rule is an invariant of the state, which holds after every event.
type Rule struct {
	// Name starts the report of a violation.
	Name string
	// Statement is the invariant as a sentence of the documentation.
	Statement string
	task      func(c *checker, t *Task)
	worker    func(c *checker, w *Worker)
	pool      func(c *checker, p *pool)
	whole     func(c *checker)
}

// Rules returns the invariants in the order of Check.
func Rules() []Rule { return rules }

var rules = slices.Concat(taskRules, edgeRules, stateRules, workerRules, poolRules)

// InvalidState is returned by Check for a broken invariant.
type InvalidState struct {
	// Rule is the name of the broken rule.
	Rule string
	// Problem describes the violation, one line for each of the first cases.
	Problem string
	// Event is the event after which it was found; empty if Check was called.
	Event string
	// Story are the logged transitions of the first task with a problem.
	Story string
}

// Error returns the name of the rule, the problem, the event and the story.
func (e *InvalidState) Error() string {
	text := e.Rule + ": scheduler/state: " + e.Problem
	if e.Event != "" {
		text += "\nbroken after " + e.Event
	}
	return text + e.Story
}

// check panics with an *InvalidState if an invariant is broken after an event. Its cost is proportional to the size of
// the state.
func check(s *State, ev Event) {
	err := findBroken(s)
	if err == nil {
		return
	}
	text := fmt.Sprintf("%+v", ev)
	if len(text) > 2000 {
		text = text[:2000] + "…"
	}
	err.Event = fmt.Sprintf("event %d, %T%s", s.events, ev, text)
	panic(err)
}

// Check returns the first broken rule, as an *InvalidState, nil if all hold. Config.Validate calls it after each event.
func (s *State) Check() error {
	if err := findBroken(s); err != nil {
		return err
	}
	return nil
}

func findBroken(s *State) *InvalidState {
	c := &checker{s: s, tasks: slices.Collect(s.Tasks())}
	for i := range rules {
		if c.run(&rules[i]); len(c.problems) > 0 {
			err := &InvalidState{Rule: c.rule, Problem: strings.Join(c.problems, "\n\t")}
			if c.about != "" {
				err.Story = "\nstory of " + c.about.String() + ":" + s.log.text(c.about)
			}
			return err
		}
	}
	return nil
}

// checker checks one rule after the other.
type checker struct {
	s        *State
	tasks    []*Task
	rule     string
	problems []string
	about    taskid.Key // the first task with a problem
}

func (c *checker) run(r *Rule) {
	c.rule = r.Name
	switch {
	case r.task != nil:
		for _, t := range c.tasks {
			r.task(c, t)
		}
	case r.worker != nil:
		for w := range c.s.Workers() {
			r.worker(c, w)
		}
	case r.pool != nil:
		for _, p := range slices.Clone(c.s.pools.all()) {
			r.pool(c, p)
		}
	default:
		r.whole(c)
	}
}

// want records a problem of the state unless ok.
func (c *checker) want(ok bool, format string, args ...any) {
	if !ok && len(c.problems) < 10 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// of records a problem of a task unless ok.
func (c *checker) of(t *Task, ok bool, format string, args ...any) {
	if ok {
		return
	}
	c.want(false, "task %s (%s): %s", t.key, t.state, fmt.Sprintf(format, args...))
	if c.about == "" {
		c.about = t.key
	}
}

// onWorker records a problem of a worker unless ok.
func (c *checker) onWorker(w *Worker, ok bool, format string, args ...any) {
	if !ok {
		c.want(false, "worker %s: %s", w.address, fmt.Sprintf(format, args...))
	}
}

// missingDeps returns the number of dependencies of a task that are not in memory.
func (t *Task) missingDeps() (n int) {
	for i := range t.deps {
		if t.deps[i].t.state != Memory {
			n++
		}
	}
	return n
}

var taskRules = []Rule{
	{Name: "event-complete", Statement: "After an event no recommendation and no order is left.",
		whole: func(c *checker) {
			s := c.s
			c.want(len(s.stack) == 0 && len(s.out.freeing) == 0,
				"%d recommendations and %d workers' orders are left", len(s.stack), len(s.out.freeing))
			for _, t := range c.tasks {
				c.of(t, t.target == none, "recommended as %s", targetNames[t.target])
			}
		}},
	{Name: "lasting-state", Statement: "Forgotten tasks are not known.", task: func(c *checker, t *Task) {
		c.of(t, t.state != Forgotten, "still known")
	}},
	{Name: "key-index", Statement: "A task is found by its key, and all are counted.", whole: func(c *checker) {
		for _, t := range c.tasks {
			c.of(t, c.s.tasks.Get(t.key) == t, "not found by its key")
		}
		c.want(len(c.tasks) == c.s.tasks.Len(), "%d tasks are known, counted %d", len(c.tasks), c.s.tasks.Len())
	}},
	{Name: "task-home", Statement: "A task has a group and a pool.", task: func(c *checker, t *Task) {
		c.of(t, t.group != nil && t.pool != nil, "has no group or no pool")
	}},
	{Name: "processing-worker", Statement: "A task has a worker while it is processing.", task: func(c *checker,
		t *Task) {
		c.of(t, (t.worker != nil) == (t.state == Processing), "has a worker: %v", t.worker != nil)
	}},
	{Name: "memory-holders", Statement: "A task has holders while it is in memory.", task: func(c *checker, t *Task) {
		c.of(t, (len(t.holders) > 0) == (t.state == Memory), "has %d holders", len(t.holders))
	}},
	{Name: "short-value", Statement: "A task has a short value only while it is in memory and dependents need it.",
		task: func(c *checker, t *Task) {
			c.of(t, t.value == nil || t.state == Memory && t.waiters > 0, "has a short value")
		}},
	{Name: "erred-failure", Statement: "A task has a failure while it is erred.", task: func(c *checker, t *Task) {
		c.of(t, (t.failure != nil) == (t.state == Erred), "has the failure %v", t.failure)
	}},
	{Name: "queued-place", Statement: "A task has a place in a queue while it is queued.", task: func(c *checker,
		t *Task) {
		c.of(t, (t.place != -1) == (t.state == Queued), "has the place %d", t.place)
	}},
	{Name: "run-flags", Statement: "Only processing tasks are long-running or excluded from stealing.",
		task: func(c *checker, t *Task) {
			c.of(t, !t.seceded && !t.refused || t.state == Processing, "long-running %v, refused %v", t.seceded,
				t.refused)
		}},
	{Name: "orphan-done", Statement: "A task that has lost a dependency for good is in memory or erred.",
		task: func(c *checker, t *Task) {
			c.of(t, !t.orphan || t.state == Memory || t.state == Erred, "has lost a dependency for good")
		}},
	{Name: "needed-in-play", Statement: "Tasks in play, and results that were computed, are needed.",
		task: func(c *checker, t *Task) {
			must := t.state.inPlay() || t.state == Memory && len(t.spec) > 0
			c.of(t, !must || t.needed(), "not needed")
		}},
	{Name: "released-unneeded", Statement: "Released tasks are not needed.", task: func(c *checker, t *Task) {
		c.of(t, t.state != Released || !t.needed(), "needed")
	}},
	{Name: "referenced", Statement: "A known task is needed, has dependents or is scattered data.",
		task: func(c *checker, t *Task) {
			c.of(t, t.needed() || len(t.dependents) > 0 || t.state == Memory && len(t.spec) == 0,
				"is not referenced")
		}},
}

var edgeRules = []Rule{
	{Name: "dependency-known", Statement: "Dependencies are known tasks.", task: func(c *checker, t *Task) {
		for _, e := range t.deps {
			c.of(t, c.s.tasks.Get(e.t.key) == e.t, "dependency %s is not known", e.t.key)
		}
	}},
	{Name: "dependency-edges", Statement: "Both ends of a dependency have references to each other.",
		task: func(c *checker, t *Task) {
			for i, e := range t.deps {
				ok := uint(e.back) < uint(len(e.t.dependents)) && e.t.dependents[e.back] == edge{t, int32(i)}
				c.of(t, ok, "dependency %s does not refer to it", e.t.key)
			}
			for i, e := range t.dependents {
				ok := uint(e.back) < uint(len(e.t.deps)) && e.t.deps[e.back] == edge{t, int32(i)}
				c.of(t, ok, "dependent %s does not refer to it", e.t.key)
			}
		}},
	{Name: "dependency-state", Statement: "The dependencies of a task in play are not released and not erred.",
		task: func(c *checker, t *Task) {
			for _, e := range t.deps {
				d := e.t
				c.of(t, !t.state.inPlay() || d.state != Released && d.state != Erred, "needs %s, which is %s",
					d.key, d.state)
			}
		}},
	{Name: "waiter-count", Statement: "The dependents in play are counted.", task: func(c *checker, t *Task) {
		n := 0
		for _, e := range t.dependents {
			if e.t.state.inPlay() {
				n++
			}
		}
		c.of(t, int(t.waiters) == n, "has %d dependents in play, counted %d", n, t.waiters)
	}},
	{Name: "waiting-count",
		Statement: "A waiting task counts the dependencies that are not in memory; others count none.",
		task: func(c *checker, t *Task) {
			n := 0
			if t.state == Waiting {
				n = t.missingDeps()
			}
			c.of(t, int(t.waitingOn) == n, "waits for %d, counted %d", n, t.waitingOn)
		}},
	{Name: "waiting-cause",
		Statement: "A waiting task waits for a dependency, or for a worker that announces its data.",
		task: func(c *checker, t *Task) {
			announced := t.expecting() && (c.s.held || len(c.s.away.data) > 0)
			c.of(t, t.state != Waiting || t.waitingOn > 0 || announced, "waits for nothing")
		}},
	{Name: "sent-ahead",
		Statement: "A task that is sent ahead waits for one task, which its worker processes or was sent ahead.",
		task: func(c *checker, t *Task) {
			if t.ahead == nil {
				return
			}
			c.of(t, t.state == Waiting && t.waitingOn == 1, "is sent ahead and waits for %d", t.waitingOn)
			for _, e := range t.deps {
				c.of(t, e.t.state == Memory || e.t.worker == t.ahead || e.t.ahead == t.ahead,
					"is sent ahead to %s, which does not run %s", t.ahead.address, e.t.key)
			}
		}},
	{Name: "ready-inputs", Statement: "The dependencies of a ready or processing task are in memory.",
		task: func(c *checker, t *Task) {
			ready := t.state == Queued || t.state == NoWorkerState || t.state == Processing
			c.of(t, !ready || t.missingDeps() == 0, "lacks %d dependencies", t.missingDeps())
		}},
	{Name: "holder-edges", Statement: "The holder of a result is a known worker; both refer to each other.",
		task: func(c *checker, t *Task) {
			for i, h := range t.holders {
				ok := !h.w.removed && uint(h.place) < uint(len(h.w.holds)) && h.w.holds[h.place] == held{t, int32(i)}
				c.of(t, ok, "worker %s does not hold it", h.w.address)
			}
		}},
	{Name: "holder-set", Statement: "Where holders are many, their ids are in a set.", task: func(c *checker, t *Task) {
		for _, h := range t.holders {
			c.of(t, t.wide == nil || t.wide.has(h.w.id), "worker %s is not in the set of holders", h.w.address)
		}
		c.of(t, t.wide != nil || len(t.holders) <= manyHolders, "%d holders and no set", len(t.holders))
	}},
	{Name: "replicated-list", Statement: "Tasks with several holders are listed.", task: func(c *checker, t *Task) {
		l := &c.s.ledger.replicated
		i, ok := l.place[t]
		c.of(t, ok == (len(t.holders) > 1), "has %d holders, listed as replicated: %v", len(t.holders), ok)
		c.of(t, !ok || i < len(l.list) && l.list[i] == t, "is not at place %d of the replicated tasks", i)
	}},
	{Name: "want-edges", Statement: "A client that wants a task is known; both refer to each other.",
		task: func(c *checker, t *Task) {
			for i, w := range t.wants {
				ok := !w.c.removed && uint(w.place) < uint(len(w.c.wants)) && w.c.wants[w.place] == wanted{t, int32(i)}
				c.of(t, ok, "client %s does not want it", w.c.name)
			}
		}},
	{Name: "client-index", Statement: "A client is found by its id and name.", whole: func(c *checker) {
		for id, cl := range c.s.clients.all {
			if cl != nil {
				c.want(cl.id == ClientID(id) && c.s.clients.byName[cl.name] == cl, "client %s is not found", cl.name)
			}
		}
	}},
	{Name: "client-wants", Statement: "A task that a client wants refers to the client.", whole: func(c *checker) {
		for _, cl := range c.s.clients.all {
			if cl == nil {
				continue
			}
			for i, w := range cl.wants {
				ok := uint(w.place) < uint(len(w.t.wants)) && w.t.wants[w.place] == want{cl, int32(i)}
				c.of(w.t, ok, "does not refer to client %s, which wants it", cl.name)
			}
		}
	}},
	{Name: "stranded-choice", Statement: "No running worker may take a task without a worker.",
		task: func(c *checker, t *Task) {
			if t.state == NoWorkerState && !c.s.held {
				w := c.wouldChoose(t)
				c.of(t, w == nil, "could run on a worker")
			}
		}},
	{Name: "steal-victim",
		Statement: "A task that is being stolen is processed by the victim and not to be stolen again.",
		task: func(c *checker, t *Task) {
			c.of(t, t.steal == nil || t.worker == t.steal.victim && t.list == unstealable,
				"is being stolen from another worker")
		}},
}

// wouldChoose calls choose without side effects.
func (c *checker) wouldChoose(t *Task) *Worker {
	turn := 0
	if t.notes != nil {
		turn = t.notes.turn
	}
	w := choose(c.s, t)
	if t.notes != nil {
		t.notes.turn = turn
	}
	return w
}

var stateRules = []Rule{
	{Name: "state-count", Statement: "Tasks are counted by state.", whole: func(c *checker) {
		var counts [numTaskStates]int
		for _, t := range c.tasks {
			counts[t.state]++
		}
		for st := range Forgotten {
			c.want(counts[st] == c.s.counts[st], "%d tasks are %s, counted %d", counts[st], st, c.s.counts[st])
		}
	}},
	{Name: "group-list", Statement: "The groups that have tasks are listed, and no others.", whole: func(c *checker) {
		groups := map[*Group]bool{}
		for _, t := range c.tasks {
			groups[t.group] = true
		}
		gs := &c.s.groups
		c.want(len(groups) == len(gs.byName) && len(groups) == len(gs.list),
			"%d groups have tasks, %d and %d are listed", len(groups), len(gs.byName), len(gs.list))
		for i, g := range gs.list {
			c.want(g.place == i && gs.byName[g.name] == g, "group %s is not at %d", g.name, i)
		}
	}},
	{Name: "group-count", Statement: "The tasks of a group are counted by state, and those that were ever in it.",
		whole: func(c *checker) {
			groups := map[*Group]*[numTaskStates]int{}
			for _, t := range c.tasks {
				if groups[t.group] == nil {
					groups[t.group] = &[numTaskStates]int{}
				}
				groups[t.group][t.state]++
			}
			for g, n := range groups {
				sum := g.states[Forgotten]
				for st := range Forgotten {
					c.want(n[st] == g.states[st], "group %s: %d tasks are %s, counted %d", g.name, n[st], st,
						g.states[st])
					sum += n[st]
				}
				c.want(sum == g.total, "group %s: %d tasks, counted %d", g.name, sum, g.total)
			}
		}},
	{Name: "group-bytes", Statement: "The bytes of a group's results are counted.", whole: func(c *checker) {
		nbytes := map[*Group]int64{}
		for _, t := range c.tasks {
			if t.state == Memory {
				nbytes[t.group] += c.s.ledger.size(t)
			}
		}
		for _, g := range c.s.groups.list {
			c.want(nbytes[g] == g.nbytes, "group %s: %d bytes, counted %d", g.name, nbytes[g], g.nbytes)
		}
	}},
	{Name: "annotation-refs", Statement: "Annotations count their tasks, and are removed with the last.",
		whole: func(c *checker) {
			refs := map[*notes]int{}
			for _, t := range c.tasks {
				if t.notes != nil {
					refs[t.notes]++
				}
			}
			c.want(len(refs) == len(c.s.notes.byID), "%d annotations are in use, %d are kept", len(refs),
				len(c.s.notes.byID))
			for n, r := range refs {
				c.want(n.refs == r, "annotations of %d tasks count %d", r, n.refs)
			}
		}},
	{Name: "steal-count", Statement: "Tasks that are being stolen are counted.", whole: func(c *checker) {
		n := 0
		for _, t := range c.tasks {
			if t.steal != nil {
				n++
			}
		}
		c.want(n == c.s.steals.inFlight, "%d tasks are being stolen, counted %d", n, c.s.steals.inFlight)
	}},
	{Name: "stranded-list", Statement: "Tasks without a worker are listed, and no others.", whole: func(c *checker) {
		n := 0
		for t := c.s.stranded.head; t != nil; t = t.next {
			c.of(t, t.state == NoWorkerState, "is among those without a worker")
			n++
		}
		c.want(n == c.s.stranded.n && n == c.s.counts[NoWorkerState],
			"%d tasks are listed without a worker, counted %d and %d",
			n, c.s.stranded.n, c.s.counts[NoWorkerState])
	}},
}
