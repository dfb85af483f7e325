package tracker

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
)

// addresses numbers the addresses of workers, so that the state of a key is small.
type addresses struct {
	list  []string
	index map[string]int32
}

// first returns the index of the first address in a list, or -1 if the list is empty. It does not keep the list.
func (a *addresses) first(list []string) int32 {
	if len(list) == 0 {
		return -1
	}
	if i, ok := a.index[list[0]]; ok {
		return i
	}
	i, address := int32(len(a.list)), strings.Clone(list[0])
	a.list = append(a.list, address)
	a.index[address] = i
	return i
}

// Place returns the address of a worker that has the result of a key, or "" if none is known.
func (t *Tracker) Place(s *State) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.where < 0 {
		return ""
	}
	return t.addresses.list[s.where]
}

// ByWorker groups keys by a worker that has their results, as indices in keys; unknown are the keys without a known
// worker.
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

// SetPlaces applies the reply to who_has, a map from keys to lists of addresses.
func (t *Tracker) SetPlaces(body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := message.EachHolder(body, func(k []byte, workers []string) {
		if s := t.keys.Get(task.Key(k)); s != nil {
			s.where = t.addresses.first(workers)
		}
	})
	if err != nil {
		return fmt.Errorf("client: reply to who_has: %w", err)
	}
	return nil
}

// ForgetPlaces forgets locations at which results were not found. It reports whether any location was known.
func (t *Tracker) ForgetPlaces(keys []*State, which []int) (known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range which {
		known = known || keys[i].where >= 0
		keys[i].where = -1
	}
	return known
}

// Recheck marks finished keys as lost and requests their state from the scheduler: no worker has the results.
func (t *Tracker) Recheck(keys []*State, which []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, i := range which {
		s := keys[i]
		if s.status == Finished {
			s.status, s.where = Lost, -1
		}
		t.queue(&message.ReportKey{Key: s.key})
	}
}
