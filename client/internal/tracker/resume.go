package tracker

import (
	"slices"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
)

// Disconnected is called when the connection to the scheduler is lost. Dask's scheduler forgets a client whose
// connection ends: all futures are canceled. It returns the items of unsent that must be sent again.
func (t *Tracker) Disconnected(unsent []Item) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.identity.IsDask() {
		return unsent
	}
	t.forget()
	return nil
}

// forget cancels all futures and empties the queue. The caller holds mu.
func (t *Tracker) forget() {
	for s := range t.keys.All() {
		s.cancel("scheduler-connection-lost", "connection to the scheduler lost; submit "+
			"the work again")
	}
	t.out, t.queued, t.releasing, t.unordered = nil, 0, t.releasing[:0], nil
	clear(t.graphs)
	t.freeSpace()
}

// Resume queues the messages for a scheduler that may have lost its state: the graphs whose tasks have not ended, then
// the unsent items, then the wanted keys. Messages may be sent twice.
func (t *Tracker) Resume(id Identity, unsent []Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id.IsDask() && !t.identity.IsDask() { // another scheduler uses the address now
		t.forget()
		unsent = nil
	}
	t.identity = id
	t.forgetShortages()
	old := append(unsent, t.out...)
	t.out = nil
	queued := make(map[*Graph]bool)
	for _, it := range old {
		if it.graph != nil {
			queued[it.graph] = true
		}
	}
	var again []*Graph
	for g := range t.graphs {
		if !queued[g] && g.sealed != nil && g.left > 0 {
			again = append(again, g)
			g.wanted, g.n = nil, 0 // keys that were released in the meantime are not wanted
		}
	}
	slices.SortFunc(again, func(a, b *Graph) int { return a.seq - b.seq })
	for _, g := range again {
		t.out = append(t.out, Item{graph: g})
	}
	t.out = append(t.out, old...)
	var wanted []task.Key
	for s := range t.keys.All() {
		switch g := s.graph; {
		case g != nil && !queued[g] && g.sealed != nil:
			g.wanted = append(g.wanted, s.key...)
			g.n++
		case g == nil && s.status != Canceled:
			wanted = append(wanted, s.key)
		}
	}
	if len(wanted) > 0 {
		t.queue(&message.ClientDesiresKeys{Keys: wanted, Client: t.cfg.ID})
	}
	t.wakeWriter()
}
