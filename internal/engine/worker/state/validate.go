package state

import "fmt"

// InvalidState is returned by Check for a broken invariant.
type InvalidState struct {
	// Rule is the name of the broken rule.
	Rule string
	// Task is the task, as text; empty if the rule is about the whole state.
	Task string
	// Problem describes the violation.
	Problem string
	// Story is the part of the log about the key.
	Story string
}

// Error returns the name of the rule, the problem and the story.
func (e *InvalidState) Error() string {
	if e.Task == "" {
		return fmt.Sprintf("%s: worker/state: %s", e.Rule, e.Problem)
	}
	return fmt.Sprintf("%s: worker/state: %s: %s; story:%s", e.Rule, e.Task, e.Problem, e.Story)
}

// checker collects the first violation.
type checker struct {
	s     *State
	tasks []*Task // all tasks, by key
	rule  string
	err   *InvalidState
}

// want records a violation by a task, or by the state if t is nil, unless ok.
func (c *checker) want(t *Task, ok bool, format string, args ...any) {
	if ok || c.err != nil {
		return
	}
	c.err = &InvalidState{Rule: c.rule, Problem: fmt.Sprintf(format, args...)}
	if t != nil {
		c.err.Task, c.err.Story = t.String(), c.s.log.text(t.key)
	}
}

// Check checks every rule and returns the first violation as an *InvalidState. It reads the whole state: for tests and
// for Config.Validate.
func (s *State) Check() error {
	c := &checker{s: s, tasks: s.tasks.sorted()}
	for i := range rules {
		r := &rules[i]
		c.rule = r.Name
		if r.whole != nil {
			r.whole(c)
		} else {
			for _, t := range c.tasks {
				r.task(c, t)
			}
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (c *checker) lists() {
	s := c.s
	check := func(name string, l *list, want int, ok func(*Task) bool) {
		c.want(nil, l.len() == want, "%s has %d tasks, want %d", name, l.len(), want)
		for i, t := range l.tasks {
			c.want(t, ok(t) && t.pos == int32(i) && s.tasks.Get(t.key) == t, "is at %d of %s", i, name)
		}
	}
	in := func(st TaskState) func(*Task) bool { return func(t *Task) bool { return t.state == st } }
	counts := &s.tasks.counts
	check("waiting", &s.waiting, counts[Waiting], in(Waiting))
	check("missing", &s.missing, counts[Missing], in(Missing))
	check("memory", &s.inMemory, counts[Memory], in(Memory))
	var running, long int
	for _, t := range c.tasks {
		switch {
		case !t.running():
		case t.state == LongRunning || t.previous == LongRunning:
			long++
		default:
			running++
		}
	}
	of := func(st TaskState) func(*Task) bool {
		return func(t *Task) bool { return t.state == st || t.previous == st }
	}
	check("executing", &s.executing, running, of(Executing))
	check("long-running", &s.longRunning, long, of(LongRunning))
}

func (c *checker) heap(name string, h *heap, st TaskState) {
	for i, e := range h.entries {
		c.want(e.task, e.task.state == st, "is in %s", name)
		if e.slot < 0 {
			c.want(e.task, e.task.pos == int32(i), "%s has it at %d and not at %d", name, i, e.task.pos)
		}
	}
}

func (c *checker) askable() {
	n := 0
	list := c.s.peers.askable
	for address, p := range c.s.peers.byAddress {
		can := p.needed.len() > 0 && !p.flying && !p.busy
		c.want(nil, can == (p.pos >= 0), "peer %s can be asked: %v, at %d", address, can, p.pos)
		if can && p.pos >= 0 {
			n++
			c.want(nil, int(p.pos) < len(list) && list[p.pos] == p, "peer %s is not at %d", address, p.pos)
		}
	}
	c.want(nil, n == len(list), "%d peers can be asked, want %d", len(list), n)
}
