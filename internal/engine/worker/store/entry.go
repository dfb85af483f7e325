package store

import (
	"sync"

	"go.millstream.dev/internal/task"
)

// Entry is a reference-counted result.
type Entry struct {
	s      *Store
	key    task.Key
	nbytes int64

	load sync.Mutex // held while the file is read

	// The fields below are guarded by Store.mu.
	value *task.Value // nil if on disk only
	file  string      // "" if in memory only
	disk  int64       // size of the file
	raw   int64       // size of header and frames in it
	// refs is one for the store as long as the entry is not deleted, and one for each holder.
	refs int
	// pinned indicates that the value is never spilled: for actors, and for values that cannot be encoded.
	pinned bool
	gone   bool // deleted
	// device indicates that the value belongs on the device, up that it is there now.
	device, up bool
	// withdraw, if not nil, ends the publication of the value on the device.
	withdraw func()
	// writing indicates that the spiller reads the value. old is a value that was replaced meanwhile.
	writing bool
	old     *task.Value

	// prev and next are the neighbors in list, which is nil if the entry cannot be spilled or moved.
	prev, next *Entry
	list       *lru
}

// Key returns the key of the result.
func (e *Entry) Key() task.Key { return e.key }

// NBytes returns the size in memory, in bytes.
func (e *Entry) NBytes() int64 { return e.nbytes }

// Open returns the value, which is valid until Release. It reads the file if the value is on disk only, and moves a
// result of the device back to it.
func (e *Entry) Open() (*task.Value, error) {
	if v, there := e.ready(); there {
		return v, nil
	}
	e.load.Lock()
	defer e.load.Unlock()
	v, there := e.ready()
	if there { // read by another goroutine
		return v, nil
	}
	if v == nil {
		var err error
		if v, err = e.s.read(e); err != nil || !e.device {
			return v, err
		}
	}
	return e.s.promote(e)
}

// ready returns the value if it is in memory, and reports whether it is where it belongs.
func (e *Entry) ready() (v *task.Value, there bool) {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	return e.value, e.value != nil && e.up == e.device
}

// unpublish ends the publication of the value, if there is one. The caller holds Store.mu.
func (e *Entry) unpublish() {
	if e.withdraw != nil {
		e.withdraw()
		e.withdraw = nil
	}
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
