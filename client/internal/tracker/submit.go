package tracker

import (
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
)

// Submit holds a key and queues its call, in the graph of earlier calls if possible. A key that is already held is not
// queued again, unless it was canceled.
func (t *Tracker) Submit(key task.Key, spec []byte, deps []task.Key, notes *taskgraph.Annotations,
	opts Options) (*State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil, t.closed
	}
	s, fresh := t.hold(key)
	if fresh || s.status == Canceled {
		if !fresh {
			t.renew(s)
		}
		t.queued += int64(len(spec) + len(key))
		g := t.graphFor(opts)
		g.w.Spec(key, spec, deps, g.Annotate(notes), int64(g.w.Len()))
		g.want(s)
		t.wakeWriter()
	}
	return s, nil
}

// SubmitSlab holds the keys of a graph and queues the graph. The keys are concatenated; ends[i] is the end of the key
// of handles[i]. An empty key is skipped: its handle refers to no key. The states of the keys are in one allocation.
func (t *Tracker) SubmitSlab(g *Graph, keys task.Key, ends []int32, handles []Handle) error {
	states := make([]State, len(ends))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	from := int32(0)
	g.wanted = make([]byte, 0, len(keys))
	t.keys.Grow(len(ends))
	for i, end := range ends {
		key := keys[from:end]
		from = end
		if key == "" {
			continue
		}
		hash := t.keys.Hash(key)
		s := t.keys.Find(key, hash)
		if s == nil {
			s = &states[i]
			s.key, s.where, s.born = key, -1, t.cancels
			t.keys.Put(s, hash)
		} else if s.status == Canceled {
			t.renew(s)
		}
		s.refs++
		handles[i].s = s
		g.want(s)
	}
	if g.n > 0 {
		t.queueGraph(g)
		t.wakeWriter()
	}
	return nil
}

// SubmitGraph holds the wanted keys of a graph and queues the graph. An empty key is skipped: its handle refers to no
// key.
func (t *Tracker) SubmitGraph(g *Graph, wanted []task.Key, handles []Handle) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return t.closed
	}
	for i, k := range wanted {
		if k == "" {
			continue
		}
		s, fresh := t.hold(k)
		if !fresh && s.status == Canceled {
			t.renew(s)
		}
		handles[i].s = s
		g.want(s)
	}
	if g.n > 0 {
		t.queueGraph(g)
		t.wakeWriter()
	}
	return nil
}

// Desire holds a key that a client has submitted, and queues a message about it if it was not held before.
func (t *Tracker) Desire(key task.Key) (*State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil, t.closed
	}
	s, fresh := t.hold(key)
	if fresh {
		t.queue(&message.ClientDesiresKeys{Keys: []task.Key{key}, Client: t.cfg.ID})
	}
	return s, nil
}

// Hold holds keys whose data is about to be scattered.
func (t *Tracker) Hold(keys []task.Key) ([]*State, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil, t.closed
	}
	out := make([]*State, len(keys))
	for i, k := range keys {
		out[i], _ = t.hold(k)
	}
	return out, nil
}

// Scattered marks pending keys as finished: workers have their data.
func (t *Tracker) Scattered(keys []*State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range keys {
		if !s.status.Ended() {
			s.end(Finished, nil)
		}
	}
}
