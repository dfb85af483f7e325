package state

import (
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// ActionKind says what an Action asks for and which of its fields are set.
type ActionKind uint8

const (
	// DoExecute: run Task, then apply ExecuteSuccess, ExecuteFailure or Reschedule. The values
	// of its dependencies are in the store now; take hold of them before the next event.
	DoExecute ActionKind = iota
	// DoCancel: nobody waits for the run of Task any more: its context may be cancelled. It
	// must still end with an event. Task.Data may already be that of the next order.
	DoCancel
	// DoGather: fetch Tasks, NBytes together, from Peer, then apply one of the Gather events.
	DoGather
	// DoRetryBusy: apply RetryBusy for Peer after the time After.
	DoRetryBusy
	// DoDelete: delete the value of Key from the store. Task is nil if it was never known.
	DoDelete

	// SendTaskFinished: Task's result is here, run as RunID. (task-finished)
	SendTaskFinished
	// SendTaskErred: Task, run as RunID, has failed with Failure. (task-erred)
	SendTaskErred
	// SendAddKeys: replicas of Tasks are here. With Adopt they may be results that the
	// scheduler does not know to have been made: those of runs that another scheduler, or the
	// same before its restart, has ordered. (add-keys)
	SendAddKeys
	// SendReleaseData: Key is not here, or no longer. (release-worker-data)
	SendReleaseData
	// SendStealResponse: State is where Key was; HasState is false if it was not known: null.
	// (steal-response)
	SendStealResponse
	// SendLongRunning: Task, run as RunID, has seceded after After; HasState is false if that
	// is not known: null. (long-running)
	SendLongRunning
	// SendReschedule: Key is given back. (reschedule)
	SendReschedule
	// SendRequestRefresh: who holds Tasks? (request-refresh-who-has)
	SendRequestRefresh
)

var actionNames = [...]string{
	"execute", "cancel", "gather", "retry-busy", "delete", "task-finished", "task-erred", "add-keys",
	"release-worker-data", "steal-response", "long-running", "reschedule", "request-refresh-who-has",
}

// String is Dask's name of the message, where it is one.
func (k ActionKind) String() string {
	if int(k) < len(actionNames) {
		return actionNames[k]
	}
	return "unknown"
}

// ToScheduler tells messages to the scheduler from orders to the server.
func (k ActionKind) ToScheduler() bool { return k >= SendTaskFinished }

// Action is something that the server is to do: see ActionKind for the fields that are set.
type Action struct {
	Kind ActionKind
	// State and HasState belong to SendStealResponse.
	State    TaskState
	HasState bool
	// Adopt belongs to SendAddKeys.
	Adopt bool
	Task  *Task
	// Key is Task's. It may be kept.
	Key   taskid.Key
	Peer  *Peer
	Tasks []*Task
	// NBytes is the sum of the sizes of Tasks as far as they are known.
	NBytes int64
	RunID  int64
	After  time.Duration
	// Failure may be kept.
	Failure *Failure
	// Stimulus is that of the event, and borrowed like it.
	Stimulus string
}

// Actions is what Apply wants to be done, in order. It may be used again and again. It
// points into the state: read it before the next Apply.
type Actions struct {
	list  []Action
	tasks []*Task // what Action.Tasks points into
}

// List is the actions in order.
func (a *Actions) List() []Action { return a.list }

// Reset empties the list. Apply does so itself.
func (a *Actions) Reset() {
	clear(a.list)
	clear(a.tasks)
	a.list, a.tasks = a.list[:0], a.tasks[:0]
}

func (a *Actions) add(kind ActionKind) *Action {
	if n := len(a.list); n < cap(a.list) {
		a.list = a.list[:n+1] // Reset has cleared it
	} else {
		a.list = append(a.list, Action{})
	}
	act := &a.list[len(a.list)-1]
	act.Kind = kind
	return act
}

// keep copies a list of tasks so that an action can point to it. An earlier list stays where
// it was if the memory has to grow.
func (a *Actions) keep(tasks []*Task) []*Task {
	n := len(a.tasks)
	a.tasks = append(a.tasks, tasks...)
	return a.tasks[n:len(a.tasks):len(a.tasks)]
}
