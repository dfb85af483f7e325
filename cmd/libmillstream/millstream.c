//go:build cgo

#define MILLSTREAM_API __attribute__((visibility("default")))
#include "_cgo_export.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The functions of millstream.h. They call Go, unless the process is a child of fork(), in which the Go runtime has no
 * threads and a call would never return. */

static int forked;
static pthread_key_t last_key; /* a thread-local variable would need room in the static TLS of the process */
static failure no_memory = {"millstream: out of memory"};

static void in_child(void) { forked = 1; }

__attribute__((constructor)) static void initialize(void) {
	pthread_key_create(&last_key, free);
	pthread_atfork(NULL, NULL, in_child);
}

/* Returns the memory of this thread for the text of errors. */
static failure *last(void) {
	failure *f = pthread_getspecific(last_key);
	if (f == NULL) {
		f = calloc(1, sizeof *f);
		if (f == NULL)
			return &no_memory;
		pthread_setspecific(last_key, f);
	}
	return f;
}

static int fail(int code, const char *text) {
	failure *f = last();
	if (f != &no_memory)
		strncpy(f->text, text, sizeof f->text - 1);
	return code;
}

#define CHECK_FORK \
	if (forked) \
		return fail(MILLSTREAM_FORKED, "millstream: the library does not work in a child of fork(); start the process with exec, " \
			"such as multiprocessing's start method spawn")
#define CHECK(condition, text) \
	if (!(condition)) \
		return fail(MILLSTREAM_INVALID, "millstream: " text)

uint32_t millstream_v1_abi(void) { return MILLSTREAM_ABI; }

const char *millstream_v1_last_error(void) { return last()->text; }

void millstream_v1_free(char *text) { free(text); }

static char release[128];

static void read_release(void) { millstreamRelease(release, sizeof release); }

const char *millstream_v1_release(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (!forked)
		pthread_once(&once, read_release);
	return release;
}

int millstream_v1_open(const millstream_v1_options *o, millstream_v1_comm *comm, char **contact) {
	CHECK_FORK;
	CHECK(o != NULL && comm != NULL && contact != NULL, "open: options, comm and contact are required");
	CHECK(o->size >= sizeof *o, "open: size of the options is smaller than that of version 1");
	return millstreamOpen((millstream_v1_options *)o, comm, contact, last());
}

int millstream_v1_ticket(const char *const *contacts, size_t n, char **ticket) {
	CHECK_FORK;
	CHECK(ticket != NULL && (n == 0 || contacts != NULL), "ticket: contacts and ticket are required");
	for (size_t i = 0; i < n; i++)
		CHECK(contacts[i] != NULL, "ticket: a contact is NULL");
	return millstreamTicket((char **)contacts, n, ticket, last());
}

int millstream_v1_join(millstream_v1_comm comm, const char *ticket) {
	CHECK_FORK;
	CHECK(ticket != NULL, "join: ticket is NULL");
	return millstreamJoin(comm, (char *)ticket, last());
}

int millstream_v1_destroy(millstream_v1_comm comm) {
	CHECK_FORK;
	return millstreamDestroy(comm, last());
}

int millstream_v1_abort(millstream_v1_comm comm, const char *why) {
	CHECK_FORK;
	return millstreamAbort(comm, (char *)why, last());
}

int millstream_v1_rank(millstream_v1_comm comm, int *rank, int *ranks) {
	CHECK_FORK;
	CHECK(rank != NULL && ranks != NULL, "rank: rank and ranks are required");
	return millstreamRank(comm, rank, ranks, last());
}

int millstream_v1_name(millstream_v1_comm comm, int rank, char **name) {
	CHECK_FORK;
	CHECK(name != NULL, "name: name is NULL");
	return millstreamName(comm, rank, name, last());
}

int millstream_v1_backend(millstream_v1_comm comm, char **backend) {
	CHECK_FORK;
	CHECK(backend != NULL, "backend: backend is NULL");
	return millstreamBackend(comm, backend, last());
}

int millstream_v1_failed_rank(millstream_v1_comm comm, int *rank) {
	CHECK_FORK;
	CHECK(rank != NULL, "failed_rank: rank is NULL");
	return millstreamFailedRank(comm, rank, last());
}

int millstream_v1_set_timeout(millstream_v1_comm comm, double seconds) {
	CHECK_FORK;
	CHECK(seconds >= 0 && seconds < 1e9, "set_timeout: want 0 to 1e9 seconds");
	return millstreamSetTimeout(comm, seconds, last());
}

int millstream_v1_split(millstream_v1_comm comm, int color, int key, millstream_v1_comm *sub) {
	CHECK_FORK;
	CHECK(sub != NULL, "split: the result is NULL");
	return millstreamSplit(comm, color, key, sub, last());
}

static int run(millstream_v1_comm comm, millstream_v1_call c, uint64_t *received) {
	uint64_t n = 0;
	CHECK_FORK;
	int code = millstreamRun(comm, &c, &n, last());
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

int millstream_v1_start(millstream_v1_comm comm, const millstream_v1_call *c, millstream_v1_request *request) {
	CHECK_FORK;
	CHECK(c != NULL && request != NULL, "start: call and request are required");
	CHECK(c->size >= sizeof *c, "start: size of the call is smaller than that of version 1");
	return millstreamStart(comm, (millstream_v1_call *)c, request, last());
}

int millstream_v1_wait(millstream_v1_request request, double seconds, uint64_t *received) {
	uint64_t n = 0;
	CHECK_FORK;
	CHECK(seconds < 1e9, "wait: want at most 1e9 seconds");
	int code = millstreamWait(request, seconds, &n, last());
	if (received != NULL)
		*received = n;
	return code;
}

int millstream_v1_reject(millstream_v1_comm comm, int operation, const char *why) {
	CHECK_FORK;
	CHECK(why != NULL && *why != 0, "reject: the reason is empty");
	return millstreamReject(comm, operation, (char *)why, last());
}
