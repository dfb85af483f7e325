package peermem

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// ErrDevice is returned by Request.Resolve, together with ErrRead, if lent GPU memory cannot be mapped or copied.
var ErrDevice = errors.New("peermem: cannot copy GPU memory of the peer")

const (
	// maxMappings is the maximum number of mapped regions of peers. Each is a pool of a worker, or a part of one.
	maxMappings = 64
	// deviceSpin is how long a copy is polled without a pause: the time to copy some gigabytes within a GPU.
	deviceSpin = 4 * time.Millisecond
)

var errRange = errors.New("lent memory is not within its region")

// mapping is a region of GPU memory of a peer.
type mapping struct {
	peer   string
	serial uint64
	whole  *mem.Buffer
	used   uint64 // time of the last use, as counted by mappings.clock
}

// mappings are the mapped regions of peers, by handle. Mapping a region takes hundreds of microseconds.
type mappings struct {
	mu     sync.Mutex
	list   map[string]*mapping // guarded by mu
	clock  uint64              // guarded by mu
	closed bool                // guarded by mu
}

// buffer returns lent memory of a peer, mapped for a device. The caller releases it.
func (m *mappings) buffer(s *copier.Sharing, device int, peer string, p *devicePart) (*mem.Buffer, error) {
	m.mu.Lock()
	defer m.mu.Unlock() // also while a region is mapped: it is mapped once
	if m.closed {
		return nil, net.ErrClosed
	}
	key := string(p.handle)
	at := m.list[key]
	if at != nil && (at.serial != p.serial || at.peer != peer) {
		m.drop(key) // the region was freed, and this one was allocated at its address
		at = nil
	}
	if at == nil {
		whole, err := s.Open(device, p.handle)
		if err != nil {
			return nil, err
		}
		m.makeRoom()
		at = &mapping{peer: peer, serial: p.serial, whole: whole}
		if m.list == nil {
			m.list = map[string]*mapping{}
		}
		m.list[key] = at
	}
	m.clock++
	at.used = m.clock
	if size := int64(at.whole.Len()); p.offset < 0 || p.size <= 0 || p.size > size || p.offset > size-p.size {
		return nil, errRange
	}
	return at.whole.Slice(int(p.offset), int(p.size)), nil
}

// makeRoom drops the least recently used mapping if there are too many. The caller holds mu.
func (m *mappings) makeRoom() {
	if len(m.list) < maxMappings {
		return
	}
	var oldest string
	for key, at := range m.list {
		if oldest == "" || at.used < m.list[oldest].used {
			oldest = key
		}
	}
	m.drop(oldest)
}

// drop removes a mapping. Copies in flight keep it mapped. The caller holds mu.
func (m *mappings) drop(key string) {
	m.list[key].whole.Release()
	delete(m.list, key)
}

// forget drops the mappings of a peer.
func (m *mappings) forget(peer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, at := range m.list {
		if at.peer == peer {
			m.drop(key)
		}
	}
}

// close drops all mappings.
func (m *mappings) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for key := range m.list {
		m.drop(key)
	}
}

// queues holds the copy queues of the process by device, for its lifetime.
var queues struct {
	sync.Mutex
	made map[int]func() (copier.Copier, error) // guarded by the lock; each opens its queue on first use
}

// queueOf returns the queue for copies of lent memory to a device.
func queueOf(device int) (copier.Copier, error) {
	queues.Lock()
	open := queues.made[device]
	if open == nil {
		if queues.made == nil {
			queues.made = map[int]func() (copier.Copier, error){}
		}
		open = sync.OnceValues(func() (copier.Copier, error) {
			d, err := copier.Open(device)
			return d.Up, err
		})
		queues.made[device] = open
	}
	queues.Unlock()
	return open()
}

// copyDevice starts the copies of lent GPU memory into new frames of the message, and returns an event that is done
// with the last one. Copies in flight hold their memory, also if it returns an error.
func (q *Request) copyDevice(ctx context.Context, parts []devicePart, m *wire.Message) (mem.Event, int64, error) {
	if len(parts) == 0 {
		return nil, 0, nil
	}
	res := q.peers.Device
	share := copier.Share()
	if res == nil || share == nil || q.gpu == "" {
		return nil, 0, errFields // not requested
	}
	queue, err := queueOf(res.Device())
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrDevice, err)
	}
	var last mem.Event
	var total int64
	for i := range parts {
		p := &parts[i]
		if p.frame <= 0 || p.frame >= len(m.Frames) || m.Frames[p.frame].Len() > 0 {
			return nil, 0, errFields
		}
		src, err := q.peers.mapped.buffer(share, res.Device(), q.peer, p)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrDevice, err)
		}
		dst, err := res.Alloc(ctx, int(p.size))
		if err != nil {
			src.Release()
			return nil, 0, &allocError{int(p.size), err}
		}
		m.Frames[p.frame] = wire.BufferFrame(dst).WithCUDA()
		last, err = queue.Copy(dst, src)
		src.Release()
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w", ErrDevice, err)
		}
		total += p.size
	}
	return last, total, nil
}

// allocError is returned if there is no memory for lent frames: sending them would fail as well.
type allocError struct {
	n   int
	err error
}

func (e *allocError) Error() string {
	return fmt.Sprintf("peermem: %d bytes of GPU memory for a result of the peer: %v", e.n, e.err)
}

func (e *allocError) Unwrap() error { return e.err }

// await waits for copies. It polls without pauses at first, because most copies are shorter than a pause.
func await(ctx context.Context, e mem.Event) error {
	if e == nil {
		return nil
	}
	for start := time.Now(); time.Since(start) < deviceSpin; {
		done, err := e.Query()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDevice, err)
		}
		if done {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		runtime.Gosched()
	}
	if err := e.Wait(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrDevice, err)
	}
	return ctx.Err()
}
