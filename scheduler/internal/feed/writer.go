package feed

import (
	"sync"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
)

// writer adds samples and events to the store in a goroutine of its own, because the store may be locked by a query,
// for which the loop must not wait.
type writer struct {
	store *spans.Store
	queue chan entry
	done  chan struct{}
	once  sync.Once
}

// entry is a sample or, if json is not nil, an event.
type entry struct {
	at    time.Time
	name  string
	value float64
	json  []byte
}

// queueLength bounds the entries that wait for the store. Further ones are dropped.
const queueLength = 1024

func newWriter(store *spans.Store) *writer {
	w := &writer{store: store, queue: make(chan entry, queueLength), done: make(chan struct{})}
	go w.run()
	return w
}

func (w *writer) run() {
	defer close(w.done)
	for e := range w.queue {
		if e.json != nil {
			w.store.Event(e.at, e.name, e.json)
		} else {
			w.store.Sample(e.at, e.name, e.value)
		}
	}
}

// add queues an entry, and reports whether there was room.
func (w *writer) add(e entry) bool {
	select {
	case w.queue <- e:
		return true
	default:
		return false
	}
}

// close waits until all entries are in the store. No more may be added.
func (w *writer) close() {
	w.once.Do(func() { close(w.queue) })
	<-w.done
}
