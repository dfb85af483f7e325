package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

// fakeGPU is a device of host memory: addresses are real, the work is done by a goroutine that is late, in the order of
// the calls, as a stream's. What the carrier does in between, too early or too late, shows in the results.
type fakeGPU struct {
	id      [16]byte // of its process
	card    [16]byte
	exports bool // whether memory can be named to others
	opens   bool // whether others' memory can be mapped
	delay   time.Duration

	queue  chan func()
	ended  chan struct{}
	opened atomic.Int64 // mappings made
}

func newFakeGPU(process byte, delay time.Duration) *fakeGPU {
	g := &fakeGPU{exports: true, opens: true, delay: delay, queue: make(chan func(), 1024), ended: make(chan struct{})}
	g.id[0], g.card[0] = process, process
	go func() {
		defer close(g.ended)
		for f := range g.queue {
			if g.delay > 0 {
				time.Sleep(rand.N(g.delay))
			}
			f()
		}
	}()
	return g
}

// fakeAllocations are all allocations of all fake devices, by id.
var fakeAllocations struct {
	sync.Mutex
	next uint64
	m    map[uint64]*mem.Buffer // the memory behind
	of   map[*mem.Region]uint64
	held int // allocations, and mappings of them, that were not freed
}

func fakesHeld() int {
	fakeAllocations.Lock()
	defer fakeAllocations.Unlock()
	return fakeAllocations.held
}

// fakeRegion is device memory with that behind it, which it gives back.
func fakeRegion(host *mem.Buffer, n int, freed func()) *mem.Buffer {
	fakeAllocations.held++
	return mem.NewRegion(mem.RegionConfig{Addr: host.Addr(), Len: n, Kind: mem.Device, Device: 0, Free: func() {
		fakeAllocations.Lock()
		defer fakeAllocations.Unlock()
		fakeAllocations.held--
		if freed != nil {
			freed()
		}
		host.Release()
	}}).Buffer()
}

// fakeAlloc makes device memory that is a mapping of no Go object.
func fakeAlloc(n int) *mem.Buffer {
	host, err := mem.NewMmap(mem.MmapConfig{}).Alloc(context.Background(), max(n, 1))
	if err != nil {
		panic(err)
	}
	fakeAllocations.Lock()
	defer fakeAllocations.Unlock()
	if fakeAllocations.m == nil {
		fakeAllocations.m, fakeAllocations.of = map[uint64]*mem.Buffer{}, map[*mem.Region]uint64{}
	}
	fakeAllocations.next++
	id := fakeAllocations.next
	var region *mem.Region
	b := fakeRegion(host, n, func() {
		delete(fakeAllocations.m, id)
		delete(fakeAllocations.of, region)
	})
	region = b.Region()
	fakeAllocations.m[id], fakeAllocations.of[region] = host, id
	return b
}

// at is memory of the fake device, or pinned memory, by its address.
func at(addr uint64, n int) []byte {
	if n == 0 {
		return nil
	}
	p := uintptr(addr)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}

func bytesAt(b *mem.Buffer) []byte { return at(uint64(b.Addr()), b.Len()) }

// fakeEvent completes when the work was done.
type fakeEvent struct{ done chan struct{} }

func (e *fakeEvent) Handle() uintptr { return 1 }
func (e *fakeEvent) Query() (bool, error) {
	select {
	case <-e.done:
		return true, nil
	default:
		return false, nil
	}
}
func (e *fakeEvent) Wait(ctx context.Context) error {
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue does work behind the buffers' ready events, and holds them.
func (g *fakeGPU) enqueue(work func(), reads, writes []*mem.Buffer) mem.Event {
	e := &fakeEvent{make(chan struct{})}
	var waits []mem.Event
	var held []*mem.Buffer
	for _, list := range [][]*mem.Buffer{reads, writes} {
		for _, b := range list {
			if r := b.Ready(); r != nil {
				waits = append(waits, r)
			}
			held = append(held, b.Retain())
		}
	}
	g.queue <- func() {
		for _, w := range waits {
			_ = w.Wait(context.Background())
		}
		work()
		close(e.done)
		for _, b := range held {
			b.Release()
		}
	}
	for _, b := range writes {
		b.SetReady(e)
	}
	return e
}

func (g *fakeGPU) process() [16]byte  { return g.id }
func (g *fakeGPU) device() int        { return 0 }
func (g *fakeGPU) identity() [16]byte { return g.card }

func (g *fakeGPU) export(b *mem.Buffer) (w bufferRef, err error) {
	if !g.exports {
		return w, errors.New("this memory has no handle")
	}
	fakeAllocations.Lock()
	defer fakeAllocations.Unlock()
	id, ok := fakeAllocations.of[b.Region()]
	if !ok {
		return w, fmt.Errorf("%v is not the fake device's", b)
	}
	w = bufferRef{id: id, base: uint64(b.Region().Addr()), size: uint64(max(b.Region().Len(), 1)),
		offset: uint64(b.Addr() - b.Region().Addr()), length: uint64(b.Len())}
	binary.LittleEndian.PutUint64(w.handle[:], id)
	return w, nil
}

func (g *fakeGPU) open(handle []byte) (*mem.Buffer, error) {
	if !g.opens {
		return nil, errors.New("not this host's memory")
	}
	fakeAllocations.Lock()
	defer fakeAllocations.Unlock()
	host := fakeAllocations.m[binary.LittleEndian.Uint64(handle)]
	if host == nil {
		return nil, errors.New("no such allocation")
	}
	g.opened.Add(1)
	return fakeRegion(host.Retain(), host.Len(), nil), nil // a mapping keeps the memory
}

func (g *fakeGPU) copy(dst, src *mem.Buffer) (mem.Event, error) {
	if dst.Len() != src.Len() {
		return nil, fmt.Errorf("copy of %d bytes into %d", src.Len(), dst.Len())
	}
	d, s := bytesAt(dst), bytesAt(src)
	return g.enqueue(func() { copy(d, s) }, []*mem.Buffer{src}, []*mem.Buffer{dst}), nil
}

func (g *fakeGPU) fold(k Kind, op elem.OpCode, f *foldCall, reads, writes []*mem.Buffer) (mem.Event, error) {
	call := *f
	return g.enqueue(func() {
		n := int(call.count) * k.Size()
		sources := make([][]byte, call.sources)
		ops := make([]Op, call.sources)
		for i := range sources {
			sources[i], ops[i] = at(call.source[i], n), elem.NewOp(op, k, call.scale[i])
		}
		out := make([]byte, n)
		FoldHost(out, sources, k, ops)
		if op == elem.OpAvg && int(call.ranks) != len(sources) {
			panic("avg of another number of ranks")
		}
		for _, t := range call.target[:call.targets] {
			copy(at(t, n), out)
		}
	}, reads, writes), nil
}

func (g *fakeGPU) pinned(ctx context.Context, n int) (*mem.Buffer, error) {
	return mem.NewMmap(mem.MmapConfig{}).Alloc(ctx, n)
}

func (g *fakeGPU) flush(ctx context.Context) error {
	return g.enqueue(func() {}, nil, nil).Wait(ctx)
}

func (g *fakeGPU) close() error {
	close(g.queue)
	<-g.ended
	return nil
}

// onFake calls the collectives of a group with copies of the arguments in the fake device's memory.
type onFake struct {
	*Group
	gpu *fakeGPU
}

// load copies a slice to device memory, which is set late, at an odd place of an allocation.
func (o onFake) load(b []byte) *mem.Buffer {
	if b == nil {
		return nil
	}
	whole := fakeAlloc(len(b) + 48)
	d := whole.Slice(16+rand.IntN(3)*8, len(b))
	whole.Release()
	data := append([]byte(nil), b...)
	to := bytesAt(d)
	o.gpu.enqueue(func() { copy(to, data) }, nil, []*mem.Buffer{d})
	return d
}

// Do carries a call on host memory out on copies in device memory, and copies the result back.
func (o onFake) Do(ctx context.Context, c Call) error {
	if c.Code == Barrier {
		return o.Group.Do(ctx, c)
	}
	send, recv := c.Send.Bytes, c.Recv.Bytes
	c.OnDevice = true // also without any buffer
	c.Send = Memory{Buffer: o.load(send)}
	inPlace := len(send) > 0 && len(recv) > 0 && &send[0] == &recv[0]
	if inPlace {
		c.Recv = c.Send
	} else {
		c.Recv = Memory{Buffer: o.load(recv)}
	}
	defer func() {
		if c.Send.Buffer != nil {
			c.Send.Buffer.Release()
		}
		if c.Recv.Buffer != nil && !inPlace {
			c.Recv.Buffer.Release()
		}
	}()
	if err := o.Group.Do(ctx, c); err != nil {
		return err
	}
	if c.Recv.Buffer == nil {
		return nil
	}
	if err := c.Recv.Buffer.WaitReady(ctx); err != nil {
		return err
	}
	copy(recv, bytesAt(c.Recv.Buffer))
	return nil
}
