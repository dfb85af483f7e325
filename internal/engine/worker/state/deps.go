package state

import (
	"math"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// replicaPriority is the priority of replicas that no task needs: after all tasks of the default user priority and
// before those of a lower one.
var replicaPriority = Priority{1, math.Inf(-1), math.Inf(-1)}

// ensureTask returns the task with a key, which it creates if necessary. The task is at least as urgent as the given
// priority.
func (s *State) ensureTask(key taskid.Key, priority Priority, generation int64) *Task {
	t := s.tasks.ensure(key)
	want := heapEntry{priority: priority, generation: generation}
	have := heapEntry{priority: t.priority, generation: t.generation}
	switch {
	case !t.hasPrio:
		t.priority, t.generation, t.hasPrio = priority, generation, true
	case t.state == Fetch && want.less(&have):
		s.peers.removeAllNeeded(t)
		t.priority, t.generation = priority, generation
		for i := range t.whoHas {
			s.peers.addNeeded(t, int32(i))
		}
	}
	return t
}

// setDep updates a task from a Dep of an event.
func (s *State) setDep(t *Task, d *Dep) {
	if t.state != Memory && d.NBytes >= 0 {
		t.nbytes = d.NBytes
	}
	s.updateHolders(t, d.WhoHas)
}

// updateHolders sets the holders of a task and updates its state.
func (s *State) updateHolders(t *Task, addresses []string) {
	if s.peers.setHolders(t, addresses) && t.state != Memory && !t.running() && !t.scattered {
		s.report(SendReleaseData, t) // corrects the scheduler
	}
	switch {
	case len(t.whoHas) > 0 && t.state == Missing:
		s.recommend(t, Fetch)
	case len(t.whoHas) == 0 && t.state == Fetch:
		s.recommend(t, Missing)
	}
}

// linkDeps sets the dependencies of a task to those of an event.
func (s *State) linkDeps(t *Task, deps []Dep) {
	if len(deps) == 0 && len(t.deps) == 0 {
		return
	}
	s.mark += 2
	wanted, there := s.mark, s.mark+1
	tasks := s.taskScratch[:0]
	for i := range deps {
		dep := s.ensureTask(deps[i].Key, t.priority, t.generation)
		if dep != t { // a task cannot depend on itself
			dep.mark = wanted
			tasks = append(tasks, dep)
		}
	}
	for i := int32(len(t.deps)) - 1; i >= 0; i-- {
		if dep := t.deps[i].task; dep.mark == wanted {
			dep.mark = there
		} else {
			s.unlink(t, i)
		}
	}
	for _, dep := range tasks {
		if dep.mark == wanted {
			dep.mark = there
			t.deps = append(t.deps, depEdge{task: dep, back: int32(len(dep.dependents))})
			dep.dependents = append(dep.dependents, backEdge{t, int32(len(t.deps) - 1)})
		}
	}
	clear(tasks)
	s.taskScratch = tasks[:0]
	for i := range deps {
		dep := s.tasks.Get(deps[i].Key)
		dep.nowhere = len(deps[i].WhoHas) == 0
		s.setDep(dep, &deps[i])
	}
}

func (s *State) unlinkAll(t *Task) {
	for n := len(t.deps); n > 0; n-- {
		s.unlink(t, int32(n-1))
	}
}

// unlink removes a dependency from a task.
func (s *State) unlink(t *Task, slot int32) {
	e := t.deps[slot]
	dep := e.task
	if e.waiting {
		t.nwaiting--
		dep.nwaiters--
	}
	last := int32(len(dep.dependents) - 1)
	if e.back != last {
		moved := dep.dependents[last]
		dep.dependents[e.back] = moved
		moved.task.deps[moved.slot].back = e.back
	}
	dep.dependents[last] = backEdge{}
	dep.dependents = dep.dependents[:last]

	end := int32(len(t.deps) - 1)
	if slot != end {
		moved := t.deps[end]
		t.deps[slot] = moved
		moved.task.dependents[moved.back].slot = slot
	}
	t.deps[end] = depEdge{}
	t.deps = t.deps[:end]
	s.releaseUnwanted(dep)
}

func cloneString(text string) string {
	if text == "" {
		return ""
	}
	return strings.Clone(text)
}
