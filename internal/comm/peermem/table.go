package peermem

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

const (
	// tableSlots is the number of results that a table can have, slotSize the length of the description of one in
	// bytes.
	tableSlots = 1024
	slotSize   = 1024
	// slotProbe is the number of adjacent slots in which a result may be. A reader reads all of them at once.
	slotProbe = 4
	// slotHead is the length of what precedes the content of a slot: its sequence number, the hash of the key and the
	// length of the content.
	slotHead = 8 + 8 + 8
	// idSize is the length of the random identity of a table, which is at its beginning.
	idSize = 16
	// tableSize is the length of a table in bytes.
	tableSize = slotSize + (tableSlots+slotProbe-1)*slotSize
)

// Table publishes results in GPU memory: peers on this machine that know its address find a result in the memory of
// this process and copy it, without a request. Its zero value is empty and ready to use, by any goroutine.
//
// A slot has a sequence number, which is odd while it has no result. Withdraw changes it before the memory of the
// result is released, so that a reader that finds the same number before and after its copy has copied valid data.
type Table struct {
	mu      sync.Mutex // guards the fields below and the writes to data
	data    []byte     // not on the Go heap; nil before the first use and after Close
	used    [tableSlots + slotProbe - 1]bool
	closed  bool
	stop    context.CancelFunc
	ctx     context.Context
	waiting sync.WaitGroup // publications that wait for the GPU
}

// Publication is a result in a table.
type Publication struct {
	t     *Table
	mu    sync.Mutex
	slot  int  // -1: none; guarded by mu
	ended bool // guarded by mu
}

// hashOf returns the hash of a key, which selects its slots.
func hashOf(key []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(key) // never fails
	return h.Sum64()
}

func slotOf(hash uint64) int { return int(hash % tableSlots) }

// Publish publishes a value, when its last write is complete. It returns nil if the value cannot be published: a part
// of it is in other memory than a pool of a GPU, or there is no room. The caller withdraws the publication before it
// releases the memory.
func (t *Table) Publish(key []byte, s *wire.Serialized) *Publication {
	if t == nil || len(s.Frames) == 0 {
		return nil
	}
	body := msgpack.AppendBytes(msgpack.AppendArrayHeader(make([]byte, 0, slotSize), 3), key)
	body = msgpack.AppendArrayHeader(msgpack.AppendBytes(body, s.Header), len(s.Frames))
	ready := true
	for i, f := range s.Frames {
		if !f.OnDevice() || f.Len() == 0 {
			return nil
		}
		b := f.Buffer()
		e := export(b)
		if e.handle == nil {
			return nil
		}
		if event := b.Ready(); event != nil {
			done, err := event.Query()
			if err != nil {
				return nil
			}
			ready = ready && done
		}
		body = appendDevicePart(body, devicePart{i, e.handle, e.serial, int64(b.Addr() - b.Region().Addr()),
			int64(b.Len())})
	}
	if len(body) > slotSize-slotHead || !t.open() {
		return nil
	}
	p := &Publication{t: t, slot: -1}
	hash := hashOf(key)
	if ready {
		p.slot = t.write(hash, body)
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	held := s.Retain()
	t.waiting.Go(func() {
		defer held.Release()
		for _, f := range held.Frames {
			if f.Buffer().WaitReady(t.ctx) != nil {
				return
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.ended {
			p.slot = t.write(hash, body)
		}
	})
	return p
}

// Withdraw removes the result. It may be called on nil.
func (p *Publication) Withdraw() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.slot >= 0 {
		p.t.clear(p.slot)
		p.slot = -1
	}
}

// open allocates the table if necessary, and reports whether it is open.
func (t *Table) open() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data != nil || t.closed {
		return !t.closed
	}
	data, err := unix.Mmap(-1, 0, tableSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return false
	}
	_, _ = rand.Read(data[:idSize]) // never fails
	t.data = data
	t.ctx, t.stop = context.WithCancel(context.Background())
	return true
}

// slotBytes returns the memory of a slot.
func slotBytes(data []byte, i int) []byte { return data[slotSize*(1+i):][:slotSize:slotSize] }

// sequence returns the sequence number of a slot.
func sequence(slot []byte) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(slot)))
}

// write writes a description into a free slot and returns its index, -1 if there is none.
func (t *Table) write(hash uint64, body []byte) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return -1
	}
	for i := slotOf(hash); i < slotOf(hash)+slotProbe; i++ {
		if t.used[i] {
			continue
		}
		t.used[i] = true
		slot := slotBytes(t.data, i)
		seq := sequence(slot)
		next := seq.Load() | 1 // new slots have 0
		seq.Store(next)
		binary.NativeEndian.PutUint64(slot[8:], hash)
		binary.NativeEndian.PutUint64(slot[16:], uint64(len(body)))
		copy(slot[slotHead:], body)
		seq.Store(next + 1)
		return i
	}
	return -1
}

// clear invalidates a slot.
func (t *Table) clear(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		sequence(slotBytes(t.data, i)).Add(1)
		t.used[i] = false
	}
}

// Close frees the table. Closing twice does nothing.
func (t *Table) Close() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	data := t.data
	t.data = nil
	if t.stop != nil {
		t.stop()
	}
	t.mu.Unlock()
	t.waiting.Wait()
	if data == nil {
		return nil
	}
	clear(data[:idSize]) // readers that see the memory before it is unmapped
	if err := unix.Munmap(data); err != nil {
		return fmt.Errorf("peermem: release a table of results: %w", err)
	}
	return nil
}

// place returns the address and the identity of the table, 0 if it is not in use.
func (t *Table) place() (addr uintptr, id []byte) {
	if t == nil {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data == nil {
		return 0, nil
	}
	return addressOf(t.data), append([]byte(nil), t.data[:idSize]...)
}
