//go:build cgo

#include "_cgo_export.h"

#include <string.h>
#include <time.h>

/* The functions of millstream.h that start operations and wait for them. */

static int start(millstream_v1_comm comm, millstream_v1_call c, millstream_v1_request *request) {
	CHECK_FORK;
	CHECK(request != NULL, "request is NULL");
	if (c.memory == MILLSTREAM_ANY && !millstream_has_cuda())
		c.memory = MILLSTREAM_HOST;
	return millstreamStart(comm, &c, request, millstream_last());
}

int millstream_v1_start(millstream_v1_comm comm, const millstream_v1_call *from, millstream_v1_request *request) {
	millstream_v1_call c;
	CHECK_FORK;
	CHECK(from != NULL && request != NULL, "start: call and request are required");
	int code = millstream_read_call(from, &c);
	if (code != MILLSTREAM_OK)
		return code;
	return start(comm, c, request);
}

int millstream_v1_isend(millstream_v1_comm comm, const void *buf, uint64_t count, int dtype, int to, uint64_t tag,
	millstream_v1_request *request) {
	return start(comm, (millstream_v1_call){.size = sizeof(millstream_v1_call), .operation = MILLSTREAM_SEND, .dtype = dtype,
		.peer = to, .count = count, .tag = tag, .send = buf}, request);
}

int millstream_v1_irecv(millstream_v1_comm comm, void *buf, uint64_t count, int dtype, int from, uint64_t tag,
	millstream_v1_request *request) {
	return start(comm, (millstream_v1_call){.size = sizeof(millstream_v1_call), .operation = MILLSTREAM_RECV, .dtype = dtype,
		.peer = from, .count = count, .tag = tag, .recv = buf}, request);
}

int millstream_v1_wait(millstream_v1_request request, double seconds, uint64_t *received) {
	uint64_t n = 0;
	CHECK_FORK;
	CHECK(seconds < 1e9, "wait: want at most 1e9 seconds");
	int code = millstreamWait(request, seconds, &n, millstream_last());
	if (received != NULL)
		*received = n;
	return code;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int millstream_v1_waitall(millstream_v1_request *requests, size_t n, double seconds) {
	CHECK_FORK;
	CHECK(n == 0 || requests != NULL, "waitall: requests is NULL");
	failure first; /* later calls overwrite the text of this thread */
	int result = MILLSTREAM_OK;
	double end = now() + seconds;
	for (size_t i = 0; i < n; i++) {
		if (requests[i] == 0)
			continue;
		double left = seconds < 0 ? -1 : end - now();
		int code = millstream_v1_wait(requests[i], seconds >= 0 && left < 0 ? 0 : left, NULL);
		if (code != MILLSTREAM_TIMEOUT)
			requests[i] = 0;
		if (code != MILLSTREAM_OK && result == MILLSTREAM_OK) {
			result = code;
			memcpy(first.text, millstream_last()->text, sizeof first.text);
		}
	}
	return result == MILLSTREAM_OK ? result : millstream_fail(result, first.text);
}

int millstream_v1_group_start(millstream_v1_comm comm) {
	CHECK_FORK;
	return millstreamGroupStart(comm, millstream_last());
}

int millstream_v1_group_end(millstream_v1_comm comm) {
	CHECK_FORK;
	return millstreamGroupEnd(comm, millstream_last());
}

int millstream_v1_multicast_sendrecv(millstream_v1_comm comm, const void *send, const uint64_t *sendcounts,
	const uint64_t *sendoffsets, const int *dests, size_t nsends, void *recv, const uint64_t *recvcounts,
	const uint64_t *recvoffsets, const int *sources, size_t nrecvs, int dtype, uint64_t tag) {
	CHECK_FORK;
	CHECK(nsends == 0 || (sendcounts != NULL && sendoffsets != NULL && dests != NULL),
		"multicast_sendrecv: sendcounts, sendoffsets and dests are required");
	CHECK(nrecvs == 0 || (recvcounts != NULL && recvoffsets != NULL && sources != NULL),
		"multicast_sendrecv: recvcounts, recvoffsets and sources are required");
	CHECK(nsends <= MILLSTREAM_MAX_PARTS && nrecvs <= MILLSTREAM_MAX_PARTS, "multicast_sendrecv: more than 1048576 messages");
	parts to = {(uintptr_t)send, sendcounts, sendoffsets, dests, nsends};
	parts from = {(uintptr_t)recv, recvcounts, recvoffsets, sources, nrecvs};
	millstream_v1_call c = {.size = sizeof c, .dtype = dtype, .tag = tag,
		.memory = millstream_has_cuda() ? MILLSTREAM_ANY : MILLSTREAM_HOST};
	return millstreamMulticast(comm, &c, &to, &from, millstream_last());
}
