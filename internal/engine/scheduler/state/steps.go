package state

import "fmt"

// Step is a row of the table of transitions: the action for a recommendation of a task in state From. A pair without a
// row does nothing.
type Step struct {
	From TaskState
	// Recommended is the recommended state, or "unneeded": released or forgotten if it is not needed.
	Recommended string
	// Name describes the step.
	Name string
	// To are the possible states of the task afterwards, unless it stays as it is: a recommendation may be obsolete
	// when it is processed.
	To     []TaskState
	target target
	do     func(*State, *Task)
}

// Move is a change of state that an event makes by itself, without a recommendation.
type Move struct {
	From, To TaskState
	// Name describes when.
	Name string
}

// Steps returns the table of transitions.
func Steps() []Step { return steps }

// Moves returns the changes of state that are not in Steps.
func Moves() []Move { return moves }

// target is a recommended state of a task.
type target uint8

const (
	none target = iota
	// toUnneeded releases the task if it is not needed when it is processed, and forgets it if it is not referenced
	// either.
	toUnneeded
	toProcessing
	toWaiting
	toReleased
	toErred
	toForgotten

	numTargets = int(toForgotten) + 1
)

var targetNames = [numTargets]string{"none", "unneeded", "processing", "waiting", "released", "erred", "forgotten"}

func row(from TaskState, to target, name string, do func(*State, *Task), ends ...TaskState) Step {
	return Step{From: from, Recommended: targetNames[to], Name: name, To: ends, target: to, do: do}
}

var steps = []Step{
	row(Released, toUnneeded, "nothing refers to it", forgetUnneeded, Forgotten),
	row(Waiting, toUnneeded, "it is not needed", releaseUnneeded, Released, Forgotten),
	row(Queued, toUnneeded, "it is not needed", releaseUnneeded, Released, Forgotten),
	row(NoWorkerState, toUnneeded, "it is not needed", releaseUnneeded, Released, Forgotten),
	row(Processing, toUnneeded, "it is not needed", releaseUnneeded, Released, Forgotten),
	row(Memory, toUnneeded, "it is not needed", releaseUnneeded, Released, Forgotten),
	row(Erred, toUnneeded, "nothing refers to it", forgetUnneeded, Forgotten),

	row(Waiting, toProcessing, "its dependencies are in memory", assignReady, Queued, NoWorkerState, Processing, Erred),
	row(NoWorkerState, toProcessing, "a worker may take it", assignStranded, Processing, Erred),

	row(Released, toWaiting, "it is needed", (*State).wait, Waiting, Erred),
	row(Erred, toWaiting, "retry", (*State).release, Released),

	row(Waiting, toReleased, "run it again", (*State).release, Released),
	row(Queued, toReleased, "a dependency is lost", (*State).release, Released),
	row(NoWorkerState, toReleased, "a dependency is lost", (*State).release, Released),
	row(Processing, toReleased, "a dependency is lost", (*State).release, Released),
	row(Memory, toReleased, "run it again", (*State).release, Released, Erred),

	row(Released, toErred, "a dependency erred", failDependent, Erred),
	row(Waiting, toErred, "a dependency erred", failDependent, Erred),
	row(Queued, toErred, "a dependency erred", failDependent, Erred),
	row(NoWorkerState, toErred, "a dependency erred", failDependent, Erred),
	row(Processing, toErred, "a dependency erred", failDependent, Erred),

	row(Released, toForgotten, "it can never run", (*State).forget, Forgotten),
	row(Waiting, toForgotten, "it can never run", (*State).forget, Forgotten),
	row(Queued, toForgotten, "it can never run", (*State).forget, Forgotten),
	row(NoWorkerState, toForgotten, "it can never run", (*State).forget, Forgotten),
	row(Processing, toForgotten, "it can never run", (*State).forget, Forgotten),
	row(Memory, toForgotten, "restart", (*State).forget, Forgotten),
	row(Erred, toForgotten, "restart", (*State).forget, Forgotten),
}

var moves = []Move{
	{Released, Waiting, "data is expected from workers of an earlier scheduler"},
	{Released, Memory, "data is scattered"},
	{Waiting, Memory, "a worker announces the result"},
	{Queued, Memory, "a worker announces the result"},
	{NoWorkerState, Memory, "a worker announces the result"},
	{Erred, Memory, "data is scattered"},
	{Processing, Memory, "the run succeeded"},
	{Processing, Processing, "another worker steals it"},
	{Processing, Released, "the run is canceled, or its worker left"},
	{Processing, Erred, "the run failed, or killed too many workers"},
	{Queued, Processing, "a worker has a slot"},
	{Queued, Released, "its annotations changed"},
	{Queued, Erred, "no worker could take it in time"},
	{NoWorkerState, Erred, "no worker could take it in time"},
	{Memory, Released, "the last replica is lost"},
	{Memory, Erred, "the worker of an actor is lost"},
	{Memory, Waiting, "the last replica left with a worker that may return"},
	{Memory, Forgotten, "scattered data is lost"},
}

// dispatch has the functions of steps by state and target. Both have at most eight values: the index needs no bounds
// check.
var dispatch [8][8]func(*State, *Task)

// allowed has every change of state in steps and moves.
var allowed [8][8]bool

func init() {
	for i := range steps {
		st := &steps[i]
		dispatch[st.From][st.target] = st.do
		for _, to := range st.To {
			allowed[st.From][to] = true
		}
	}
	for _, m := range moves {
		allowed[m.From][m.To] = true
	}
}

// transition carries out the recommendation of a task.
func (s *State) transition(t *Task, to target) {
	// The task may not be needed any more: the recommendation may have replaced the one to release it.
	if (to == toProcessing || to == toWaiting && t.state == Released) && !t.needed() {
		to = toUnneeded
	}
	do := dispatch[t.state&7][to&7]
	switch {
	case do == nil:
	case s.onStep != nil:
		from := t.state
		do(s, t)
		s.onStep(from, to, t.state)
	default:
		do(s, t)
	}
}

// checkMove panics if a change of state is in neither table.
func checkMove(s *State, t *Task, to TaskState) {
	if !allowed[t.state&7][to&7] {
		panic(fmt.Sprintf("scheduler/state: task %s: no transition from %s to %s; story:%s",
			t.key, t.state, to, s.log.text(t.key)))
	}
	if s.onMove != nil {
		s.onMove(t.state, to)
	}
}

func forgetUnneeded(s *State, t *Task) {
	if !t.needed() && len(t.dependents) == 0 {
		s.forget(t)
	}
}

func releaseUnneeded(s *State, t *Task) {
	switch {
	case t.needed():
	case len(t.dependents) == 0:
		s.forget(t)
	default:
		s.release(t)
	}
}

// assignReady sends a ready task to a worker, queues it or strands it.
func assignReady(s *State, t *Task) {
	if t.waitingOn > 0 || t.ahead != nil && promote(s, t) {
		return
	}
	if queueable(s, t) {
		s.enqueue(t) // fillSlots may take it immediately
		return
	}
	if w := choose(s, t); w != nil {
		s.send(t, w)
	} else {
		s.strand(t)
	}
}

// assignStranded sends a task that had no worker to one.
func assignStranded(s *State, t *Task) {
	if w := choose(s, t); w != nil {
		s.stranded.remove(t)
		s.send(t, w)
	}
}

// failDependent fails a task with the failure of a dependency.
func failDependent(s *State, t *Task) {
	if t.failure != nil {
		s.fail(t, t.failure)
	}
}
