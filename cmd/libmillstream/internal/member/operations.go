package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/mem"
)

// Code identifies an operation.
type Code int32

// Codes, with the numbers of millstream.h.
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
	AllGatherV
	GatherV
	ScatterV
	AllToAllV
)

var names = [...]string{Barrier: "barrier", AllReduce: "allreduce", Reduce: "reduce", Broadcast: "broadcast",
	AllGather: "allgather", Gather: "gather", Scatter: "scatter", ReduceScatter: "reducescatter", AllToAll: "alltoall",
	Send: "send", Recv: "recv", SendRecv: "sendrecv", AllGatherV: "allgatherv", GatherV: "gatherv",
	ScatterV: "scatterv", AllToAllV: "alltoallv"}

// String returns the name of the operation in the C interface.
func (c Code) String() string {
	if c < Barrier || c > AllToAllV {
		return fmt.Sprintf("operation(%d)", int32(c))
	}
	return names[c]
}

func (c Code) isMessage() bool { return c == Send || c == Recv || c == SendRecv }

func (c Code) reduces() bool { return c == AllReduce || c == Reduce || c == ReduceScatter }

// Operation is an operation on memory of the caller, which keeps it until the operation has ended.
type Operation struct {
	Code Code
	// Kind is the type of elements, Op the reduction, by the numbers of the C interface.
	Kind clique.Kind
	Op   int
	// Count is the number of elements of one rank: see the header. RecvCount is that of Recv in SendRecv.
	Count, RecvCount uint64
	// Counts and RecvCounts are the numbers of elements of all ranks in the V forms, as in clique.Call.WithCounts.
	Counts, RecvCounts []uint64
	// Peer is the root, or the rank that a message is sent to or received from; From is that of Recv in SendRecv.
	Peer, From int
	// Tag is the tag of a message; RecvTag is that of Recv in SendRecv.
	Tag, RecvTag uint64
	// Send and Recv are addresses in the memory of the process or of a GPU, as Memory specifies.
	Send, Recv uintptr
	Memory     Memory
	// Stream is the CUstream that orders an operation on device memory; 0 is that of SetStream.
	Stream uintptr
	// Invalid is why the caller considers its arguments invalid, for collectives; see clique.Call.Invalid.
	Invalid string
}

// ErrInvalid is returned for a message with invalid arguments. Invalid arguments of collectives are a
// *clique.MismatchError, on every rank.
var ErrInvalid = errors.New("invalid argument")

var reductions = map[int]clique.Op{1: clique.Sum, 2: clique.Prod, 3: clique.Min, 4: clique.Max, 5: clique.Avg}

// Do runs an operation and waits for it, on device memory until it is enqueued. received is the number of elements of a
// received message. In a group, Do only starts the operation.
func (m *Member) Do(o Operation) (received uint64, err error) {
	r, err := m.Rank()
	if err != nil {
		return 0, err
	}
	if grouped, err := m.addToGroup(r, &o); grouped || err != nil {
		return 0, err
	}
	c, u, err := m.call(r, &o)
	if err != nil {
		return 0, err
	}
	defer u.release()
	ctx, cancel := m.bounded()
	defer cancel()
	var n int
	if o.Code == Recv || o.Code == SendRecv {
		c = c.WithLen(&n)
	}
	if err := r.Do(ctx, c); err != nil {
		return 0, err
	}
	return uint64(n), u.finish()
}

// Request is an operation that Start has started.
type Request struct {
	*clique.Request
	u *use
}

// Finish ends a request that is done: it makes the stream of the caller wait for the result, and returns the error of
// the operation. It must be called once.
func (q *Request) Finish() error {
	defer q.u.release()
	if err := q.Err(); err != nil {
		return err
	}
	return q.u.finish()
}

// Start starts an operation; its memory must not be used until Finish. Operations run in the order of Do and Start.
// SetTimeout does not apply.
func (m *Member) Start(o Operation) (*Request, error) {
	r, err := m.Rank()
	if err != nil {
		return nil, err
	}
	c, u, err := m.call(r, &o)
	if err != nil {
		return nil, err
	}
	return &Request{r.Start(m.ctx, c), u}, nil
}

// bounded returns the context of an operation.
func (m *Member) bounded() (context.Context, context.CancelFunc) {
	if d := time.Duration(m.timeout.Load()); d > 0 {
		return context.WithTimeout(m.ctx, d)
	}
	return m.ctx, func() {}
}

// call returns the call of the operation, and its memory. Invalid arguments of a collective become part of the call, so
// that the other ranks do not wait.
func (m *Member) call(r *clique.Rank, o *Operation) (clique.Call, *use, error) {
	if o.Code < Barrier || o.Code > AllToAllV {
		return clique.Call{}, nil, fmt.Errorf("member: %w: unknown %v", ErrInvalid, o.Code)
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
	u := &use{}
	if why == "" {
		why = u.take(o, r, cmp.Or(o.Stream, uintptr(m.stream.Load())))
	}
	if why == "" {
		return maker(o, op, u.send, u.recv).WithEvent(&u.busy), u, nil
	}
	u.release()
	if o.Code.isMessage() {
		return clique.Call{}, nil, fmt.Errorf("member: %v: %w: %s", o.Code, ErrInvalid, why)
	}
	return maker(o, clique.Sum, nil, nil).Invalid(why), &use{}, nil
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
	case AllGatherV:
		return clique.AllGather(send, recv).WithCounts(ints(o.Counts), nil)
	case GatherV:
		return clique.Gather(send, recv, o.Peer).WithCounts(ints(o.Counts), nil)
	case ScatterV:
		return clique.Scatter(send, recv, o.Peer).WithCounts(ints(o.Counts), nil)
	case AllToAllV:
		return clique.AllToAll(send, recv).WithCounts(ints(o.Counts), ints(o.RecvCounts))
	case Send:
		return clique.Send(o.Peer, o.Tag, send)
	case Recv:
		return clique.Recv(o.Peer, o.Tag, recv)
	case SendRecv:
		return clique.SendRecv(o.Peer, o.Tag, send, o.From, o.RecvTag, recv)
	}
	return clique.Barrier()
}
