package state

// Step is a row of the table of transitions: the effect on a task in state From for which state Wanted is recommended.
// A pair of states without a row goes through Released, see State.transition.
type Step struct {
	From, Wanted TaskState
	// Name describes the reason.
	Name string
	// To are the possible states afterwards, including From if nothing may happen.
	To []TaskState
	do func(*State, *Task)
}

// Move is a change of state that an event makes without a recommendation.
type Move struct {
	From, To TaskState
	// Name describes the reason.
	Name string
}

// Steps returns the table of transitions.
func Steps() []Step { return steps }

// Moves returns the changes of state that are not in Steps.
func Moves() []Move { return moves }

func to(states ...TaskState) []TaskState { return states }

var steps = []Step{
	{Released, Waiting, "request the dependencies", to(Waiting), releasedWaiting},
	{Waiting, Ready, "all dependencies are here", to(Ready, Constrained), waitingReady},
	{Ready, Executing, "a thread is free", to(Executing), startRun},
	{Constrained, Executing, "a thread and the resources are free", to(Executing), startRun},
	{Executing, Memory, "the run succeeded", to(Memory), executingMemory},
	{LongRunning, Memory, "the run succeeded", to(Memory), executingMemory},
	{Memory, Released, "free the result", to(Released), memoryReleased},
	{Released, Forgotten, "no task depends on it", to(Forgotten), releasedForgotten},

	{Released, Fetch, "fetch it from a holder", to(Fetch, Released), releasedFetch},
	{Missing, Fetch, "a holder was found", to(Fetch, Missing), releasedFetch},
	{Flight, Fetch, "the transfer ended without it", to(Released, Flight), flightFetch},
	{Fetch, Flight, "the transfer starts", to(Flight), fetchFlight},
	{Fetch, Missing, "the last holder is gone", to(Missing, Fetch), fetchMissing},
	{Released, Missing, "no holder is known", to(Missing), (*State).toMissing},
	{Flight, Memory, "the transfer succeeded", to(Memory), flightMemory},
	{Released, Memory, "the value was scattered", to(Memory), (*State).toMemory},

	{Fetch, Released, "it is not wanted", to(Released), fetchReleased},
	{Waiting, Released, "withdraw the assignment", to(Released), (*State).release},
	{Ready, Released, "withdraw the assignment", to(Released), (*State).release},
	{Constrained, Released, "withdraw the assignment", to(Released), (*State).release},
	{Missing, Released, "it is not wanted", to(Released), (*State).release},
	{Erred, Released, "free the failure", to(Released), (*State).release},
	{Executing, Released, "cancel the run", to(Cancelled, Released), executingReleased},
	{LongRunning, Released, "cancel the run", to(Cancelled, Released), executingReleased},
	{Flight, Released, "cancel the transfer", to(Cancelled, Released), flightReleased},

	{Executing, Erred, "the run failed", to(Erred), toErred},
	{LongRunning, Erred, "the run failed", to(Erred), toErred},
	{Released, Erred, "a dependency cannot be read, or a resource is missing", to(Erred), toErred},
	{Executing, Rescheduled, "the run returned the task", to(Released), executingRescheduled},
	{LongRunning, Rescheduled, "the run returned the task", to(Released), executingRescheduled},

	{Cancelled, Erred, "the run or transfer failed", to(Released), cancelledEnded},
	{Cancelled, Memory, "the run or transfer succeeded", to(Released), cancelledEnded},
	{Cancelled, Rescheduled, "the run returned the task", to(Released), cancelledEnded},
	{Cancelled, Released, "it is freed again", to(Cancelled), cancelledEnded},
	{Cancelled, Fetch, "the value is wanted", to(Flight, Resumed, Released), cancelledFetch},
	{Cancelled, Waiting, "the task is assigned again", to(Executing, LongRunning, Resumed), cancelledWaiting},
	{Resumed, Fetch, "the value is wanted", to(Resumed, Flight, Released), resumedFetch},
	{Resumed, Memory, "the run or transfer succeeded", to(Memory), resumedMemory},
	{Resumed, Erred, "the run or transfer ended without a value", to(Released), restartNext},
	{Resumed, Rescheduled, "the run or transfer ended without a value", to(Released), restartNext},
	{Resumed, Released, "it is not wanted", to(Cancelled), resumedReleased},
}

var moves = []Move{
	{Executing, LongRunning, "the run secedes"},
	{Executing, Released, "the run ended and another one is wanted"},
	{LongRunning, Released, "the run ended and another one is wanted"},
	{Ready, Waiting, "the value of a dependency is gone"},
	{Constrained, Waiting, "the value of a dependency is gone"},
	{Cancelled, Executing, "its value is scattered while it runs"},
	{Cancelled, LongRunning, "its value is scattered while it runs"},
	{Cancelled, Flight, "its value is scattered while it is fetched"},
	{Resumed, Executing, "the scheduler is lost: the run continues"},
	{Resumed, LongRunning, "the scheduler is lost: the run continues"},
	{Resumed, Flight, "the scheduler is lost: the value was scattered"},
}

// dispatch has the functions of steps by the two states. The size of 16 exceeds the number of states, so that a masked
// index needs no bounds check.
var dispatch [16][16]func(*State, *Task)

// allowed has every change of state in steps and moves.
var allowed [16][16]bool

func init() {
	for i := range steps {
		st := &steps[i]
		dispatch[st.From][st.Wanted] = st.do
		for _, to := range st.To {
			allowed[st.From][to] = true
		}
	}
	for _, m := range moves {
		allowed[m.From][m.To] = true
	}
}

// checkMove panics if a change of state is in neither table.
func (s *State) checkMove(t *Task, st TaskState) {
	if !allowed[t.state&15][st&15] {
		panic(invalid(s, t, st))
	}
	if s.onMove != nil {
		s.onMove(t.state, st)
	}
}

func waitingReady(s *State, t *Task) {
	t.ready = s.now
	if t.needs != nil {
		s.setState(t, Constrained)
	} else {
		s.setState(t, Ready)
	}
}

func executingMemory(s *State, t *Task) {
	switch {
	case t.orphaned && t.scattered: // the scheduler knows it from the scatter
		s.added = append(s.added, t)
		s.toMemory(t)
	case t.orphaned:
		s.orphans = append(s.orphans, t)
		s.toMemory(t)
	default:
		s.toMemory(t)
		s.report(SendTaskFinished, t)
	}
}

func releasedFetch(s *State, t *Task) {
	if len(t.whoHas) == 0 {
		s.recommend(t, Missing)
		return
	}
	s.setState(t, Fetch)
	s.fetchCount++
}

func flightFetch(s *State, t *Task) {
	if t.done {
		t.done = false
		s.setState(t, Released)
		s.recommend(t, Fetch)
	}
}

func fetchFlight(s *State, t *Task) {
	s.fetchCount--
	s.setState(t, Flight)
}

func fetchMissing(s *State, t *Task) {
	if len(t.whoHas) == 0 { // otherwise a holder was found since
		s.fetchCount--
		s.toMissing(t)
	}
}

func flightMemory(s *State, t *Task) {
	t.done = false
	s.added = append(s.added, t)
	s.toMemory(t)
}

func fetchReleased(s *State, t *Task) {
	s.fetchCount--
	s.release(t)
}

func executingReleased(s *State, t *Task) {
	if t.done {
		s.release(t)
		return
	}
	t.previous = t.state
	s.cancel(t)
	s.abort(t)
}

func flightReleased(s *State, t *Task) {
	if t.done {
		s.release(t)
		return
	}
	t.previous = Flight
	s.cancel(t)
}

func toErred(s *State, t *Task) {
	t.done = false
	s.setState(t, Erred)
	s.unlinkAll(t)
	if a := s.report(SendTaskErred, t); a != nil {
		a.Failure = t.failure
	}
}

func executingRescheduled(s *State, t *Task) {
	s.report(SendReschedule, t)
	s.release(t)
}

func cancelledEnded(s *State, t *Task) {
	if t.done {
		s.release(t)
	}
}

func restartNext(s *State, t *Task) { s.restart(t, t.next) }

func resumedReleased(s *State, t *Task) {
	t.next = noState
	s.cancel(t)
}
