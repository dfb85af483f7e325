//go:build cgo

package main

// #include "exports.h"
import "C"

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"go.millstream.dev/cmd/libmillstream/internal/member"
)

// operation converts a call for a communicator of some ranks. Memory stays that of the caller.
func operation(c *C.millstream_v1_call, ranks int) member.Operation {
	return member.Operation{Code: member.Code(c.operation), Kind: kind(int32(c.dtype)), Op: int(c.op),
		Count: uint64(c.count), RecvCount: uint64(c.recvcount), Peer: int(c.peer), From: int(c.from),
		Tag: uint64(c.tag), RecvTag: uint64(c.recvtag), Send: uintptr(c.send), Recv: uintptr(c.recv),
		Memory: member.Memory(c.memory), Stream: uintptr(c.stream),
		Counts: slice(c.counts, ranks), RecvCounts: slice(c.recvcounts, ranks)}
}

// slice copies n numbers of the caller, nil for a null pointer.
func slice(p *C.uint64_t, n int) []uint64 {
	if p == nil {
		return nil
	}
	return slices.Clone(unsafe.Slice((*uint64)(unsafe.Pointer(p)), n))
}

//export millstreamRun
func millstreamRun(id C.millstream_v1_comm, c *C.millstream_v1_call, received *C.uint64_t, f *C.failure) C.int {
	m, ranks, err := size(id)
	if err != nil {
		return result(err, f)
	}
	n, err := m.Do(operation(c, ranks))
	*received = C.uint64_t(n)
	return result(err, f)
}

//export millstreamStart
func millstreamStart(id C.millstream_v1_comm, c *C.millstream_v1_call, request *C.millstream_v1_request,
	f *C.failure) C.int {
	m, ranks, err := size(id)
	if err != nil {
		return result(err, f)
	}
	r, err := m.Start(operation(c, ranks))
	if err == nil {
		*request = C.millstream_v1_request(requests.add(r))
	}
	return result(err, f)
}

//export millstreamWait
func millstreamWait(id C.millstream_v1_request, s C.double, received *C.uint64_t, f *C.failure) C.int {
	r, err := requests.get(uint64(id), errNoRequest)
	if err != nil {
		return result(err, f)
	}
	ctx := context.Background()
	if s >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(float64(s)*float64(time.Second)))
		defer cancel()
	}
	err = r.Wait(ctx)
	select {
	case <-r.Done():
		if _, err = requests.remove(uint64(id), errNoRequest); err == nil { // else another thread has waited for it
			err = r.Finish()
		}
	default:
	}
	*received = C.uint64_t(r.Len())
	return result(err, f)
}

//export millstreamReject
func millstreamReject(id C.millstream_v1_comm, code C.int, why *C.char, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		_, err = m.Do(member.Operation{Code: member.Code(code), Kind: kind(C.MILLSTREAM_UINT8),
			Invalid: C.GoString(why)})
	}
	return result(err, f)
}

//export millstreamGroupStart
func millstreamGroupStart(id C.millstream_v1_comm, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.GroupStart()
	}
	return result(err, f)
}

//export millstreamGroupEnd
func millstreamGroupEnd(id C.millstream_v1_comm, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.GroupEnd()
	}
	return result(err, f)
}

//export millstreamMulticast
func millstreamMulticast(id C.millstream_v1_comm, c *C.millstream_v1_call, to, from *C.parts, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.Multicast(operation(c, 0), messages(to), messages(from))
	}
	return result(err, f)
}

// messages converts one side of a multicast.
func messages(p *C.parts) []member.Message {
	n := int(p.n)
	out := make([]member.Message, n)
	counts, offsets, ranks := slice(p.counts, n), slice(p.offsets, n), unsafe.Slice(p.ranks, n)
	for i := range out {
		out[i] = member.Message{Base: uintptr(p.base), Count: counts[i], Offset: offsets[i], Rank: int(ranks[i])}
	}
	return out
}
