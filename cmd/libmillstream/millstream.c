//go:build cgo

#include "_cgo_export.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The functions of millstream.h. They call Go, unless the process is a child of fork(), in which the Go runtime has no
 * threads and a call would never return. */

int millstream_forked;
static pthread_key_t last_key; /* a thread-local variable would need room in the static TLS of the process */
static failure no_memory = {"millstream: out of memory"};

static void in_child(void) { millstream_forked = 1; }

__attribute__((constructor)) static void initialize(void) {
	pthread_key_create(&last_key, free);
	pthread_atfork(NULL, NULL, in_child);
}

/* Returns the memory of this thread for the text of errors. */
failure *millstream_last(void) {
	failure *f = pthread_getspecific(last_key);
	if (f == NULL) {
		f = calloc(1, sizeof *f);
		if (f == NULL)
			return &no_memory;
		pthread_setspecific(last_key, f);
	}
	return f;
}

int millstream_fail(int code, const char *text) {
	failure *f = millstream_last();
	if (f != &no_memory)
		strncpy(f->text, text, sizeof f->text - 1);
	return code;
}

uint32_t millstream_v1_abi(void) { return MILLSTREAM_ABI; }

const char *millstream_v1_last_error(void) { return millstream_last()->text; }

void millstream_v1_free(char *text) { free(text); }

static char release[128];

static void read_release(void) { millstreamRelease(release, sizeof release); }

const char *millstream_v1_release(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (!millstream_forked)
		pthread_once(&once, read_release);
	return release;
}

int millstream_v1_open(const millstream_v1_options *o, millstream_v1_comm *comm, char **contact) {
	CHECK_FORK;
	CHECK(o != NULL && comm != NULL && contact != NULL, "open: options, comm and contact are required");
	CHECK(o->size >= offsetof(millstream_v1_options, device), "open: size of the options is smaller than that of version 1");
	millstream_v1_options all = {0}; /* the header of the caller may be older, and its struct smaller */
	memcpy(&all, o, o->size < sizeof all ? o->size : sizeof all);
	return millstreamOpen(&all, comm, contact, millstream_last());
}

int millstream_v1_ticket(const char *const *contacts, size_t n, char **ticket) {
	CHECK_FORK;
	CHECK(ticket != NULL && (n == 0 || contacts != NULL), "ticket: contacts and ticket are required");
	for (size_t i = 0; i < n; i++)
		CHECK(contacts[i] != NULL, "ticket: a contact is NULL");
	return millstreamTicket((char **)contacts, n, ticket, millstream_last());
}

int millstream_v1_join(millstream_v1_comm comm, const char *ticket) {
	CHECK_FORK;
	CHECK(ticket != NULL, "join: ticket is NULL");
	return millstreamJoin(comm, (char *)ticket, millstream_last());
}

int millstream_v1_destroy(millstream_v1_comm comm) {
	CHECK_FORK;
	return millstreamDestroy(comm, millstream_last());
}

int millstream_v1_abort(millstream_v1_comm comm, const char *why) {
	CHECK_FORK;
	return millstreamAbort(comm, (char *)why, millstream_last());
}

int millstream_v1_rank(millstream_v1_comm comm, int *rank, int *ranks) {
	CHECK_FORK;
	CHECK(rank != NULL && ranks != NULL, "rank: rank and ranks are required");
	return millstreamRank(comm, rank, ranks, millstream_last());
}

int millstream_v1_name(millstream_v1_comm comm, int rank, char **name) {
	CHECK_FORK;
	CHECK(name != NULL, "name: name is NULL");
	return millstreamName(comm, rank, name, millstream_last());
}

int millstream_v1_backend(millstream_v1_comm comm, char **backend) {
	CHECK_FORK;
	CHECK(backend != NULL, "backend: backend is NULL");
	return millstreamBackend(comm, backend, millstream_last());
}

int millstream_v1_failed_rank(millstream_v1_comm comm, int *rank) {
	CHECK_FORK;
	CHECK(rank != NULL, "failed_rank: rank is NULL");
	return millstreamFailedRank(comm, rank, millstream_last());
}

int millstream_v1_set_timeout(millstream_v1_comm comm, double seconds) {
	CHECK_FORK;
	CHECK(seconds >= 0 && seconds < 1e9, "set_timeout: want 0 to 1e9 seconds");
	return millstreamSetTimeout(comm, seconds, millstream_last());
}

int millstream_v1_split(millstream_v1_comm comm, int color, int key, millstream_v1_comm *sub) {
	CHECK_FORK;
	CHECK(sub != NULL, "split: the result is NULL");
	return millstreamSplit(comm, color, key, sub, millstream_last());
}

int millstream_v1_reform(millstream_v1_comm comm, double seconds, millstream_v1_comm *again) {
	CHECK_FORK;
	CHECK(again != NULL, "reform: the result is NULL");
	CHECK(seconds > 0 && seconds < 1e9, "reform: want 0 to 1e9 seconds");
	return millstreamReform(comm, seconds, again, millstream_last());
}

int millstream_v1_dup(millstream_v1_comm comm, millstream_v1_comm *copy) {
	int rank, ranks;
	CHECK_FORK;
	CHECK(copy != NULL, "dup: the result is NULL");
	int code = millstreamRank(comm, &rank, &ranks, millstream_last());
	return code != MILLSTREAM_OK ? code : millstreamSplit(comm, 0, rank, copy, millstream_last());
}

int millstream_v1_reject(millstream_v1_comm comm, int operation, const char *why) {
	CHECK_FORK;
	CHECK(why != NULL && *why != 0, "reject: the reason is empty");
	return millstreamReject(comm, operation, (char *)why, millstream_last());
}
