//go:build cgo

#include "_cgo_export.h"

/* The functions of millstream.h for device memory. */

int millstream_v1_set_stream(millstream_v1_comm comm, void *stream) {
	CHECK_FORK;
	return millstreamSetStream(comm, (uintptr_t)stream, millstream_last());
}

int millstream_v1_device_backend(millstream_v1_comm comm, char **backend) {
	CHECK_FORK;
	CHECK(backend != NULL, "device_backend: backend is NULL");
	return millstreamDeviceBackend(comm, backend, millstream_last());
}

int millstream_v1_nccl_comm(millstream_v1_comm comm, void **nccl, void **stream) {
	uintptr_t c = 0, s = 0;
	CHECK_FORK;
	CHECK(nccl != NULL, "nccl_comm: nccl is NULL");
	int code = millstreamNCCL(comm, &c, &s, millstream_last());
	*nccl = (void *)c;
	if (stream != NULL)
		*stream = (void *)s;
	return code;
}

int millstream_v1_sync_stream(millstream_v1_comm comm, void *stream) {
	CHECK_FORK;
	return millstreamSyncStream(comm, (uintptr_t)stream, millstream_last());
}
