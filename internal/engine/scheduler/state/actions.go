package state

import "go.millstream.dev/internal/task/taskid"

// ActionKind is the kind of an Action and determines which of its fields are set.
type ActionKind uint8

const (
	// ActionNone is no action: an order that was canceled within the same event.
	ActionNone ActionKind = iota

	// Messages to Worker:

	// ComputeTask orders the worker to run Task as RunID. Further fields of the message are in the Task.
	ComputeTask
	// FreeKeys orders the worker to release Keys.
	FreeKeys
	// RemoveReplicas orders the worker to drop its replicas of Keys, which are already removed from the state.
	RemoveReplicas
	// AcquireReplicas orders the worker to fetch Tasks from their holders.
	AcquireReplicas
	// StealRequest requests the worker to give up Task if it has not started; StealResponse must have the same Number.
	StealRequest
	// RefreshWhoHas reports the current holders of Tasks, possibly none.
	RefreshWhoHas
	// ForgetPeer reports that the worker with the address Text was removed (remove-worker).
	ForgetPeer
	// StatusChange orders the worker to change its status to Status.
	StatusChange
	// CloseWorker orders the worker to close; Text is the reason.
	CloseWorker
	// StoreValues passes the values of Tasks to the worker, which holds them from then on.
	StoreValues

	// Messages to Client:

	// KeyInMemory reports that Task is done; Text is its encoded value if that is short and just reported.
	KeyInMemory
	// KeyErred reports that Key has failed with Failure. Task is nil if there never was one (task-erred).
	KeyErred
	// LostData reports that Task's result is lost and is being recomputed, if possible.
	LostData
	// CancelledKeys reports that Keys are canceled; Text is the reason, Msg the message of the canceling client.
	CancelledKeys
	// TaskRetried reports that Task runs again.
	TaskRetried
	// ClientRestart reports that all futures are invalid (restart).
	ClientRestart

	// Actions of the server:

	// RequestDone reports that the request Number has ended; Keys are those for which it could not be met.
	RequestDone
	// WorkerRemoved reports that the state has removed Worker by itself (RetireWorkers.Remove). Earlier actions in the
	// list may still be for it, although State.Worker does not return it any more.
	WorkerRemoved
	// LogEvent reports that Text happened to Worker, Client or Task, as far as they are set, for the log.
	LogEvent
	// TaskMoved reports that Task, which is watched, changed its state From To.
	TaskMoved
)

var actionNames = [...]string{
	"none", "compute-task", "free-keys", "remove-replicas", "acquire-replicas", "steal-request", "refresh-who-has",
	"remove-worker", "worker-status-change", "close", "millstream-values", "key-in-memory", "task-erred", "lost-data",
	"cancelled-keys",
	"task-retried", "restart", "request-done", "worker-removed", "log-event", "task-moved",
}

// String returns Dask's name of the message, if there is one.
func (k ActionKind) String() string {
	if int(k) < len(actionNames) {
		return actionNames[k]
	}
	return "unknown"
}

// Action is an order for the server: see ActionKind for the fields that are set.
type Action struct {
	Kind     ActionKind
	Status   WorkerStatus
	From, To TaskState
	// Worker or Client is the receiver; the other is -1. For actions of the server, they are its subject.
	Worker WorkerID
	Client ClientID
	Task   *Task
	// Key is the key of Task.
	Key taskid.Key
	// RunID is the ID of the run: Task may have another one since.
	RunID   int64
	Number  uint64
	Keys    []taskid.Key
	Tasks   []*Task
	Failure *Failure
	Text    string
	Msg     string
}

// Actions are the actions that Apply returns, in order. It may be reused. It points into the state: read it before the
// next Apply.
type Actions struct {
	list  []Action
	keys  []taskid.Key // memory of the actions' Keys
	tasks []*Task      // memory of the actions' Tasks
}

// List returns the actions in order. Those of kind ActionNone must be skipped.
func (a *Actions) List() []Action { return a.list }

// Reset empties the list. Apply calls it.
func (a *Actions) Reset() {
	clear(a.list)
	a.list = a.list[:0]
	a.keys = reuse(a.keys)
	a.tasks = reuse(a.tasks)
}

// reuse returns an empty slice with the memory of s, unless that is large.
func reuse[T any](s []T) []T {
	const most = 1 << 14
	if cap(s) > most {
		return nil
	}
	clear(s)
	return s[:0]
}

func (a *Actions) add(kind ActionKind) *Action {
	if n := len(a.list); n < cap(a.list) {
		a.list = a.list[:n+1] // Reset has cleared it
	} else {
		a.list = append(a.list, Action{})
	}
	act := &a.list[len(a.list)-1]
	act.Kind, act.Worker, act.Client = kind, NoWorker, NoClient
	return act
}

// outbox collects the actions of an event.
type outbox struct {
	*Actions
	freeing []*Worker // workers with keys to be freed
	value   string    // of the task that has just finished; "" if it is not known
}

// Keys to be freed are collected per worker, so that a client that releases a hundred thousand results costs one
// message per worker. They must not follow an order to compute the same key again: order flushes those of its worker
// first.

// free orders a worker to release a task. An order to compute it that is still in the list is canceled instead.
func (o *outbox) free(w *Worker, t *Task) {
	if w.removed {
		return
	}
	if i := int(t.sent) - 1; i >= 0 && i < len(o.list) {
		if a := &o.list[i]; a.Kind == ComputeTask && a.Task == t && a.Worker == w.id && a.RunID == t.runID {
			*a = Action{Kind: ActionNone, Worker: NoWorker, Client: NoClient}
			t.sent = 0
			return
		}
	}
	o.freeKey(w, t.key)
}

func (o *outbox) freeKey(w *Worker, k taskid.Key) {
	if len(w.freeing) == 0 {
		o.freeing = append(o.freeing, w)
	}
	w.freeing = append(w.freeing, k)
}

func (o *outbox) flushWorker(w *Worker) {
	if len(w.freeing) == 0 {
		return
	}
	if !w.removed {
		a := o.add(FreeKeys)
		a.Worker = w.id
		a.Keys = o.copyKeys(w.freeing)
	}
	w.freeing = reuse(w.freeing)
}

// flush adds the collected orders.
func (o *outbox) flush() {
	for i, w := range o.freeing {
		o.flushWorker(w)
		o.freeing[i] = nil
	}
	o.freeing = o.freeing[:0]
}

func (a *Actions) copyKeys(keys []taskid.Key) []taskid.Key {
	from := len(a.keys)
	a.keys = append(a.keys, keys...)
	return a.keys[from:len(a.keys):len(a.keys)]
}

func (a *Actions) copyTasks(tasks []*Task) []*Task {
	from := len(a.tasks)
	a.tasks = append(a.tasks, tasks...)
	return a.tasks[from:len(a.tasks):len(a.tasks)]
}

// order sends a task to a worker, as a new run.
func (s *State) order(t *Task, w *Worker) {
	s.out.flushWorker(w)
	s.runs++
	t.runID = int64(s.cfg.Epoch)<<32 + s.runs
	s.tasks.runs.note(t, s.counts[Processing])
	a := s.out.add(ComputeTask)
	a.Worker, a.Task, a.Key, a.RunID = w.id, t, t.key, t.runID
	t.sent = int32(len(s.out.list))
}

// report notifies a client of the result of a task, if it is done or erred.
func (o *outbox) report(c *Client, t *Task) {
	if c.id == FireAndForget {
		return
	}
	switch t.state {
	case Memory:
		o.notify(KeyInMemory, c, t)
	case Erred:
		o.notify(KeyErred, c, t).Failure = t.failure
	}
}

// notify sends a client a message about a task.
func (o *outbox) notify(kind ActionKind, c *Client, t *Task) *Action {
	a := o.add(kind)
	a.Client, a.Task, a.Key = c.id, t, t.key
	return a
}

// notifyAll sends it to all clients that hold the task.
func (o *outbox) notifyAll(kind ActionKind, t *Task) {
	for i := range t.wants {
		if c := t.wants[i].c; c.id != FireAndForget {
			a := o.notify(kind, c, t)
			if a.Failure = t.failure; kind == KeyInMemory {
				a.Text = o.value
			}
		}
	}
}

func (o *outbox) cancelKeys(c *Client, keys []taskid.Key, reason, msg string) {
	if c.id == FireAndForget || len(keys) == 0 {
		return
	}
	a := o.add(CancelledKeys)
	a.Client, a.Keys, a.Text, a.Msg = c.id, o.copyKeys(keys), reason, msg
}

func (o *outbox) logEvent(text string) *Action {
	a := o.add(LogEvent)
	a.Text = text
	return a
}

// reportMove notifies the server of a watched task's new state.
func (o *outbox) reportMove(t *Task, to TaskState) {
	a := o.add(TaskMoved)
	a.Task, a.Key, a.From, a.To = t, t.key, t.state, to
}
