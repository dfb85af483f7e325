package ucx

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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
	cur   [chunkSlots]*Request      // the request that a completion belongs to; owner: the slot's owner
}

// slotTable allocates slots. The free list is a lock-free stack of indices with a version in the upper half against
// ABA; taking a slot costs one compare-and-swap.
type slotTable struct {
	head   atomic.Uint64
	chunks [maxChunks]atomic.Pointer[chunk]
	count  atomic.Uint32 // chunks in use; grown under driver.mu
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

// popSlots is pop of up to n slots, in one step.
func (t *slotTable) popSlots(into []*ucp.Slot, n int) []*ucp.Slot {
	for {
		old := t.head.Load()
		next, list := uint32(old), into
		for next != 0 && len(list)-len(into) < n {
			c, k := t.at(next - 1)
			list, next = append(list, &c.slots[k]), c.next[k].Load()
		}
		if len(list) == len(into) || t.head.CompareAndSwap(old, (old>>32+1)<<32|uint64(next)) {
			return list
		}
	}
}

// slotChain is a list of slots that are returned in one step. Its fields are index+1, or 0.
type slotChain struct{ head, tail uint32 }

func (l *slotChain) add(t *slotTable, i uint32) {
	c, k := t.at(i)
	c.next[k].Store(l.head)
	if l.head = i + 1; l.tail == 0 {
		l.tail = i + 1
	}
}

func (t *slotTable) pushChain(l slotChain) {
	if l.tail == 0 {
		return
	}
	c, k := t.at(l.tail - 1)
	for {
		old := t.head.Load()
		c.next[k].Store(uint32(old))
		if t.head.CompareAndSwap(old, (old>>32+1)<<32|uint64(l.head)) {
			return
		}
	}
}

// takeSlots appends n free slots. If there are fewer it also returns why.
func (d *driver) takeSlots(into []*ucp.Slot, n int) ([]*ucp.Slot, error) {
	for n += len(into); len(into) < n; {
		if d.closing.Load() {
			return into, ErrClosed
		}
		if into = d.slots.popSlots(into, n-len(into)); len(into) < n {
			if err := d.growSlots(false); err != nil {
				return into, err
			}
		}
	}
	return into, nil
}

// takeSlot returns a free slot with its reusable request, or why there is none.
func (d *driver) takeSlot() (*ucp.Slot, *Request, error) {
	for {
		if d.closing.Load() {
			return nil, nil, ErrClosed
		}
		if i, ok := d.slots.pop(); ok {
			c, k := d.slots.at(i)
			return &c.slots[k], &c.own[k], nil
		}
		if err := d.growSlots(false); err != nil {
			return nil, nil, err
		}
	}
}

// growSlots adds a chunk. User operations are rejected while the worker closes; the calls that close it are not.
func (d *driver) growSlots(internal bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sealed || !internal && d.closing.Load() {
		return ErrClosed
	}
	if uint32(d.slots.head.Load()) != 0 {
		return nil // one was returned meanwhile
	}
	n := d.slots.count.Load()
	if n == maxChunks {
		return errTooManyRequests
	}
	c := &chunk{slots: ucp.NewSlots(d.c, int(n)*chunkSlots, chunkSlots)}
	if c.slots == nil {
		return errNoMemory
	}
	for k := range c.own {
		r := &c.own[k]
		r.w, r.ch = d.w, make(chan struct{}, 1)
	}
	d.slots.chunks[n].Store(c)
	d.slots.count.Store(n + 1)
	for k := chunkSlots - 1; k >= 0; k-- {
		d.slots.push(n*chunkSlots + uint32(k))
	}
	return nil
}

// putSlot returns a slot. Its operation is finished and nothing refers to it.
func (d *driver) putSlot(s *ucp.Slot) {
	s.State = ucp.Free
	s.Serial++
	d.slots.push(s.Index)
}

// callPointers are the C functions of the calls, looked up once.
var callPointers = sync.OnceValue(func() (p [64]unsafe.Pointer) {
	for c := ucp.CallEPCreate; c < ucp.CallCount; c++ {
		p[c] = ucp.CallPointer(c)
	}
	return p
})

// call runs one of the shim's infrequent functions under the token. It is bounded by one spin of the current holder.
// set fills the slot, get reads it.
func (d *driver) call(op string, fn ucp.Call, set, get func(*ucp.Slot)) error {
	s, r, err := d.takeSlot()
	if err != nil {
		return &OpError{Op: op, Err: err}
	}
	return d.callWith(op, fn, s, r, set, get)
}

func (d *driver) callWith(op string, fn ucp.Call, s *ucp.Slot, r *Request, set, get func(*ucp.Slot)) error {
	r.reset(ucp.OpCall, nil)
	resetSlot(s, ucp.OpCall, nil)
	s.Fn = callPointers()[fn]
	s.Tag, s.Mask, s.Arg = 0, 0, [3]uint64{}
	if set != nil {
		set(s)
	}
	_ = d.run(background, s, r)
	st := Status(s.Status)
	if get != nil && st == statusOK {
		get(s)
	}
	d.putSlot(s)
	if st != statusOK {
		return &OpError{Op: op, Err: st}
	}
	return nil
}

// internalCall is call for closing: it works while the worker closes.
func (d *driver) internalCall(op string, fn ucp.Call, set, get func(*ucp.Slot)) error {
	i, ok := d.slots.pop()
	for ; !ok; i, ok = d.slots.pop() {
		if err := d.growSlots(true); err != nil {
			return &OpError{Op: op, Err: err}
		}
	}
	c, k := d.slots.at(i)
	return d.callWith(op, fn, &c.slots[k], &c.own[k], set, get)
}

func resetSlot(s *ucp.Slot, op ucp.Op, ep *ucp.EP) {
	s.Op, s.EP = op, ep
	s.Buf, s.Len, s.Hdr, s.HdrLen = 0, 0, 0, 0
	s.Memh, s.MemType, s.Flags = nil, -1, 0
	s.Event, s.Device, s.Status = 0, -1, 0
	s.RTag, s.RLen = 0, 0
	s.Leader = nil
}

// cancelAll asks UCX to cancel every unfinished receive.
func (d *driver) cancelAll() {
	for n := range d.slots.count.Load() {
		c := d.slots.chunks[n].Load()
		for k := range c.slots {
			s := &c.slots[k]
			if s.State == ucp.Pending || s.State == ucp.Queued || s.State == ucp.Waiting {
				d.cancelSlot(s, s.Serial)
			}
		}
	}
}

// collectSlots takes all slots off the free list: when it has all of them, no operation uses the worker. It returns how
// many were not returned in time.
func (d *driver) collectSlots(deadline time.Time) int {
	have := 0
	for pause := time.Microsecond; ; {
		for {
			if _, ok := d.slots.pop(); !ok {
				break
			}
			have++
		}
		d.mu.Lock()
		missing := int(d.slots.count.Load())*chunkSlots - have
		d.sealed = missing == 0 || time.Now().After(deadline)
		sealed := d.sealed
		d.mu.Unlock()
		if sealed {
			return missing
		}
		if d.wakeFile == nil && d.tryToken() {
			d.dropHot()
			if ucp.Drive(d.c, nil, 0)&ucp.ResultWork != 0 {
				d.dispatch()
			}
			d.leave(false)
		}
		time.Sleep(pause)
		pause = min(pause*2, time.Millisecond)
	}
}

// takeHot takes the token's slot. The caller holds the token.
func (d *driver) takeHot() *ucp.Slot {
	s := d.hot
	if s != nil {
		d.hot = nil
		return s
	}
	if d.closing.Load() {
		return nil
	}
	if i, ok := d.slots.pop(); ok {
		c, k := d.slots.at(i)
		return &c.slots[k]
	}
	return nil
}

// putHot returns the token's slot. The caller holds the token.
func (d *driver) putHot(s *ucp.Slot) {
	if s == nil {
		return
	}
	if d.hot != nil || d.closing.Load() {
		d.putSlot(s)
		return
	}
	s.State = ucp.Free
	s.Serial++
	d.hot = s
}

// dropHot returns the token's slot to the free list, for the closing worker.
func (d *driver) dropHot() {
	if s := d.hot; s != nil {
		d.hot = nil
		d.putSlot(s)
	}
}

func (d *driver) cancelSlot(s *ucp.Slot, serial uint32) {
	_ = d.internalCall("cancel", ucp.CallCancel, func(x *ucp.Slot) {
		x.Buf = uintptr(unsafe.Pointer(s))
		x.Arg[0] = uint64(serial)
	}, nil)
}
