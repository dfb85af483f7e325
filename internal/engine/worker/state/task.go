package state

import (
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// Task is what the state knows about a key. It belongs to the state: read it only in the
// goroutine that owns that, and not after the task has been forgotten.
type Task struct {
	key   taskid.Key
	runID int64
	state TaskState
	// previous is Executing, LongRunning or Flight while state is Cancelled or Resumed.
	previous TaskState
	// next is Fetch or Waiting while state is Resumed.
	next TaskState
	// rec is the state that the task is to go to next, see State.recommend.
	rec TaskState

	// done: the run or transfer has just ended.
	done bool
	// stored: the server's store holds a value for it.
	stored bool
	// scattered: a value came from outside while a run or transfer was under way.
	scattered bool
	// aborted: DoCancel was said for the run.
	aborted bool
	// rerun: the run that is under way is of a spec that has been replaced.
	rerun bool
	// orphaned: the scheduler that ordered the run is gone.
	orphaned bool
	// asked: its holders have been asked for since it was found missing for the first time.
	asked bool
	// acquired: the scheduler wants a replica here, whoever depends on it.
	acquired bool
	actor    bool
	hasPrio  bool

	priority   Priority
	generation int64

	// pos is its place in the one list or heap that it is in.
	pos int32
	// nwaiting is how many of deps are not here, nwaiters how many dependents wait for it.
	nwaiting, nwaiters int32
	mark               uint32

	deps       []depEdge
	dependents []backEdge
	whoHas     []holder
	comingFrom *Peer

	needs     *needSet // what it waits for or holds while it runs
	nextNeeds *needSet // what the next run needs, if rerun

	nbytes      int64 // -1 if unknown
	typeName    string
	spec        []byte
	annotations []byte
	spanID      string
	failure     *Failure
	start, stop int64
	thread      int64
	data        any
}

// depEdge is an edge to a dependency, in the dependent; backEdge is its other end.
type depEdge struct {
	task *Task
	back int32 // index in task.dependents
	// waiting: the dependent waits for it.
	waiting bool
}

type backEdge struct {
	task *Task
	slot int32 // index in task.deps
}

// holder is a peer that has the task's value.
type holder struct {
	peer *Peer
	has  int32 // index in peer.has
	heap int32 // index in peer.needed, -1 if not there
}

// Key names the task. It may be kept.
func (t *Task) Key() taskid.Key { return t.key }

// RunID is that of the last order to run it; -1 if there was none.
func (t *Task) RunID() int64 { return t.runID }

// State is where the task is.
func (t *Task) State() TaskState { return t.state }

// Previous is what has not ended yet (Executing, LongRunning or Flight) if the task is
// Cancelled or Resumed.
func (t *Task) Previous() (TaskState, bool) { return t.previous, t.previous != noState }

// Priority is the lowest for what is most urgent.
func (t *Task) Priority() Priority { return t.priority }

// Spec is the encoded task; nil once it has run. It may be kept, by other goroutines as well.
func (t *Task) Spec() []byte { return t.spec }

// Annotations are msgpack or empty. They may be kept.
func (t *Task) Annotations() []byte { return t.annotations }

// SpanID names the span.
func (t *Task) SpanID() string { return t.spanID }

// Actor tells that its result is an actor.
func (t *Task) Actor() bool { return t.actor }

// NBytes is the size of the value; -1 if it is not known.
func (t *Task) NBytes() int64 { return t.nbytes }

// TypeName is the type of the value for people, if it is here.
func (t *Task) TypeName() string { return t.typeName }

// Failure is why it failed, if it did.
func (t *Task) Failure() *Failure { return t.failure }

// Times are the start and stop of its run in nanoseconds since 1970, and the thread; zero if
// it has not run here.
func (t *Task) Times() (start, stop, thread int64) { return t.start, t.stop, t.thread }

// Data is the server's own: what it gave in ComputeTask, or SetData.
func (t *Task) Data() any { return t.data }

// SetData replaces Data.
func (t *Task) SetData(v any) { t.data = v }

// NumDeps is how many dependencies it has.
func (t *Task) NumDeps() int { return len(t.deps) }

// Dep is one of its dependencies. They are forgotten once it has run or is released.
func (t *Task) Dep(i int) *Task { return t.deps[i].task }

// NumDependents is how many tasks here depend on it.
func (t *Task) NumDependents() int { return len(t.dependents) }

// Dependent is one of the tasks here that depend on it.
func (t *Task) Dependent(i int) *Task { return t.dependents[i].task }

// NumHolders is how many peers are known to have its value.
func (t *Task) NumHolders() int { return len(t.whoHas) }

// Holder is one of the peers that have its value.
func (t *Task) Holder(i int) *Peer { return t.whoHas[i].peer }

// ComingFrom is the peer that it is being fetched from, or nil.
func (t *Task) ComingFrom() *Peer { return t.comingFrom }

// String is the key and the state.
func (t *Task) String() string {
	s := t.key.String() + " " + t.state.String()
	switch t.state {
	case Cancelled:
		s += "(" + t.previous.String() + ")"
	case Resumed:
		s += "(" + t.previous.String() + "->" + t.next.String() + ")"
	}
	return s
}

// running tells that a run is under way.
func (t *Task) running() bool {
	switch t.state {
	case Executing, LongRunning:
		return true
	case Cancelled, Resumed:
		return t.previous == Executing || t.previous == LongRunning
	}
	return false
}

// flying tells that a transfer is under way.
func (t *Task) flying() bool {
	return t.state == Flight || (t.state == Cancelled || t.state == Resumed) && t.previous == Flight
}

// taskTable is all tasks by their keys, and the memory of those that are gone.
type taskTable struct {
	byKey      map[taskid.Key]*Task
	counts     [numStates]int
	dead, free []*Task
}

// add makes or finds again the memory of a task. The key's bytes are copied.
func (tb *taskTable) add(key taskid.Key) *Task {
	t := tb.alloc()
	t.key = taskid.Key(strings.Clone(string(key)))
	tb.byKey[t.key] = t
	tb.counts[Released]++
	return t
}

// inlineSpec is up to which size a spec shares its memory with the key: the log keeps keys
// alive, and would keep specs with them.
const inlineSpec = 256

// addWithSpec is add for a task that is to be run: one allocation for both.
func (tb *taskTable) addWithSpec(key taskid.Key, spec []byte) *Task {
	if len(spec) == 0 || len(spec) > inlineSpec {
		t := tb.add(key)
		t.spec = cloneBytes(spec)
		return t
	}
	b := make([]byte, len(key)+len(spec))
	n := copy(b, key)
	copy(b[n:], spec)
	t := tb.alloc()
	t.key = taskid.Key(unsafe.String(&b[0], n)) // nobody writes to b again
	if n == 0 {
		t.key = ""
	}
	t.spec = b[n:len(b):len(b)]
	tb.byKey[t.key] = t
	tb.counts[Released]++
	return t
}

func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

// alloc returns the memory of a task with nothing set.
func (tb *taskTable) alloc() *Task {
	var t *Task
	if n := len(tb.free); n > 0 {
		t = tb.free[n-1]
		tb.free = tb.free[:n-1]
	} else {
		t = new(Task)
	}
	t.runID, t.previous, t.next, t.rec, t.pos, t.nbytes = -1, noState, noState, noState, -1, -1
	return t
}

// maxFree is how many forgotten tasks are kept to be used again.
const maxFree = 4096

// reclaim makes the tasks that the last event forgot usable again.
func (tb *taskTable) reclaim() {
	for i, t := range tb.dead {
		tb.dead[i] = nil
		if len(tb.free) >= maxFree {
			continue
		}
		deps, dependents, whoHas := t.deps[:0], t.dependents[:0], t.whoHas[:0]
		*t = Task{}
		if cap(deps) <= 64 {
			t.deps = deps
		}
		if cap(dependents) <= 64 {
			t.dependents = dependents
		}
		t.whoHas = whoHas
		tb.free = append(tb.free, t)
	}
	tb.dead = tb.dead[:0]
}
