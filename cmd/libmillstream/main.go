//go:build cgo

package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../include -fvisibility=hidden
#include <stdlib.h>
#include "exports.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"go.millstream.dev/clique"
	"go.millstream.dev/cmd/libmillstream/internal/member"
	"go.millstream.dev/secure"
)

// main is not called in a shared library.
func main() {
	fmt.Fprintln(os.Stderr, "libmillstream: this is a library; build it with -buildmode=c-shared")
	os.Exit(1)
}

var (
	comms    table[*member.Member]
	requests table[*member.Request]
)

// write copies a text with a final zero into C memory.
func write(to *C.char, room int, text string) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(to)), room)
	n := copy(b[:room-1], text)
	b[n] = 0
}

// result returns the code of an error and stores its text.
func result(err error, f *C.failure) C.int {
	if err == nil {
		return C.MILLSTREAM_OK
	}
	write(&f.text[0], len(f.text), err.Error())
	return C.int(code(err))
}

func lookup(id C.millstream_v1_comm) (*member.Member, error) { return comms.get(uint64(id), errNoComm) }

//export millstreamRelease
func millstreamRelease(to *C.char, room C.size_t) { write(to, int(room), release()) }

//export millstreamOpen
func millstreamOpen(o *C.millstream_v1_options, id *C.millstream_v1_comm, contact **C.char, f *C.failure) C.int {
	cfg := member.Config{ID: C.GoString(o.id), Name: C.GoString(o.name), Listen: C.GoString(o.listen),
		Backend: clique.Backend(C.GoString(o.backend)), Deterministic: o.deterministic != 0,
		Device: C.GoString(o.device), Timeout: seconds(float64(o.timeout)),
		Security: secure.Security{CAFile: C.GoString(o.ca_file),
			Worker: secure.KeyPair{Cert: C.GoString(o.cert_file), Key: C.GoString(o.key_file)}}}
	m, text, err := member.Open(context.Background(), cfg)
	if err != nil {
		return result(err, f)
	}
	*id, *contact = C.millstream_v1_comm(comms.add(m)), C.CString(text)
	return C.MILLSTREAM_OK
}

//export millstreamTicket
func millstreamTicket(contacts **C.char, n C.size_t, ticket **C.char, f *C.failure) C.int {
	texts := make([]string, int(n))
	for i, c := range unsafe.Slice(contacts, int(n)) {
		texts[i] = C.GoString(c)
	}
	text, err := member.Ticket(texts)
	if err != nil {
		return result(err, f)
	}
	*ticket = C.CString(text)
	return C.MILLSTREAM_OK
}

//export millstreamJoin
func millstreamJoin(id C.millstream_v1_comm, ticket *C.char, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.Join(context.Background(), C.GoString(ticket))
	}
	return result(err, f)
}

//export millstreamDestroy
func millstreamDestroy(id C.millstream_v1_comm, f *C.failure) C.int {
	m, err := comms.remove(uint64(id), errNoComm)
	if err == nil {
		err = m.Close()
	}
	return result(err, f)
}

//export millstreamAbort
func millstreamAbort(id C.millstream_v1_comm, why *C.char, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.Abort(C.GoString(why))
	}
	return result(err, f)
}

// joined returns the rank of a communicator.
func joined(id C.millstream_v1_comm) (*clique.Rank, error) {
	m, err := lookup(id)
	if err != nil {
		return nil, err
	}
	return m.Rank()
}

// size returns a communicator that has joined, and its number of ranks.
func size(id C.millstream_v1_comm) (*member.Member, int, error) {
	m, err := lookup(id)
	if err != nil {
		return nil, 0, err
	}
	r, err := m.Rank()
	if err != nil {
		return nil, 0, err
	}
	return m, r.Size(), nil
}

//export millstreamRank
func millstreamRank(id C.millstream_v1_comm, rank, ranks *C.int, f *C.failure) C.int {
	r, err := joined(id)
	if err == nil {
		*rank, *ranks = C.int(r.Rank()), C.int(r.Size())
	}
	return result(err, f)
}

//export millstreamName
func millstreamName(id C.millstream_v1_comm, rank C.int, name **C.char, f *C.failure) C.int {
	r, err := joined(id)
	if err == nil && (rank < 0 || int(rank) >= r.Size()) {
		err = fmt.Errorf("millstream: name: %w: no rank %d of %d", member.ErrInvalid, rank, r.Size())
	}
	if err == nil {
		*name = C.CString(r.Worker(int(rank)))
	}
	return result(err, f)
}

//export millstreamBackend
func millstreamBackend(id C.millstream_v1_comm, backend **C.char, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	name, err := m.Backend()
	if err == nil {
		*backend = C.CString(name)
	}
	return result(err, f)
}

//export millstreamFailedRank
func millstreamFailedRank(id C.millstream_v1_comm, rank *C.int, f *C.failure) C.int {
	r, err := joined(id)
	if err == nil {
		*rank = -1
		if failed := new(clique.RankError); errors.As(r.Err(), &failed) {
			*rank = C.int(failed.Rank)
		}
	}
	return result(err, f)
}

//export millstreamSetTimeout
func millstreamSetTimeout(id C.millstream_v1_comm, s C.double, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		m.SetTimeout(seconds(float64(s)))
	}
	return result(err, f)
}

//export millstreamReform
func millstreamReform(id C.millstream_v1_comm, s C.double, again *C.millstream_v1_comm, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	limit := seconds(float64(s))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out, err := m.Reform(ctx, limit/2) // the rest is for forming
	if err == nil {
		*again = C.millstream_v1_comm(comms.add(out))
	}
	return result(err, f)
}

//export millstreamSplit
func millstreamSplit(id C.millstream_v1_comm, color, key C.int, sub *C.millstream_v1_comm, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	s, err := m.Split(int(color), int(key))
	if err != nil {
		return result(err, f)
	}
	*sub = 0
	if s != nil {
		*sub = C.millstream_v1_comm(comms.add(s))
	}
	return C.MILLSTREAM_OK
}
