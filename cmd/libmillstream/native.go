//go:build cgo

package main

// #include <stdlib.h>
// #include "exports.h"
import "C"

import (
	"errors"
	"unsafe"

	"go.millstream.dev/clique/native"
	"go.millstream.dev/cmd/libmillstream/internal/member"
)

// emitted has the results in device memory that C has not freed.
var emitted table[[]native.Result]

var errNoResults = errors.New("millstream: no such results: they were freed already")

//export millstreamNative
func millstreamNative(id C.millstream_v1_comm, a *C.millstream_v1_algorithm, cuda C.int, out *C.millstream_v1_results,
	f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	call := member.Algorithm{Library: C.GoString(a.library), Name: C.GoString(a.name), Stream: uintptr(a.stream)}
	if a.parameter_bytes > 0 {
		call.Parameters = C.GoBytes(a.parameters, C.int(a.parameter_bytes))
	}
	next := a.columns
	for _, n := range unsafe.Slice(a.ncolumns, int(a.npartitions)) {
		columns := make([]member.Column, int(n))
		for i, c := range unsafe.Slice(next, int(n)) {
			columns[i] = member.Column{Data: uintptr(c.data), Count: uint64(c.count), Kind: kind(int32(c.dtype)),
				Memory: member.Memory(c.memory)}
			if cuda == 0 && columns[i].Memory == member.Any {
				columns[i].Memory = member.Host
			}
		}
		call.Partitions = append(call.Partitions, columns)
		next = (*C.millstream_v1_column)(unsafe.Add(unsafe.Pointer(next), uintptr(n)*unsafe.Sizeof(*next)))
	}
	results, err := m.Native(call)
	if err != nil {
		return result(err, f)
	}
	list := C.calloc(C.size_t(max(1, len(results))), C.sizeof_millstream_v1_column)
	columns := unsafe.Slice((*C.millstream_v1_column)(list), len(results))
	onDevice := false
	for i, r := range results {
		c := C.millstream_v1_column{dtype: C.int32_t(r.Kind), memory: C.MILLSTREAM_HOST}
		if r.Device != nil {
			onDevice = true
			c.memory, c.count = C.MILLSTREAM_DEVICE, C.uint64_t(r.Device.Len()/r.Kind.Size())
			addr := r.Device.Addr()
			c.data = *(*unsafe.Pointer)(unsafe.Pointer(&addr))
		} else {
			c.data, c.count = C.CBytes(r.Data), C.uint64_t(len(r.Data)/r.Kind.Size())
		}
		columns[i] = c
	}
	out.columns, out.ncolumns = (*C.millstream_v1_column)(list), C.uint64_t(len(results))
	if onDevice {
		out.handle = C.uint64_t(emitted.add(results))
	}
	return C.MILLSTREAM_OK
}

//export millstreamFreeResults
func millstreamFreeResults(id C.uint64_t, f *C.failure) C.int {
	results, err := emitted.remove(uint64(id), errNoResults)
	for _, r := range results {
		if r.Device != nil {
			r.Device.Release()
		}
	}
	return result(err, f)
}
