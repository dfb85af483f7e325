package tracker

import (
	"log/slog"
	"sync"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskid"
	"go.millstream.dev/internal/wire/message"
)

// Config configures a Tracker.
type Config struct {
	// ID is the ID of the client.
	ID string
	// Registry returns the hash of the functions that workers must have to run graphs of this client.
	Registry func() string
	// Failure returns the error of a task from the exception and traceback in a message of the scheduler.
	Failure func(key task.Key, exception, traceback any) error
	// Event is called for each event of a topic, without a lock held. Its arguments are valid until it returns.
	Event func(topic string, event any)
	// Log receives warnings about tasks that no worker can run.
	Log *slog.Logger
}

// Identity distinguishes a scheduler from an earlier one at the same address.
type Identity struct {
	ID    string
	Epoch int64
}

// IsDask reports whether the scheduler is Dask's: schedulers of this module have an ID.
func (s Identity) IsDask() bool { return s.ID == "" }

// Tracker tracks the keys that the futures of one client hold. It is safe for concurrent use.
type Tracker struct {
	cfg  Config
	wake chan struct{} // holds a token if something is queued

	mu        sync.Mutex // guards all below
	keys      taskid.Table[*State]
	out       []Item
	queued    int64               // bytes of graphs in out
	space     chan struct{}       // closed when out has been emptied; nil while no caller waits
	graphs    map[*Graph]struct{} // graphs with tasks that have not ended
	seq       int                 // number of the last graph
	releasing []task.Key          // keys whose last future was released
	addresses addresses           // of workers
	cancels   int64               // calls of Cancel so far
	unordered []*Graph            // graphs that Dask's scheduler has to order
	short     []Shortage          // from the scheduler's last message about them
	shortNews chan struct{}       // closed at the next message about shortages; nil while no caller waits
	closed    error               // why nothing more is sent; nil while the client runs
	identity  Identity
	memory    message.KeyInMemory // reused for all messages
	values    values              // memory of the values of keys
}

// New returns an empty tracker.
func New(cfg Config) *Tracker {
	return &Tracker{cfg: cfg, wake: make(chan struct{}, 1), graphs: make(map[*Graph]struct{}),
		addresses: addresses{index: make(map[string]int32)}}
}

// Connected sets the first scheduler with which the client has registered. Resume sets later ones.
func (t *Tracker) Connected(id Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.identity = id
}

// Err returns why the client has ended, or nil while it runs.
func (t *Tracker) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Close ends all futures with ErrClosed and queues the messages that unregister the client. It has no effect on a
// client that has ended.
func (t *Tracker) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return
	}
	t.closed = ErrClosed
	t.endAll(ErrClosed)
	t.queue(&message.CloseClient{})
	t.queue(&message.CloseStream{})
	t.freeSpace()
}

// Fail ends the client: nothing is sent or received afterwards. The first cause is kept.
func (t *Tracker) Fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed == nil {
		t.closed = err
	}
	t.endAll(t.closed)
	t.freeSpace()
}

// endAll ends all keys that have not ended. The caller holds mu.
func (t *Tracker) endAll(cause error) {
	for s := range t.keys.All() {
		if !s.status.Ended() {
			s.end(Canceled, &canceledError{key: s.key, cause: cause})
		}
	}
}
