package state

import (
	"strings"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// Task is the state of one key. It is owned by the State: read it only in the goroutine that owns the State, and not
// after the task has been forgotten.
type Task struct {
	key   taskid.Key
	runID int64
	state TaskState
	// previous is Executing, LongRunning or Flight while state is Cancelled or Resumed.
	previous TaskState
	// next is Fetch or Waiting while state is Resumed.
	next TaskState
	// rec is the recommended next state, see State.recommend.
	rec TaskState

	// done indicates that the run or transfer has just ended.
	done bool
	// stored indicates that the store of the server has the value.
	stored bool
	// scattered indicates that a value was scattered during a run or transfer.
	scattered bool
	// aborted indicates that DoCancel was issued for the run.
	aborted bool
	// rerun indicates that the spec was replaced during the run.
	rerun bool
	// orphaned indicates that the scheduler that assigned the run is gone.
	orphaned bool
	// asked indicates that the holders were requested after the task was first found missing.
	asked bool
	// acquired indicates that the scheduler wants a replica, independent of dependents.
	acquired bool
	// nowhere indicates that the last task that depends on it was assigned without a holder of it.
	nowhere bool
	actor   bool
	hasPrio bool

	priority   Priority
	generation int64

	// pos is the position in the list or heap that contains the task.
	pos int32
	// nwaiting is the number of deps that are not in memory, nwaiters the number of dependents that wait for the task.
	nwaiting, nwaiters int32
	mark               uint32

	deps       []depEdge
	dependents []backEdge
	whoHas     []holder
	comingFrom *Peer

	needs     *needSet // the resources that the task waits for, or holds while it runs
	nextNeeds *needSet // the resources of the next run, if rerun

	nbytes      int64 // -1 if unknown
	typeName    string
	spec        []byte
	annotations []byte
	spanID      string
	failure     *Failure
	start, stop int64
	ready       int64 // when all dependencies were here, in ns since 1970
	thread      int64
	data        any
}

// depEdge is an edge to a dependency, in the dependent; backEdge is its other end.
type depEdge struct {
	task *Task
	back int32 // index in task.dependents
	// waiting indicates that the dependent waits for the dependency.
	waiting bool
}

type backEdge struct {
	task *Task
	slot int32 // index in task.deps
}

// holder is a peer that has the value of a task.
type holder struct {
	peer *Peer
	has  int32 // index in peer.has
	heap int32 // index in peer.needed, -1 if not there
}

// Key returns the key of the task. It may be kept.
func (t *Task) Key() taskid.Key { return t.key }

// RunID returns that of the last assignment; -1 if there was none.
func (t *Task) RunID() int64 { return t.runID }

// State returns the state of the task.
func (t *Task) State() TaskState { return t.state }

// Previous returns the state of the run or transfer that has not ended (Executing, LongRunning or Flight) if the task
// is Cancelled or Resumed.
func (t *Task) Previous() (TaskState, bool) { return t.previous, t.previous != noState }

// Priority returns the priority; the lowest is the most urgent.
func (t *Task) Priority() Priority { return t.priority }

// Spec returns the encoded task; nil once it has run. It may be kept, also by other goroutines.
func (t *Task) Spec() []byte { return t.spec }

// Annotations returns the annotations: msgpack or empty. They may be kept.
func (t *Task) Annotations() []byte { return t.annotations }

// SpanID returns the ID of the span.
func (t *Task) SpanID() string { return t.spanID }

// Actor reports whether the result is an actor.
func (t *Task) Actor() bool { return t.actor }

// NBytes returns the size of the value; -1 if unknown.
func (t *Task) NBytes() int64 { return t.nbytes }

// TypeName returns the type of the value as text, if it is on this worker.
func (t *Task) TypeName() string { return t.typeName }

// Failure returns the failure of an erred task.
func (t *Task) Failure() *Failure { return t.failure }

// Times returns the start and stop of the run in nanoseconds since 1970, and the thread; zero if the task has not run
// on this worker.
func (t *Task) Times() (start, stop, thread int64) { return t.start, t.stop, t.thread }

// Ready returns the time at which all dependencies were on this worker, in nanoseconds since 1970; zero before.
func (t *Task) Ready() int64 { return t.ready }

// Data returns the value of ComputeTask.Data or SetData, which is opaque to the state.
func (t *Task) Data() any { return t.data }

// SetData replaces Data.
func (t *Task) SetData(v any) { t.data = v }

// NumDeps returns the number of dependencies.
func (t *Task) NumDeps() int { return len(t.deps) }

// Dep returns one of the dependencies. They are dropped once the task has run or is released.
func (t *Task) Dep(i int) *Task { return t.deps[i].task }

// NumDependents returns the number of tasks on this worker that depend on the task.
func (t *Task) NumDependents() int { return len(t.dependents) }

// Dependent returns one of the tasks on this worker that depend on the task.
func (t *Task) Dependent(i int) *Task { return t.dependents[i].task }

// NumHolders returns the number of peers that are known to have the value.
func (t *Task) NumHolders() int { return len(t.whoHas) }

// Holder returns one of the peers that have the value.
func (t *Task) Holder(i int) *Peer { return t.whoHas[i].peer }

// ComingFrom returns the peer from which the value is being fetched, or nil.
func (t *Task) ComingFrom() *Peer { return t.comingFrom }

// String returns the key and the state.
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

// running reports whether a run is in progress.
func (t *Task) running() bool {
	switch t.state {
	case Executing, LongRunning:
		return true
	case Cancelled, Resumed:
		return t.previous == Executing || t.previous == LongRunning
	}
	return false
}

// flying reports whether a transfer is in progress.
func (t *Task) flying() bool {
	return t.state == Flight || (t.state == Cancelled || t.state == Resumed) && t.previous == Flight
}

// taskTable has all tasks by key, and the memory of forgotten ones for reuse.
type taskTable struct {
	taskid.Table[*Task]
	counts     [numStates]int
	dead, free []*Task
	chunk      []Task // not used yet
}

// ensure returns the task with a key, which it adds if necessary. The bytes of the key are copied.
func (tb *taskTable) ensure(key taskid.Key) *Task {
	hash := tb.Hash(key)
	if t := tb.Find(key, hash); t != nil {
		return t
	}
	return tb.add(key, hash)
}

// add adds a task, with the hash of its key. The bytes of the key are copied.
func (tb *taskTable) add(key taskid.Key, hash uint64) *Task {
	t := tb.alloc()
	t.key = taskid.Key(strings.Clone(string(key)))
	tb.Put(t, hash)
	tb.counts[Released]++
	return t
}

// inlineSpec is the maximum size of a spec that shares its memory with the key: the log keeps keys alive, and would
// keep specs with them.
const inlineSpec = 256

// addWithSpec adds a task that is to be run, with one allocation for key and spec.
func (tb *taskTable) addWithSpec(key taskid.Key, hash uint64, spec []byte) *Task {
	if len(spec) == 0 || len(spec) > inlineSpec {
		t := tb.add(key, hash)
		t.spec = cloneBytes(spec)
		return t
	}
	b := make([]byte, len(key)+len(spec))
	n := copy(b, key)
	copy(b[n:], spec)
	t := tb.alloc()
	t.key = taskid.Key(unsafe.String(&b[0], n)) // b is not modified after this
	if n == 0 {
		t.key = ""
	}
	t.spec = b[n:len(b):len(b)]
	tb.Put(t, hash)
	tb.counts[Released]++
	return t
}

func cloneBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

// chunk is the number of tasks that are allocated at once: few allocations, but not so large that one remaining task
// keeps much memory alive.
const chunk = 32

// alloc returns a task with no fields set, from reused memory if there is any.
func (tb *taskTable) alloc() *Task {
	var t *Task
	if n := len(tb.free); n > 0 {
		t = tb.free[n-1]
		tb.free = tb.free[:n-1]
	} else {
		if len(tb.chunk) == 0 {
			tb.chunk = make([]Task, chunk)
		}
		t = &tb.chunk[0]
		tb.chunk = tb.chunk[1:]
	}
	t.runID, t.previous, t.next, t.rec, t.pos, t.nbytes = -1, noState, noState, noState, -1, -1
	return t
}

// maxFree is the maximum number of forgotten tasks that are kept for reuse.
const maxFree = 4096

// reclaim makes the tasks that the last event forgot available for reuse.
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
