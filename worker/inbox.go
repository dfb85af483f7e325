package worker

import (
	"sync"

	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/registration"
	"go.millstream.dev/worker/internal/transfer"
)

// item is one item for the loop: a batch of the scheduler's stream, a run or a transfer that has ended, or a function
// to call.
type item struct {
	msg     *wire.Message // with session
	session *registration.Session
	run     *execution.Run
	fetch   *transfer.Fetch
	call    func()
}

// inbox holds items for the loop. put never blocks. Its length is bounded by its producers: each run, transfer and
// handler has one item, and the reader of the stream waits for its turn.
type inbox struct {
	mu     sync.Mutex
	items  []item
	closed bool

	wake chan struct{} // holds one token while there are items
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds an item and wakes the loop. It returns false when the worker has closed.
func (b *inbox) put(i item) bool {
	if !b.add(i) {
		return false
	}
	b.signal()
	return true
}

// add adds an item without waking the loop: the caller handles the items, or calls signal.
func (b *inbox) add(i item) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.items = append(b.items, i)
	return true
}

// len returns the number of items.
func (b *inbox) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// signal wakes the loop.
func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns all items and reuses the memory of the previous ones.
func (b *inbox) take(used []item) []item {
	clear(used)
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = used[:0]
	return items
}

// close rejects further items and returns those that will not be handled.
func (b *inbox) close() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	items := b.items
	b.items = nil
	return items
}
