package tracker

import (
	"log/slog"
	"sync"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
)

// Config describes a Tracker.
type Config struct {
	// ID is the client's id.
	ID string
	// Registry returns the hash of functions that graphs of this client need of their workers.
	Registry func() string
	// Failure returns the error of a task from what the scheduler sent of it.
	Failure func(key task.Key, exception, traceback any) error
	// Event is called for each event of a topic, without a lock held. What it gets is valid until it returns.
	Event func(topic string, event any)
	// Log gets warnings about tasks that no worker can run.
	Log *slog.Logger
}

// Identity distinguishes a scheduler from the one that was there before it.
type Identity struct {
	ID    string
	Epoch int64
}

// IsDask reports whether the scheduler is Dask's: those of this module have an id.
func (s Identity) IsDask() bool { return s.ID == "" }

// Tracker tracks the keys that the futures of one client hold. Any number of goroutines may use it.
type Tracker struct {
	cfg  Config
	wake chan struct{} // holds a token: something is queued

	mu        sync.Mutex // guards all below
	keys      map[task.Key]*State
	out       []Item
	queued    int64               // bytes of graphs in out
	space     chan struct{}       // closed when out has been emptied; nil while no caller waits
	graphs    map[*Graph]struct{} // that have tasks which have not ended
	seq       int                 // of the last graph
	releasing []task.Key          // keys whose last future is gone
	addresses addresses           // of workers
	cancels   int64               // calls of Cancel so far
	unordered []*Graph            // graphs that Dask's scheduler has to order
	short     []Shortage          // from the scheduler's last message about them
	shortNews chan struct{}       // closed at the next message about shortages; nil while no caller waits
	closed    error               // why nothing more is sent; nil while the client lives
	identity  Identity
	memory    message.KeyInMemory // its memory is used from one message to the next
}

// New returns an empty tracker.
func New(cfg Config) *Tracker {
	return &Tracker{cfg: cfg, wake: make(chan struct{}, 1), keys: make(map[task.Key]*State),
		graphs: make(map[*Graph]struct{}), addresses: addresses{index: make(map[string]int32)}}
}

// Connected sets the scheduler that the client has registered with first. Resume is for later ones.
func (t *Tracker) Connected(id Identity) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.identity = id
}

// Err returns why the client has ended, nil while it lives.
func (t *Tracker) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Close ends all futures with ErrClosed and queues the messages by which a client leaves the scheduler. It has no
// effect on a client that has ended.
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

// Fail ends the client: nothing more will be sent or received. The first cause stays.
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
	for _, s := range t.keys {
		if !s.status.Ended() {
			s.end(Canceled, &canceledError{key: s.key, cause: cause})
		}
	}
}
