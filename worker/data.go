package worker

import (
	"sync"

	"go.millstream.dev/task"
)

// data holds the results that are here. Any goroutine may use it.
type data struct {
	mu      sync.Mutex
	entries map[task.Key]*entry
	bytes   int64
}

// entry is one result. It lives until it is deleted and nobody holds it.
type entry struct {
	key    task.Key
	value  *task.Value
	nbytes int64
	refs   int // the store's own, and one for each holder; guarded by data.mu
}

func newData() *data { return &data{entries: map[task.Key]*entry{}} }

// put adds or replaces a result.
func (d *data) put(key task.Key, v *task.Value, nbytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.entries[key]; old != nil {
		d.drop(old)
	}
	d.entries[key] = &entry{key: key, value: v, nbytes: nbytes, refs: 1}
	d.bytes += nbytes
}

// hold finds a result and keeps it until release; nil if it is not here.
func (d *data) hold(key task.Key) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[key]
	if e != nil {
		e.refs++
	}
	return e
}

func (d *data) release(e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unref(e)
}

func (d *data) unref(e *entry) {
	if e.refs--; e.refs == 0 {
		e.value.Release()
	}
}

// drop takes the store's own reference. The caller holds mu.
func (d *data) drop(e *entry) {
	delete(d.entries, e.key)
	d.bytes -= e.nbytes
	d.unref(e)
}

func (d *data) delete(key task.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[key]; e != nil {
		d.drop(e)
	}
}

func (d *data) releaseAll(list []*entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range list {
		d.unref(e)
	}
}

// open returns the value of an entry that the caller holds.
func (e *entry) open() (*task.Value, error) { return e.value, nil }

// spilled is how much is on disk: the memory that it would take, and what it takes there.
type spilled struct {
	memory, disk int64
	keys         int
}

func (d *data) spilled() spilled { return spilled{} }

// evict moves one result to disk and returns its size, 0 if none can be moved.
func (d *data) evict() int64 { return 0 }

// keys lists what is here.
func (d *data) keys() []task.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]task.Key, 0, len(d.entries))
	for k := range d.entries {
		out = append(out, k)
	}
	return out
}

func (d *data) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		d.drop(e)
	}
}
