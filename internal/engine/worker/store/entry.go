package store

import (
	"sync"

	"go.millstream.dev/internal/task"
)

// Entry is a result that somebody holds.
type Entry struct {
	s      *Store
	key    task.Key
	nbytes int64

	load sync.Mutex // is held while the file is read

	// The rest is guarded by Store.mu.
	value *task.Value // nil if it is on disk only
	file  string      // "" if it is in memory only
	disk  int64       // size of the file
	raw   int64       // size of header and frames in it
	// refs is one for the store as long as it is not deleted, and one for each holder.
	refs int
	// pinned: it never goes to disk. For actors, and for what cannot be encoded.
	pinned bool
	gone   bool // deleted
	// device: its place is the device. up: that is where the value is now.
	device, up bool
	// writing: the spiller reads the value. old is one that was replaced meanwhile.
	writing bool
	old     *task.Value

	// prev and next are its neighbours in the list of what can go to disk; list is that list,
	// or nil.
	prev, next *Entry
	list       *lru
}

// Key names the result.
func (e *Entry) Key() task.Key { return e.key }

// NBytes is its size in memory.
func (e *Entry) NBytes() int64 { return e.nbytes }

// Open returns the value, which is valid until Release. It reads the file if the value is on
// disk only, and brings a result of the device back to it.
func (e *Entry) Open() (*task.Value, error) {
	if v, there := e.ready(); there {
		return v, nil
	}
	e.load.Lock()
	defer e.load.Unlock()
	v, there := e.ready()
	if there { // somebody else has read it
		return v, nil
	}
	if v == nil {
		var err error
		if v, err = e.s.read(e); err != nil || !e.device {
			return v, err
		}
	}
	return e.s.lift(e)
}

// ready returns the value if it is in memory, and tells whether that is its place.
func (e *Entry) ready() (v *task.Value, there bool) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.value, e.value != nil && e.up == e.device
}

// lru is a list of entries, the least recently used first.
type lru struct{ first, last *Entry }

func (l *lru) push(e *Entry) {
	e.list, e.prev, e.next = l, l.last, nil
	if l.last != nil {
		l.last.next = e
	} else {
		l.first = e
	}
	l.last = e
}

func (l *lru) remove(e *Entry) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.last = e.prev
	}
	e.list, e.prev, e.next = nil, nil, nil
}
