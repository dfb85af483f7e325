package collective

import (
	"math"
	"sync"

	"go.millstream.dev/mem"
)

// mappings has the allocations of other ranks that this process has opened. It belongs to the hub, because opening
// takes up to milliseconds and groups are created often.
type mappings struct {
	mu   sync.Mutex
	m    map[mapKey]*mapping
	tick uint64
	done bool
}

// mapKey identifies an allocation of a rank that is open for a device.
type mapKey struct {
	rank, device int
	id           uint64
}

// mapping is an allocation that one goroutine opens while others wait. The cache holds one reference.
type mapping struct {
	ready chan struct{}
	buf   *mem.Buffer
	err   error
	used  uint64
	from  *bufferRef
}

// maxMappings bounds the number of open allocations; with pools there are a few for each rank.
const maxMappings = 512

// get returns an allocation and opens it if necessary. The caller releases it.
func (m *mappings) get(k mapKey, w *bufferRef, open func() (*mem.Buffer, error)) (*mem.Buffer, error) {
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
	old := m.removeOverlapping(k, w)
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
		e.err = ErrClosed // for waiting callers; this caller keeps its own reference
	}
	close(e.ready)
	m.mu.Unlock()
	return b, err
}

// evict removes the least recently used mapping if there are too many.
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

// removeOverlapping removes mappings at the address of a new allocation of the rank. The rank has freed them, and the
// driver cannot open an allocation while an older one at the same address is open.
func (m *mappings) removeOverlapping(k mapKey, w *bufferRef) (old []*mem.Buffer) {
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
		default: // another group is opening it
		}
	}
	return old
}

// closeRank closes all mappings of a rank.
func (m *mappings) closeRank(rank int) {
	m.mu.Lock()
	old := m.removeOverlapping(mapKey{rank: rank}, &bufferRef{size: math.MaxUint64})
	m.mu.Unlock()
	for _, b := range old {
		b.Release()
	}
}

// close closes all mappings.
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
		default: // get releases it when it is open
		}
	}
}
