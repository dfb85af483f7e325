//go:build cgo

package main

// #include "exports.h"
import "C"

//export millstreamSetStream
func millstreamSetStream(id C.millstream_v1_comm, stream C.uintptr_t, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		m.SetStream(uintptr(stream))
	}
	return result(err, f)
}

//export millstreamDeviceBackend
func millstreamDeviceBackend(id C.millstream_v1_comm, backend **C.char, f *C.failure) C.int {
	r, err := joined(id)
	if err == nil {
		*backend = C.CString(string(r.DeviceBackend()))
	}
	return result(err, f)
}

//export millstreamNCCL
func millstreamNCCL(id C.millstream_v1_comm, nccl, stream *C.uintptr_t, f *C.failure) C.int {
	m, err := lookup(id)
	if err != nil {
		return result(err, f)
	}
	c, s, err := m.NCCL()
	*nccl, *stream = C.uintptr_t(c), C.uintptr_t(s)
	return result(err, f)
}

//export millstreamSyncStream
func millstreamSyncStream(id C.millstream_v1_comm, stream C.uintptr_t, f *C.failure) C.int {
	m, err := lookup(id)
	if err == nil {
		err = m.SyncStream(uintptr(stream))
	}
	return result(err, f)
}
