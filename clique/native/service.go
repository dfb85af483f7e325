//go:build cgo

package native

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/mem"
)

// service runs the operations of one run for its thread. Only one goroutine uses it.
type service struct {
	ctx     context.Context
	r       *clique.Rank
	dev     *device
	results []Result
	last    error // error of the last operation
}

// request is an operation of the algorithm. The algorithm owns the memory and waits meanwhile.
type request struct {
	what       int
	count      uint64
	kind       clique.Kind
	op, peer   int
	memory     mem.Kind // for opEmit
	tag        uint64
	send, recv unsafe.Pointer
}

// Operations, in the order of shim.h.
const (
	opBarrier = 1 + iota
	opAllReduce
	opReduce
	opBroadcast
	opAllGather
	opGather
	opScatter
	opReduceScatter
	opAllToAll
	opSend
	opRecv
	opEmit
)

var operations = map[int]clique.Op{1: clique.Sum, 2: clique.Prod, 3: clique.Min, 4: clique.Max, 5: clique.Avg}

// memoryAt returns the memory of the algorithm for times*count elements, on host or device.
func (s *service) memoryAt(q request, p unsafe.Pointer, times int) (*mem.Buffer, error) {
	size := uint64(q.kind.Size())
	if size == 0 {
		return nil, fmt.Errorf("%w: kind %d", errInvalid, uint8(q.kind))
	}
	if q.count > math.MaxInt64/size/uint64(max(1, times)) {
		return nil, fmt.Errorf("%w: %d elements", errInvalid, q.count)
	}
	n := int(q.count*size) * times
	if n == 0 || p == nil {
		if n > 0 {
			return nil, fmt.Errorf("%w: %d bytes at a null pointer", errInvalid, n)
		}
		return nil, nil
	}
	return s.dev.memory(uintptr(p), n)
}

// do runs an operation and returns the length of the received data in bytes.
func (s *service) do(q request) (received int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, context.Cause(s.ctx)
	}
	op, ok := operations[q.op]
	if !ok && (q.what == opAllReduce || q.what == opReduce || q.what == opReduceScatter) {
		return 0, fmt.Errorf("%w: operation %d", errInvalid, q.op)
	}
	// The root of some operations has one part for each rank; the other ranks have none.
	many, root := s.r.Size(), q.peer == s.r.Rank()
	sendTimes, recvTimes := 1, 1
	send, recv := q.send, q.recv
	switch q.what {
	case opAllGather:
		recvTimes = many
	case opGather:
		if recvTimes = many; !root {
			recv, recvTimes = nil, 0
		}
	case opScatter:
		if sendTimes = many; !root {
			send, sendTimes = nil, 0
		}
	case opReduceScatter:
		sendTimes = many
	case opAllToAll:
		sendTimes, recvTimes = many, many
	case opReduce:
		if !root {
			recv, recvTimes = nil, 0
		}
	case opBroadcast, opRecv:
		sendTimes = 0
	case opSend, opEmit:
		recvTimes = 0
	case opBarrier:
		return 0, s.r.Do(s.ctx, clique.Barrier())
	}
	from, err := s.memoryAt(q, send, sendTimes)
	if err != nil {
		return 0, err
	}
	if from != nil {
		defer from.Release()
	}
	to, err := s.memoryAt(q, recv, recvTimes)
	if err != nil {
		return 0, err
	}
	if to != nil {
		defer to.Release()
	}
	if received, err = s.call(q, op, from, to); err == nil && (onDevice(from) || onDevice(to)) && q.what != opEmit {
		err = s.dev.done(s.ctx, s.r, to)
	}
	return received, err
}

func onDevice(b *mem.Buffer) bool { return b != nil && !b.Kind().HostAccessible() }

// call runs an operation on memory and returns the number of received bytes.
func (s *service) call(q request, op clique.Op, from, to *mem.Buffer) (received int, err error) {
	if q.what == opEmit {
		return 0, s.emit(q, from)
	}
	c, ok := makers[q.kind](q, op, from, to) // memoryAt has checked the kind
	if !ok {
		return 0, fmt.Errorf("%w: operation %d", errInvalid, q.what)
	}
	err = s.r.Do(s.ctx, c.WithLen(&received))
	return received * q.kind.Size(), err
}

// makers has newCall for each kind of element.
var makers = map[clique.Kind]func(q request, op clique.Op, from, to *mem.Buffer) (clique.Call, bool){
	clique.KindOf[int8](): newCall[int8], clique.KindOf[int16](): newCall[int16],
	clique.KindOf[int32](): newCall[int32], clique.KindOf[int64](): newCall[int64],
	clique.KindOf[uint8](): newCall[uint8], clique.KindOf[uint16](): newCall[uint16],
	clique.KindOf[uint32](): newCall[uint32], clique.KindOf[uint64](): newCall[uint64],
	clique.KindOf[clique.F16](): newCall[clique.F16], clique.KindOf[clique.BF16](): newCall[clique.BF16],
	clique.KindOf[float32](): newCall[float32], clique.KindOf[float64](): newCall[float64],
}

// newCall returns the call of an operation; ok is false if the operation is unknown.
func newCall[T clique.Number](q request, op clique.Op, from, to *mem.Buffer) (c clique.Call, ok bool) {
	send, recv := clique.Buffer[T](from), clique.Buffer[T](to)
	switch q.what {
	case opAllReduce:
		return clique.AllReduce(send, recv, op), true
	case opReduce:
		return clique.Reduce(send, recv, op, q.peer), true
	case opBroadcast:
		return clique.Broadcast(recv, q.peer), true
	case opAllGather:
		return clique.AllGather(send, recv), true
	case opGather:
		return clique.Gather(send, recv, q.peer), true
	case opScatter:
		return clique.Scatter(send, recv, q.peer), true
	case opReduceScatter:
		return clique.ReduceScatter(send, recv, op), true
	case opAllToAll:
		return clique.AllToAll(send, recv), true
	case opSend:
		return clique.Send(q.peer, q.tag, send), true
	case opRecv:
		return clique.Recv(q.peer, q.tag, recv), true
	}
	return c, false
}

// emit keeps a copy of a column.
func (s *service) emit(q request, from *mem.Buffer) error {
	switch {
	case from != nil && onDevice(from) != (q.memory == mem.Device):
		return fmt.Errorf("%w: column declared in %v memory, but is in %v", errInvalid, q.memory, from.Kind())
	case onDevice(from):
		b, err := s.dev.copy(s.ctx, from)
		if err == nil {
			s.results = append(s.results, Result{Kind: q.kind, Device: b})
		}
		return err
	}
	s.results = append(s.results, Result{Kind: q.kind, Data: bytes.Clone(bytesOf(from))})
	return nil
}

// release releases the columns that a failed algorithm has emitted.
func (s *service) release() {
	for _, r := range s.results {
		if r.Device != nil {
			r.Device.Release()
		}
	}
}

func bytesOf(b *mem.Buffer) []byte {
	if b == nil {
		return nil
	}
	return b.Bytes()
}
