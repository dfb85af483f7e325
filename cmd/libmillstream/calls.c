//go:build cgo

#include "_cgo_export.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* The collectives and messages of millstream.h. */

/* Reports whether the process has loaded the CUDA driver. Without it there is no device memory to recognize. */
int millstream_has_cuda(void) {
	static int loaded;
	if (!__atomic_load_n(&loaded, __ATOMIC_RELAXED) && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL)
		__atomic_store_n(&loaded, 1, __ATOMIC_RELAXED);
	return loaded;
}

static int run(millstream_v1_comm comm, millstream_v1_call c, uint64_t *received) {
	uint64_t n = 0;
	CHECK_FORK;
	if (c.memory == MILLSTREAM_ANY && !millstream_has_cuda())
		c.memory = MILLSTREAM_HOST;
	int code = millstreamRun(comm, &c, &n, millstream_last());
	if (received != NULL)
		*received = n;
	return code;
}

#define CALL(name) .size = sizeof(millstream_v1_call), .operation = MILLSTREAM_##name

int millstream_v1_barrier(millstream_v1_comm comm) {
	return run(comm, (millstream_v1_call){CALL(BARRIER)}, NULL);
}

int millstream_v1_allreduce(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype, int op) {
	return run(comm, (millstream_v1_call){CALL(ALLREDUCE), .dtype = dtype, .op = op, .count = count, .send = send, .recv = recv},
		NULL);
}

int millstream_v1_reduce(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype, int op, int root) {
	return run(comm, (millstream_v1_call){CALL(REDUCE), .dtype = dtype, .op = op, .peer = root, .count = count, .send = send,
		.recv = recv}, NULL);
}

int millstream_v1_broadcast(millstream_v1_comm comm, void *buf, uint64_t count, int dtype, int root) {
	return run(comm, (millstream_v1_call){CALL(BROADCAST), .dtype = dtype, .peer = root, .count = count, .recv = buf}, NULL);
}

int millstream_v1_allgather(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype) {
	return run(comm, (millstream_v1_call){CALL(ALLGATHER), .dtype = dtype, .count = count, .send = send, .recv = recv}, NULL);
}

int millstream_v1_gather(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype, int root) {
	return run(comm, (millstream_v1_call){CALL(GATHER), .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv},
		NULL);
}

int millstream_v1_scatter(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype, int root) {
	return run(comm, (millstream_v1_call){CALL(SCATTER), .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv},
		NULL);
}

int millstream_v1_reducescatter(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype, int op) {
	return run(comm, (millstream_v1_call){CALL(REDUCESCATTER), .dtype = dtype, .op = op, .count = count, .send = send,
		.recv = recv}, NULL);
}

int millstream_v1_alltoall(millstream_v1_comm comm, const void *send, void *recv, uint64_t count, int dtype) {
	return run(comm, (millstream_v1_call){CALL(ALLTOALL), .dtype = dtype, .count = count, .send = send, .recv = recv}, NULL);
}

int millstream_v1_allgatherv(millstream_v1_comm comm, const void *send, void *recv, const uint64_t *counts, int dtype) {
	return run(comm, (millstream_v1_call){CALL(ALLGATHERV), .dtype = dtype, .send = send, .recv = recv, .counts = counts}, NULL);
}

int millstream_v1_gatherv(millstream_v1_comm comm, const void *send, uint64_t count, void *recv, const uint64_t *counts, int dtype,
	int root) {
	return run(comm, (millstream_v1_call){CALL(GATHERV), .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv,
		.counts = counts}, NULL);
}

int millstream_v1_scatterv(millstream_v1_comm comm, const void *send, const uint64_t *counts, void *recv, uint64_t count, int dtype,
	int root) {
	return run(comm, (millstream_v1_call){CALL(SCATTERV), .dtype = dtype, .peer = root, .count = count, .send = send, .recv = recv,
		.counts = counts}, NULL);
}

int millstream_v1_alltoallv(millstream_v1_comm comm, const void *send, const uint64_t *sendcounts, void *recv,
	const uint64_t *recvcounts, int dtype) {
	return run(comm, (millstream_v1_call){CALL(ALLTOALLV), .dtype = dtype, .send = send, .recv = recv, .counts = sendcounts,
		.recvcounts = recvcounts}, NULL);
}

int millstream_v1_send(millstream_v1_comm comm, const void *buf, uint64_t count, int dtype, int to, uint64_t tag) {
	return run(comm, (millstream_v1_call){CALL(SEND), .dtype = dtype, .peer = to, .count = count, .tag = tag, .send = buf}, NULL);
}

int millstream_v1_recv(millstream_v1_comm comm, void *buf, uint64_t count, int dtype, int from, uint64_t tag, uint64_t *received) {
	return run(comm, (millstream_v1_call){CALL(RECV), .dtype = dtype, .peer = from, .count = count, .tag = tag, .recv = buf},
		received);
}

int millstream_v1_sendrecv(millstream_v1_comm comm, const void *send, uint64_t count, int to, uint64_t tag, void *recv,
	uint64_t recvcount, int from, uint64_t recvtag, int dtype, uint64_t *received) {
	return run(comm, (millstream_v1_call){CALL(SENDRECV), .dtype = dtype, .peer = to, .from = from, .count = count,
		.recvcount = recvcount, .tag = tag, .recvtag = recvtag, .send = send, .recv = recv}, received);
}

/* Copies a call of the caller, whose header may be older and its struct smaller. */
int millstream_read_call(const millstream_v1_call *from, millstream_v1_call *c) {
	CHECK(from->size >= offsetof(millstream_v1_call, memory), "size of the call is smaller than that of version 1");
	memset(c, 0, sizeof *c);
	memcpy(c, from, from->size < sizeof *c ? from->size : sizeof *c);
	return MILLSTREAM_OK;
}

int millstream_v1_run(millstream_v1_comm comm, const millstream_v1_call *from, uint64_t *received) {
	millstream_v1_call c;
	CHECK(from != NULL, "run: call is NULL");
	int code = millstream_read_call(from, &c);
	return code != MILLSTREAM_OK ? code : run(comm, c, received);
}
