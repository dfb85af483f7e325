package ucx

import (
	"sync/atomic"

	"go.millstream.dev/ucx/internal/ucp"
)

const (
	chunkShift = 6
	chunkSlots = 1 << chunkShift
	maxChunks  = 1 << 10
	maxSlots   = chunkSlots * maxChunks
)

// chunk is a block of slots in C memory with their Go halves.
type chunk struct {
	slots []ucp.Slot
	next  [chunkSlots]atomic.Uint32 // free list: index+1 of the next free slot
	own   [chunkSlots]Request       // the request of a blocking operation, reused
	cur   [chunkSlots]*Request      // whom a completion belongs to; owner: the slot's owner
}

// slotTable hands out slots. The free list is a lock-free stack of indices with a
// version in the upper half against ABA; taking a slot costs one compare-and-swap.
type slotTable struct {
	head   atomic.Uint64
	chunks [maxChunks]atomic.Pointer[chunk]
	count  atomic.Uint32 // chunks in use; grown under Worker.mu
}

func (t *slotTable) at(i uint32) (*chunk, uint32) {
	return t.chunks[i>>chunkShift].Load(), i & (chunkSlots - 1)
}

func (t *slotTable) push(i uint32) {
	c, k := t.at(i)
	for {
		old := t.head.Load()
		c.next[k].Store(uint32(old))
		if t.head.CompareAndSwap(old, (old>>32+1)<<32|uint64(i+1)) {
			return
		}
	}
}

func (t *slotTable) pop() (uint32, bool) {
	for {
		old := t.head.Load()
		i := uint32(old)
		if i == 0 {
			return 0, false
		}
		c, k := t.at(i - 1)
		if t.head.CompareAndSwap(old, (old>>32+1)<<32|uint64(c.next[k].Load())) {
			return i - 1, true
		}
	}
}

// takeSlot returns a free slot with its reusable request, or why there is none.
func (w *Worker) takeSlot() (*ucp.Slot, *Request, error) {
	for {
		if w.closing.Load() {
			return nil, nil, ErrClosed
		}
		if i, ok := w.slots.pop(); ok {
			c, k := w.slots.at(i)
			return &c.slots[k], &c.own[k], nil
		}
		if err := w.growSlots(false); err != nil {
			return nil, nil, err
		}
	}
}

// growSlots adds a chunk. Operations of users are refused while the worker closes;
// the calls that close it are not.
func (w *Worker) growSlots(internal bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sealed || !internal && w.closing.Load() {
		return ErrClosed
	}
	if uint32(w.slots.head.Load()) != 0 {
		return nil // someone gave one back meanwhile
	}
	n := w.slots.count.Load()
	if n == maxChunks {
		return ErrTooManyRequests
	}
	c := &chunk{slots: ucp.NewSlots(w.c, int(n)*chunkSlots, chunkSlots)}
	if c.slots == nil {
		return ErrNoMemory
	}
	for k := range c.own {
		r := &c.own[k]
		r.w, r.ch = w, make(chan struct{}, 1)
	}
	w.slots.chunks[n].Store(c)
	w.slots.count.Store(n + 1)
	for k := chunkSlots - 1; k >= 0; k-- {
		w.slots.push(n*chunkSlots + uint32(k))
	}
	return nil
}

// putSlot gives a slot back. Its operation is finished and nobody refers to it.
func (w *Worker) putSlot(s *ucp.Slot) {
	s.State = ucp.Free
	s.Serial++
	w.slots.push(s.Index)
}
