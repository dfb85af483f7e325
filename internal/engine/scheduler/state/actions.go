package state

import "go.millstream.dev/internal/task/taskid"

// ActionKind says what an Action asks for and which of its fields are set.
type ActionKind uint8

const (
	// ActionNone is nothing: an order that was taken back within the same event.
	ActionNone ActionKind = iota

	// To Worker:

	// ComputeTask: run Task as RunID. What else the message needs is in the Task.
	ComputeTask
	// FreeKeys: forget Keys.
	FreeKeys
	// RemoveReplicas: drop the replicas of Keys; the state has forgotten them already.
	RemoveReplicas
	// AcquireReplicas: fetch Tasks from their holders.
	AcquireReplicas
	// StealRequest: give Task back if it has not started; Number must come back in StealResponse.
	StealRequest
	// RefreshWhoHas: the holders of Tasks, possibly none, are as they are now.
	RefreshWhoHas
	// ForgetPeer: the worker with the address Text has gone. (remove-worker)
	ForgetPeer
	// StatusChange: take Status.
	StatusChange
	// CloseWorker: end; Text is the reason.
	CloseWorker

	// To Client:

	// KeyInMemory: Task is done.
	KeyInMemory
	// KeyErred: Key has failed with Failure. Task is nil if there never was one. (task-erred)
	KeyErred
	// LostData: Task's result is lost and is being computed again, if it can be.
	LostData
	// CancelledKeys: Keys are cancelled; Text is the reason, Msg the message of who cancelled.
	CancelledKeys
	// TaskRetried: Task runs again.
	TaskRetried
	// ClientRestart: all futures are void. (restart)
	ClientRestart

	// To the server itself:

	// RequestDone: the request Number has ended; Keys are those for which it could not be met.
	RequestDone
	// WorkerRemoved: Worker has been removed by the state itself (RetireWorkers.Remove). Actions before it in
	// the list may still be for it, though State.Worker does not know it any more.
	WorkerRemoved
	// LogEvent: Text happened to Worker, Client or Task as far as they are set: for people.
	LogEvent
	// TaskMoved: Task, which is watched, went From one state To another.
	TaskMoved
)

var actionNames = [...]string{
	"none", "compute-task", "free-keys", "remove-replicas", "acquire-replicas", "steal-request", "refresh-who-has",
	"remove-worker", "worker-status-change", "close", "key-in-memory", "task-erred", "lost-data", "cancelled-keys",
	"task-retried", "restart", "request-done", "worker-removed", "log-event", "task-moved",
}

// String is Dask's name of the message, where there is one.
func (k ActionKind) String() string {
	if int(k) < len(actionNames) {
		return actionNames[k]
	}
	return "unknown"
}

// Action is something that the server is to do: see ActionKind for the fields that are set.
type Action struct {
	Kind     ActionKind
	Status   WorkerStatus
	From, To TaskState
	// Worker or Client is the receiver; the other is -1. For ActionKinds to the server, what it is about.
	Worker WorkerID
	Client ClientID
	Task   *Task
	// Key is Task's.
	Key taskid.Key
	// RunID is that of the run: Task may have got another one since.
	RunID   int64
	Number  uint64
	Keys    []taskid.Key
	Tasks   []*Task
	Failure *Failure
	Text    string
	Msg     string
}

// Actions is what Apply wants to be done, in order. It may be used again and again. It points into the state:
// read it before the next Apply.
type Actions struct {
	list  []Action
	keys  []taskid.Key // what the actions' Keys are slices of
	tasks []*Task      // the same for Tasks
}

// List is the actions in order. Those of kind ActionNone are to be passed over.
func (a *Actions) List() []Action { return a.list }

// Reset empties the list. Apply does so itself.
func (a *Actions) Reset() {
	clear(a.list)
	a.list = a.list[:0]
	a.keys = emptied(a.keys)
	a.tasks = emptied(a.tasks)
}

// emptied keeps the memory of a slice for the next time, unless it is a lot.
func emptied[T any](s []T) []T {
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

// outbox is what an event wants to be done, and what of it is collected until the event is over.
type outbox struct {
	*Actions
	freeing []*Worker // with keys to be freed
}

// Keys to be freed are collected per worker, so that a client that lets go of a hundred thousand results costs one
// message per worker. They must not come after an order to compute the same key again: compute flushes
// those of its worker first.

// free orders a worker to forget a task. An order to compute it that has not left yet is taken back instead.
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
	w.freeing = emptied(w.freeing)
}

// flush sends what has been collected.
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

// compute sends a task to the worker that processes it, as a new run.
func (s *State) compute(t *Task) {
	w := t.worker
	s.out.flushWorker(w)
	s.runs++
	t.runID = int64(s.cfg.Epoch)<<32 + s.runs
	s.tasks.runs.note(t, s.counts[Processing])
	a := s.out.add(ComputeTask)
	a.Worker, a.Task, a.Key, a.RunID = w.id, t, t.key, t.runID
	t.sent = int32(len(s.out.list))
}

// report tells a client how a task stands, if it is done one way or the other.
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

// tell sends a client a word about a task.
func (o *outbox) notify(kind ActionKind, c *Client, t *Task) *Action {
	a := o.add(kind)
	a.Client, a.Task, a.Key = c.id, t, t.key
	return a
}

// tellAll sends it to all who want the task.
func (o *outbox) notifyAll(kind ActionKind, t *Task) {
	for i := range t.wants {
		if c := t.wants[i].c; c.id != FireAndForget {
			o.notify(kind, c, t).Failure = t.failure
		}
	}
}

func (o *outbox) cancelled(c *Client, keys []taskid.Key, reason, msg string) {
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

// moved tells the server of a watched task's new state.
func (o *outbox) moved(t *Task, to TaskState) {
	a := o.add(TaskMoved)
	a.Task, a.Key, a.From, a.To = t, t.key, t.state, to
}
