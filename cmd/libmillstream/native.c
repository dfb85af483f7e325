//go:build cgo

#include "_cgo_export.h"

#include <stdlib.h>
#include <string.h>

/* The functions of millstream.h for algorithms of shared libraries. */

int millstream_v1_native(millstream_v1_comm comm, const millstream_v1_algorithm *a, millstream_v1_results *out) {
	CHECK_FORK;
	CHECK(a != NULL && out != NULL, "native: algorithm and results are required");
	CHECK(a->size >= sizeof *a, "native: size of the algorithm is smaller than that of version 1");
	CHECK(a->library != NULL && a->name != NULL, "native: library and name are required");
	CHECK(a->npartitions == 0 || a->ncolumns != NULL, "native: ncolumns is NULL");
	CHECK(a->parameter_bytes == 0 || a->parameters != NULL, "native: parameters is NULL");
	CHECK(a->parameter_bytes <= 1 << 30, "native: parameters of more than 1 GiB");
	uint64_t n = 0;
	for (uint32_t i = 0; i < a->npartitions; i++)
		n += a->ncolumns[i];
	CHECK(n == 0 || a->columns != NULL, "native: columns is NULL");
	memset(out, 0, sizeof *out);
	return millstreamNative(comm, (millstream_v1_algorithm *)a, millstream_has_cuda(), out, millstream_last());
}

int millstream_v1_free_results(millstream_v1_results *r) {
	CHECK_FORK;
	CHECK(r != NULL, "free_results: results is NULL");
	for (uint64_t i = 0; i < r->ncolumns; i++)
		if (r->columns[i].memory == MILLSTREAM_HOST)
			free((void *)r->columns[i].data);
	free(r->columns);
	uint64_t handle = r->handle;
	memset(r, 0, sizeof *r);
	return handle == 0 ? MILLSTREAM_OK : millstreamFreeResults(handle, millstream_last());
}
