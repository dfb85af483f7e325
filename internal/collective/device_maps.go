package collective

import (
	"math"
	"sync"

	"go.millstream.dev/mem"
)

// mappings are the other ranks' allocations that this process has opened. They belong to the hub: opening costs up to
// milliseconds, and lanes come and go.
type mappings struct {
	mu   sync.Mutex
	m    map[mapKey]*mapping
	tick uint64
	done bool
}

// mapKey is an allocation of a rank, opened for a device.
type mapKey struct {
	rank, device int
	id           uint64
}

// mapping is an allocation that one goroutine opens and others wait for. The cache holds one reference.
type mapping struct {
	ready chan struct{}
	buf   *mem.Buffer
	err   error
	used  uint64
	from  *where
}

// maxMappings bounds what is kept open; with pools there are a few for each rank.
const maxMappings = 512

// get returns an allocation, which the caller releases, opening it if it is not.
func (m *mappings) get(k mapKey, w *where, open func() (*mem.Buffer, error)) (*mem.Buffer, error) {
	for {
		m.mu.Lock()
		if m.done {
			m.mu.Unlock()
			return nil, ErrClosed
		}
		m.tick++
		e := m.m[k]
		if e == nil {
			break
		}
		e.used = m.tick
		select {
		case <-e.ready:
			if e.err == nil {
				b := e.buf.Retain()
				m.mu.Unlock()
				return b, nil
			}
		default:
		}
		m.mu.Unlock()
		<-e.ready
		if e.err != nil {
			return nil, e.err
		}
	}
	old := m.outdated(k, w)
	e := &mapping{ready: make(chan struct{}), used: m.tick, from: w}
	if m.m == nil {
		m.m = map[mapKey]*mapping{}
	}
	m.m[k] = e
	old = append(old, m.evict()...)
	m.mu.Unlock()
	for _, b := range old {
		b.Release()
	}
	b, err := open()
	m.mu.Lock()
	keep := err == nil && !m.done
	if e.buf, e.err = b, err; !keep && m.m[k] == e {
		delete(m.m, k)
	}
	if keep {
		b.Retain()
	}
	if e.err == nil && !keep {
		e.err = ErrClosed // for those who wait; this caller still has its own
	}
	close(e.ready)
	m.mu.Unlock()
	return b, err
}

// evict takes the one that was not used for longest out, when there are too many.
func (m *mappings) evict() []*mem.Buffer {
	if len(m.m) <= maxMappings {
		return nil
	}
	var key mapKey
	var oldest *mapping
	for k, e := range m.m {
		select {
		case <-e.ready:
			if oldest == nil || e.used < oldest.used {
				key, oldest = k, e
			}
		default: // being opened
		}
	}
	if oldest == nil {
		return nil
	}
	delete(m.m, key)
	return []*mem.Buffer{oldest.buf}
}

// outdated takes out what lies where a new allocation of the rank is: it was freed there, and the driver does not open
// an allocation while an older one at its place is open.
func (m *mappings) outdated(k mapKey, w *where) (old []*mem.Buffer) {
	for other, e := range m.m {
		if other.rank != k.rank || e.from.base >= w.base+w.size || w.base >= e.from.base+e.from.size {
			continue
		}
		select {
		case <-e.ready:
			delete(m.m, other)
			if e.err == nil {
				old = append(old, e.buf)
			}
		default: // being opened by another lane
		}
	}
	return old
}

// forget lets go of all that is open of a rank.
func (m *mappings) forget(rank int) {
	m.mu.Lock()
	old := m.outdated(mapKey{rank: rank}, &where{size: math.MaxUint64})
	m.mu.Unlock()
	for _, b := range old {
		b.Release()
	}
}

// close lets go of all.
func (m *mappings) close() {
	m.mu.Lock()
	m.done = true
	list := m.m
	m.m = nil
	m.mu.Unlock()
	for _, e := range list {
		select {
		case <-e.ready:
			if e.err == nil {
				e.buf.Release()
			}
		default: // whoever opens it sees that it is over
		}
	}
}
