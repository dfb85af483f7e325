// Package record keeps records of the last runs of a worker's tasks, with the parts of their time, in memory of a fixed
// size.
package record

import "sync"

// Ring keeps the last values that were added. Any goroutine may use it.
type Ring[T any] struct {
	mu    sync.Mutex
	list  []T
	limit int
	next  int // index of the next value once the list is full
}

// NewRing returns a Ring of the last limit values, at least one.
func NewRing[T any](limit int) *Ring[T] { return &Ring[T]{limit: max(limit, 1)} }

// Add adds a value. It replaces the oldest value of a full ring.
func (r *Ring[T]) Add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < r.limit {
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % r.limit
}

// All returns a copy of the values, oldest first.
func (r *Ring[T]) All() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]T, 0, len(r.list))
	out = append(out, r.list[r.next:]...)
	return append(out, r.list[:r.next]...)
}
