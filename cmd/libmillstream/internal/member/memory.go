package member

import (
	"fmt"
	"math"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Memory specifies where the memory of an operation is.
type Memory int32

// Kinds of memory, with the numbers of the C interface.
const (
	Any    Memory = iota // device memory if CUDA knows the address, else host memory
	Host                 // host memory
	Device               // memory that CUDA knows
)

// use is the memory of an operation, from the call to its end.
type use struct {
	send, recv *mem.Buffer
	stream     *cuda.Stream // of the caller; nil if CUDA does not know the memory
	busy       mem.Event    // set by the operation: the GPU uses the memory until then
}

func (u *use) release() {
	for _, b := range []*mem.Buffer{u.send, u.recv} {
		if b != nil {
			b.Release()
		}
	}
	u.send, u.recv = nil, nil
}

// take sets the memory of an operation of a rank, or returns why it is invalid. Only root has both sides of some
// operations.
func (u *use) take(o *Operation, r *clique.Rank, stream uintptr) (why string) {
	sends, receives := o.counts(r.Rank(), r.Size())
	if o.Memory < Any || o.Memory > Device {
		return fmt.Sprintf("unknown memory %d", o.Memory)
	}
	at := place{o: o, device: max(r.Device(), 0)}
	if u.send, why = at.buffer("send", o.Send, sends); why == "" {
		u.recv, why = at.buffer("recv", o.Recv, receives)
	}
	if why == "" && at.known {
		why = u.order(at.device, stream)
	}
	return why
}

// lastSpecial is the last handle that is a name: 1 is the legacy default stream, like 0, and 2 that of the thread.
const lastSpecial = 2

// order makes the operation wait for the work that is queued on the stream. An idle stream needs no event, which would
// make a GPU that several processes share switch between them. The legacy default stream may have to wait for others.
func (u *use) order(device int, stream uintptr) (why string) {
	u.stream = cuda.StreamFromHandle(device, stream)
	if stream > lastSpecial {
		if idle, err := u.stream.Query(); idle && err == nil {
			return ""
		}
	}
	e, err := u.stream.Record()
	if err != nil {
		return fmt.Sprintf("stream %#x is not a stream of device %d: %v", stream, device, err)
	}
	for _, b := range []*mem.Buffer{u.send, u.recv} {
		if b != nil {
			b.SetReady(e)
		}
	}
	return ""
}

// finish makes the stream of the caller wait for the result, and for the end of the use of what was sent.
func (u *use) finish() error {
	if u.stream == nil {
		return nil
	}
	if u.recv != nil {
		if err := u.stream.WaitEvent(u.recv.Ready()); err != nil {
			return fmt.Errorf("member: %w", err)
		}
	}
	if err := u.stream.WaitEvent(u.busy); err != nil {
		return fmt.Errorf("member: %w", err)
	}
	return nil
}

// extent is a number of elements: some for each of several ranks.
type extent struct {
	count uint64
	times int
}

// counts returns the number of elements of both sides of an operation on a rank.
func (o *Operation) counts(rank, size int) (send, recv extent) {
	send, recv = extent{o.Count, 1}, extent{o.Count, 1}
	isRoot := o.Peer == rank
	switch o.Code {
	case Barrier:
		return extent{}, extent{}
	case AllGather:
		recv.times = size
	case Gather:
		recv.times = size
		if !isRoot {
			recv.times = 0
		}
	case Scatter:
		send.times = size
		if !isRoot {
			send.times = 0
		}
	case ReduceScatter:
		send.times = size
	case AllToAll:
		send.times, recv.times = size, size
	case Reduce:
		if !isRoot {
			recv.times = 0
		}
	case Broadcast, Recv:
		send.times = 0
	case Send:
		recv.times = 0
	case SendRecv:
		recv.count = o.RecvCount
	case AllGatherV:
		send.count, recv.count = 0, sum(o.Counts)
		if rank < len(o.Counts) {
			send.count = o.Counts[rank]
		}
	case GatherV:
		recv.count = sum(o.Counts)
		if !isRoot {
			recv.times = 0
		}
	case ScatterV:
		send.count = sum(o.Counts)
		if !isRoot {
			send.times = 0
		}
	case AllToAllV:
		send.count, recv.count = sum(o.Counts), sum(o.RecvCounts)
	}
	return send, recv
}

// sum adds counts; a sum that is out of range is one that no memory has.
func sum(counts []uint64) uint64 {
	total := uint64(0)
	for _, n := range counts {
		if n > math.MaxInt64 || total > math.MaxInt64 {
			return math.MaxUint64
		}
		total += n
	}
	return total
}

// ints converts counts whose sum is in range.
func ints(counts []uint64) []int {
	if counts == nil {
		return nil
	}
	out := make([]int, len(counts))
	for i, n := range counts {
		out[i] = int(n)
	}
	return out
}

// place finds the memory of an operation.
type place struct {
	o      *Operation
	device int  // of the buffers that CUDA knows
	known  bool // CUDA knows a buffer
}

// buffer returns the memory of one side, nil for none, or why it is invalid.
func (p *place) buffer(side string, at uintptr, e extent) (b *mem.Buffer, why string) {
	size := uint64(p.o.Kind.Size())
	if e.times == 0 {
		return nil, ""
	}
	if e.count > math.MaxInt64/size/uint64(e.times) {
		return nil, fmt.Sprintf("%s has %d elements, which is too many", side, e.count)
	}
	n := int(e.count*size) * e.times
	cfg := mem.RegionConfig{Addr: at, Len: n}
	switch {
	case n == 0 && p.o.Memory != Device:
		return nil, ""
	case n == 0:
		cfg.Kind, cfg.Device = mem.Device, p.device // the other ranks have device memory
	case at == 0:
		return nil, fmt.Sprintf("%s is a null pointer with %d bytes", side, n)
	case p.o.Memory != Host:
		if why := p.find(side, &cfg); why != "" {
			return nil, why
		}
	}
	return mem.NewRegion(cfg).Buffer(), ""
}

// find asks CUDA about an address, and sets the kind of memory and its device.
func (p *place) find(side string, cfg *mem.RegionConfig) (why string) {
	a, err := cuda.Pointer(cfg.Addr)
	switch {
	case (err != nil || !a.Known) && p.o.Memory == Any:
		return ""
	case err != nil:
		return fmt.Sprintf("%s at %#x is not device memory: %v", side, cfg.Addr, err)
	case !a.Known:
		return fmt.Sprintf("%s at %#x is not device memory: the address is unknown to CUDA, or its memory was freed",
			side, cfg.Addr)
	case a.Size > 0 && (cfg.Addr < a.Base || uint64(cfg.Len) > uint64(a.Base)+uint64(a.Size)-uint64(cfg.Addr)):
		return fmt.Sprintf("%s has %d bytes at %#x, but the allocation there ends after %d bytes", side, cfg.Len,
			cfg.Addr, uint64(a.Base)+uint64(a.Size)-uint64(cfg.Addr))
	}
	cfg.Kind, cfg.Device = a.Kind, a.Device
	p.known, p.device = true, a.Device
	return ""
}
