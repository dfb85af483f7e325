package worker

import "sync"

// ring keeps the last values of many. Any goroutine may use it.
type ring[T any] struct {
	mu    sync.Mutex
	list  []T
	limit int
	next  int // where the next value goes once the list is full
}

func newRing[T any](limit int) *ring[T] { return &ring[T]{limit: max(limit, 1)} }

func (r *ring[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) < r.limit {
		r.list = append(r.list, v)
		return
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % r.limit
}

// all returns the values, oldest first.
func (r *ring[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]T, 0, len(r.list))
	out = append(out, r.list[r.next:]...)
	return append(out, r.list[:r.next]...)
}
