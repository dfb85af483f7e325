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

// service does the operations of one run on behalf of its thread. One goroutine uses it.
type service struct {
	ctx     context.Context
	r       *clique.Rank
	dev     *device
	results []Result
	last    error // of the last operation
}

// request is an operation as the algorithm asked for it. The memory is the algorithm's, which
// waits.
type request struct {
	what       int
	count      uint64
	kind       clique.Kind
	op, peer   int
	memory     mem.Kind // of opEmit
	tag        uint64
	send, recv unsafe.Pointer
}

// The operations, in the order of shim.h.
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

// memoryAt is the algorithm's memory of count elements, times many, wherever it is.
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
			return nil, fmt.Errorf("%w: %d bytes at no address", errInvalid, n)
		}
		return nil, nil
	}
	return s.dev.memory(uintptr(p), n)
}

// do does an operation and returns the length of what was received.
func (s *service) do(q request) (received int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, context.Cause(s.ctx)
	}
	op, ok := operations[q.op]
	if !ok && (q.what == opAllReduce || q.what == opReduce || q.what == opReduceScatter) {
		return 0, fmt.Errorf("%w: operation %d", errInvalid, q.op)
	}
	// Who looks at how much: one part for each rank, or one.
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
		return 0, clique.Barrier(s.ctx, s.r)
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

// call does an operation on memory.
func (s *service) call(q request, op clique.Op, from, to *mem.Buffer) (received int, err error) {
	ctx, r, k := s.ctx, s.r, q.kind
	switch q.what {
	case opAllReduce:
		return 0, r.AllReduce(ctx, from, to, k, op)
	case opReduce:
		return 0, r.Reduce(ctx, from, to, k, op, q.peer)
	case opBroadcast:
		return 0, r.Broadcast(ctx, to, k, q.peer)
	case opAllGather:
		return 0, r.AllGather(ctx, from, to, k)
	case opGather:
		return 0, r.Gather(ctx, from, to, k, q.peer)
	case opScatter:
		return 0, r.Scatter(ctx, from, to, k, q.peer)
	case opReduceScatter:
		return 0, r.ReduceScatter(ctx, from, to, k, op)
	case opAllToAll:
		return 0, r.AllToAll(ctx, from, to, k)
	case opSend:
		return 0, r.Send(ctx, q.peer, q.tag, from)
	case opRecv:
		return r.Recv(ctx, q.peer, q.tag, to)
	case opEmit:
		return 0, s.emit(q, from)
	}
	return 0, fmt.Errorf("%w: operation %d", errInvalid, q.what)
}

// emit keeps a copy of a column.
func (s *service) emit(q request, from *mem.Buffer) error {
	switch {
	case from != nil && onDevice(from) != (q.memory == mem.Device):
		return fmt.Errorf("%w: a column that says its memory is %v, which is %v", errInvalid, q.memory, from.Kind())
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

// release gives back what an algorithm that failed had emitted.
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
