package worker

import (
	"sync"

	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/registration"
	"go.millstream.dev/worker/internal/transfer"
)

// item is one thing for the loop: a batch of the scheduler's stream, a run or a transfer
// that has ended, or a function to call.
type item struct {
	msg     *wire.Message // with session
	session *registration.Session
	run     *execution.Run
	fetch   *transfer.Fetch
	call    func()
}

// inbox is where everybody leaves items for the loop. Putting never blocks: what can wait
// in it is bounded by those who put, as each run, transfer and handler has one item and the
// stream's reader waits for its turn.
type inbox struct {
	mu     sync.Mutex
	items  []item
	closed bool

	wake chan struct{} // holds one token: there is something
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put adds an item and wakes the loop. It reports false when the worker has ended.
func (b *inbox) put(i item) bool {
	if !b.putQuietly(i) {
		return false
	}
	b.poke()
	return true
}

// putQuietly adds an item for a caller who sees to it that somebody looks.
func (b *inbox) putQuietly(i item) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.items = append(b.items, i)
	return true
}

// poke wakes the loop.
func (b *inbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what is there and gives the memory of the last turn back.
func (b *inbox) take(used []item) []item {
	clear(used)
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = used[:0]
	return items
}

// close refuses further items and returns those that nobody will handle.
func (b *inbox) close() []item {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	items := b.items
	b.items = nil
	return items
}
