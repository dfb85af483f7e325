package ucx

import (
	"context"
	"slices"
	"sync"
	"time"
)

// mailbox is a first-in first-out queue between arriving messages and receivers that
// drive the worker's progress while they wait. put and fail may be called with the
// token held. Whoever fills it bounds it.
type mailbox[T any] struct {
	mu      sync.Mutex
	queue   []T
	waiting []*mailWait[T]
	err     error // why nothing more will come
	shut    bool  // nobody will take anything any more
}

type mailWait[T any] struct {
	req  Request
	item T
}

// put hands an item to the first receiver or queues it. It reports false, and the
// item stays the caller's, when the box is shut.
func (b *mailbox[T]) put(item T) bool {
	b.mu.Lock()
	if b.shut {
		b.mu.Unlock()
		return false
	}
	if len(b.waiting) > 0 {
		m := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		m.item = item
		m.req.finish()
		return true
	}
	b.queue = append(b.queue, item)
	b.mu.Unlock()
	return true
}

// unget returns an item that was taken and is not wanted now: it comes out next. It
// reports false, and the item stays the caller's, when the box is shut.
func (b *mailbox[T]) unget(item T) bool {
	b.mu.Lock()
	if b.shut || len(b.waiting) > 0 {
		b.mu.Unlock()
		return b.put(item)
	}
	b.queue = slices.Insert(b.queue, 0, item)
	b.mu.Unlock()
	return true
}

// recv takes the next item. What is queued comes out also after fail. When it returns
// an error of ctx nothing was taken.
func (b *mailbox[T]) recv(ctx context.Context, w *Worker) (T, error) { return b.recvWithin(ctx, w, 0) }

// recvWithin is recv of an item that is expected within a time, for which the wait does not sleep.
func (b *mailbox[T]) recvWithin(ctx context.Context, w *Worker, soon time.Duration) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	b.mu.Lock()
	if len(b.queue) > 0 {
		item := b.queue[0]
		b.queue[0] = none
		if b.queue = b.queue[1:]; len(b.queue) == 0 {
			b.queue = nil
		}
		b.mu.Unlock()
		return item, nil
	}
	if err := b.err; err != nil {
		b.mu.Unlock()
		return none, err
	}
	m := &mailWait[T]{}
	m.req.w = w
	b.waiting = append(b.waiting, m)
	b.mu.Unlock()
	if err := w.drv.awaitSoon(ctx, &m.req, soon); err != nil {
		b.mu.Lock()
		if i := slices.Index(b.waiting, m); i >= 0 {
			b.waiting = slices.Delete(b.waiting, i, i+1)
			b.mu.Unlock()
			return none, err
		}
		b.mu.Unlock()
		<-m.req.Done() // an item, or the end, came in the same moment
		if m.req.err != nil {
			return none, m.req.err
		}
		if !b.unget(m.item) {
			return m.item, nil // nobody else will give it back
		}
		return none, err
	}
	return m.item, m.req.err
}

// fail ends the waits, now and later, of receivers that find nothing queued.
func (b *mailbox[T]) fail(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, m := range waiting {
		m.req.err = err
		m.req.finish()
	}
}

// close is fail that also empties the box for good. The caller gives back what it
// returns.
func (b *mailbox[T]) close(err error) []T {
	b.fail(err)
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue, b.shut = nil, true
	return q
}

// len returns the number of queued items.
func (b *mailbox[T]) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue)
}
