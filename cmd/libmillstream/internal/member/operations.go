package member

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/mem"
)

// Code identifies an operation.
type Code int32

// Codes, with the numbers of millstream_v1_operation in calls.h.
const (
	Barrier Code = 1 + iota
	AllReduce
	Reduce
	Broadcast
	AllGather
	Gather
	Scatter
	ReduceScatter
	AllToAll
	Send
	Recv
	SendRecv
)

var names = [...]string{Barrier: "barrier", AllReduce: "allreduce", Reduce: "reduce", Broadcast: "broadcast",
	AllGather: "allgather", Gather: "gather", Scatter: "scatter", ReduceScatter: "reducescatter", AllToAll: "alltoall",
	Send: "send", Recv: "recv", SendRecv: "sendrecv"}

// String returns the name of the operation in the C interface.
func (c Code) String() string {
	if c < Barrier || c > SendRecv {
		return fmt.Sprintf("operation(%d)", int32(c))
	}
	return names[c]
}

func (c Code) reduces() bool { return c == AllReduce || c == Reduce || c == ReduceScatter }

// Operation is an operation on memory of the caller, which keeps it until the operation has ended.
type Operation struct {
	Code Code
	// Kind is the type of elements, Op the reduction, by the numbers of the C interface.
	Kind clique.Kind
	Op   int
	// Count is the number of elements of one rank: see the header. RecvCount is that of Recv in SendRecv.
	Count, RecvCount uint64
	// Peer is the root, or the rank that a message is sent to or received from; From is that of Recv in SendRecv.
	Peer, From int
	// Tag is the tag of a message; RecvTag is that of Recv in SendRecv.
	Tag, RecvTag uint64
	// Send and Recv are addresses in the memory of the process.
	Send, Recv uintptr
	// Invalid is why the caller considers its arguments invalid, for collectives; see clique.Call.Invalid.
	Invalid string
}

// ErrInvalid is returned for a message with invalid arguments. Invalid arguments of collectives are a
// *clique.MismatchError, on every rank.
var ErrInvalid = errors.New("invalid argument")

var reductions = map[int]clique.Op{1: clique.Sum, 2: clique.Prod, 3: clique.Min, 4: clique.Max, 5: clique.Avg}

// Do runs an operation and waits for it. received is the number of elements of a received message.
func (m *Member) Do(o Operation) (received uint64, err error) {
	r, err := m.Rank()
	if err != nil {
		return 0, err
	}
	c, memory, err := o.call(r.Rank(), r.Size())
	if err != nil {
		return 0, err
	}
	defer memory.release()
	ctx, cancel := m.bounded()
	defer cancel()
	var n int
	if o.Code == Recv || o.Code == SendRecv {
		c = c.WithLen(&n)
	}
	if err := r.Do(ctx, c); err != nil {
		return 0, err
	}
	return uint64(n), nil
}

// Start starts an operation; its memory must not be used until the request is done. Operations run in the order of Do
// and Start. SetTimeout does not apply.
func (m *Member) Start(o Operation) (*clique.Request, error) {
	r, err := m.Rank()
	if err != nil {
		return nil, err
	}
	c, memory, err := o.call(r.Rank(), r.Size())
	if err != nil {
		return nil, err
	}
	defer memory.release() // the operation retains it
	return r.Start(m.ctx, c), nil
}

// bounded returns the context of an operation.
func (m *Member) bounded() (context.Context, context.CancelFunc) {
	if d := time.Duration(m.timeout.Load()); d > 0 {
		return context.WithTimeout(m.ctx, d)
	}
	return m.ctx, func() {}
}

// buffers are the two sides of an operation.
type buffers struct{ send, recv *mem.Buffer }

func (b buffers) release() {
	if b.send != nil {
		b.send.Release()
	}
	if b.recv != nil {
		b.recv.Release()
	}
}

// call returns the call of the operation, and its memory. Invalid arguments of a collective become part of the call, so
// that the other ranks do not wait.
func (o *Operation) call(rank, size int) (clique.Call, buffers, error) {
	if o.Code < Barrier || o.Code > SendRecv {
		return clique.Call{}, buffers{}, fmt.Errorf("member: %w: unknown %v", ErrInvalid, o.Code)
	}
	maker, known := makers[o.Kind]
	if !known {
		maker = newCall[uint8]
	}
	why := o.Invalid
	if why == "" && !known && o.Code != Barrier {
		why = fmt.Sprintf("unknown element type %d", uint8(o.Kind))
	}
	op, ok := reductions[o.Op]
	if why == "" && !ok && o.Code.reduces() {
		why = fmt.Sprintf("unknown reduction %d", o.Op)
	}
	var b buffers
	if why == "" {
		b, why = o.memory(rank, size)
	}
	if why == "" {
		return maker(o, op, b.send, b.recv), b, nil
	}
	b.release()
	if o.Code >= Send {
		return clique.Call{}, buffers{}, fmt.Errorf("member: %v: %w: %s", o.Code, ErrInvalid, why)
	}
	return maker(o, clique.Sum, nil, nil).Invalid(why), buffers{}, nil
}

// memory returns the memory of both sides, or why it is invalid. Only root has both sides of some operations.
func (o *Operation) memory(rank, size int) (b buffers, why string) {
	sends, receives := 1, 1 // in counts
	recvCount := o.Count
	isRoot := o.Peer == rank
	switch o.Code {
	case Barrier:
		sends, receives = 0, 0
	case AllGather:
		receives = size
	case Gather:
		receives = size
		if !isRoot {
			receives = 0
		}
	case Scatter:
		sends = size
		if !isRoot {
			sends = 0
		}
	case ReduceScatter:
		sends = size
	case AllToAll:
		sends, receives = size, size
	case Reduce:
		if !isRoot {
			receives = 0
		}
	case Broadcast, Recv:
		sends = 0
	case Send:
		receives = 0
	case SendRecv:
		recvCount = o.RecvCount
	}
	if b.send, why = memoryAt("send", o.Send, o.Count, o.Kind, sends); why == "" {
		b.recv, why = memoryAt("recv", o.Recv, recvCount, o.Kind, receives)
	}
	return b, why
}

// memoryAt returns memory for times*count elements, nil for none.
func memoryAt(side string, at uintptr, count uint64, k clique.Kind, times int) (b *mem.Buffer, why string) {
	size := uint64(k.Size())
	if times == 0 {
		return nil, ""
	}
	if count > math.MaxInt64/size/uint64(times) {
		return nil, fmt.Sprintf("%s has %d elements, which is too many", side, count)
	}
	n := int(count*size) * times
	switch {
	case n == 0:
		return nil, ""
	case at == 0:
		return nil, fmt.Sprintf("%s is a null pointer with %d bytes", side, n)
	}
	return mem.NewRegion(mem.RegionConfig{Addr: at, Len: n}).Buffer(), ""
}

// makers has newCall for each kind of element.
var makers = map[clique.Kind]func(o *Operation, op clique.Op, send, recv *mem.Buffer) clique.Call{
	clique.KindOf[int8](): newCall[int8], clique.KindOf[int16](): newCall[int16],
	clique.KindOf[int32](): newCall[int32], clique.KindOf[int64](): newCall[int64],
	clique.KindOf[uint8](): newCall[uint8], clique.KindOf[uint16](): newCall[uint16],
	clique.KindOf[uint32](): newCall[uint32], clique.KindOf[uint64](): newCall[uint64],
	clique.KindOf[clique.F16](): newCall[clique.F16], clique.KindOf[clique.BF16](): newCall[clique.BF16],
	clique.KindOf[float32](): newCall[float32], clique.KindOf[float64](): newCall[float64],
}

func newCall[T clique.Number](o *Operation, op clique.Op, from, to *mem.Buffer) clique.Call {
	send, recv := clique.Buffer[T](from), clique.Buffer[T](to)
	switch o.Code {
	case AllReduce:
		return clique.AllReduce(send, recv, op)
	case Reduce:
		return clique.Reduce(send, recv, op, o.Peer)
	case Broadcast:
		return clique.Broadcast(recv, o.Peer)
	case AllGather:
		return clique.AllGather(send, recv)
	case Gather:
		return clique.Gather(send, recv, o.Peer)
	case Scatter:
		return clique.Scatter(send, recv, o.Peer)
	case ReduceScatter:
		return clique.ReduceScatter(send, recv, op)
	case AllToAll:
		return clique.AllToAll(send, recv)
	case Send:
		return clique.Send(o.Peer, o.Tag, send)
	case Recv:
		return clique.Recv(o.Peer, o.Tag, recv)
	case SendRecv:
		return clique.SendRecv(o.Peer, o.Tag, send, o.From, o.RecvTag, recv)
	}
	return clique.Barrier()
}
