package tracker

import (
	"fmt"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// addresses numbers addresses of workers, so that a key's state has a small one.
type addresses struct {
	list  []string
	index map[string]int32
}

// readFirst reads a list of addresses and returns the index of the first, -1 if there is none.
func (a *addresses) readFirst(r *msgpack.Reader) (int32, error) {
	if r.Kind() != msgpack.Array {
		return -1, r.Skip()
	}
	n, err := r.ReadArrayLen()
	if err != nil {
		return -1, err
	}
	at := int32(-1)
	for i := range n {
		b, err := r.ReadStringBytes()
		if err != nil {
			return -1, err
		}
		if i == 0 {
			at = a.add(b)
		}
	}
	return at, nil
}

// add returns the index of an address.
func (a *addresses) add(b []byte) int32 {
	if i, ok := a.index[string(b)]; ok {
		return i
	}
	i := int32(len(a.list))
	a.list = append(a.list, string(b))
	a.index[string(b)] = i
	return i
}

// Place returns the address of a worker that has the result of a key, "" if none is known.
func (t *Tracker) Place(s *State) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.where < 0 {
		return ""
	}
	return t.addresses.list[s.where]
}

// ByWorker sorts keys by a worker that has them, as indices in keys; unknown are those of which none is known.
func (t *Tracker) ByWorker(keys []*State, which []int) (byWorker map[string][]int, unknown []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lists := make([][]int, len(t.addresses.list))
	for _, i := range which {
		if w := keys[i].where; w >= 0 {
			lists[w] = append(lists[w], i)
		} else {
			unknown = append(unknown, i)
		}
	}
	byWorker = make(map[string][]int)
	for w, l := range lists {
		if len(l) > 0 {
			byWorker[t.addresses.list[w]] = l
		}
	}
	return byWorker, unknown
}

// SetPlaces applies the answer to who_has, a map from keys to lists of addresses.
func (t *Tracker) SetPlaces(body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	if err != nil {
		return fmt.Errorf("client: answer to who_has: %w", err)
	}
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return fmt.Errorf("client: answer to who_has: %w", err)
		}
		s := t.keys[task.Key(k)]
		at, err := t.addresses.readFirst(&r)
		if err != nil {
			return fmt.Errorf("client: answer to who_has: %w", err)
		}
		if s != nil {
			s.where = at
		}
	}
	return nil
}

// ForgetPlaces forgets where results are that were not there. It reports whether a place was known of any.
func (t *Tracker) ForgetPlaces(keys []*State, which []int) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range which {
		known = known || keys[i].where >= 0
		keys[i].where = -1
	}
	return known
}

// Recheck makes keys that were finished lost and asks the scheduler about them: no worker has the results.
func (t *Tracker) Recheck(keys []*State, which []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range which {
		s := keys[i]
		if s.status == Finished {
			s.status, s.where = Lost, -1
		}
		b := msgpack.AppendMapHeader(nil, 2)
		b = appendField(b, "op", "report-key")
		b = append(msgpack.AppendString(b, "key"), s.key...)
		t.queue(b)
	}
}
