//go:build cgo

#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ms_comm is the part of a run that algorithms see.
struct ms_comm {
	pthread_mutex_t mu; // guards the fields up to the request
	pthread_cond_t changed;
	int requested; // a request is ready for Go
	int replied;   // a reply is ready for the thread
	int code;     // of the reply
	native_request req;
	// Used by the thread only:
	char error[1024];
	char why[1024];
};

struct native_run {
	ms_comm comm;
	ms_call call;
	ms_algorithm f;
	int (*set_current)(int device);
	pthread_t thread;
};

// request_go passes a request to Go and waits for the reply.
static int request_go(ms_comm *c, native_request *r) {
	pthread_mutex_lock(&c->mu);
	c->req = *r;
	c->requested = 1;
	pthread_cond_broadcast(&c->changed);
	while (!c->replied)
		pthread_cond_wait(&c->changed, &c->mu);
	c->replied = 0;
	int code = c->code;
	r->received = c->req.received;
	pthread_mutex_unlock(&c->mu);
	return code;
}

static int do_barrier(ms_comm *c) {
	native_request r = {.what = REQ_BARRIER};
	return request_go(c, &r);
}
static int do_all_reduce(ms_comm *c, const void *s, void *d, uint64_t n, int kind, int op) {
	native_request r = {.what = REQ_ALL_REDUCE, .send = s, .recv = d, .count = n, .kind = kind, .op = op};
	return request_go(c, &r);
}
static int do_reduce(ms_comm *c, const void *s, void *d, uint64_t n, int kind, int op, int root) {
	native_request r = {.what = REQ_REDUCE, .send = s, .recv = d, .count = n, .kind = kind, .op = op, .peer = root};
	return request_go(c, &r);
}
static int do_broadcast(ms_comm *c, void *b, uint64_t n, int kind, int root) {
	native_request r = {.what = REQ_BROADCAST, .recv = b, .count = n, .kind = kind, .peer = root};
	return request_go(c, &r);
}
static int do_all_gather(ms_comm *c, const void *s, void *d, uint64_t n, int kind) {
	native_request r = {.what = REQ_ALL_GATHER, .send = s, .recv = d, .count = n, .kind = kind};
	return request_go(c, &r);
}
static int do_gather(ms_comm *c, const void *s, void *d, uint64_t n, int kind, int root) {
	native_request r = {.what = REQ_GATHER, .send = s, .recv = d, .count = n, .kind = kind, .peer = root};
	return request_go(c, &r);
}
static int do_scatter(ms_comm *c, const void *s, void *d, uint64_t n, int kind, int root) {
	native_request r = {.what = REQ_SCATTER, .send = s, .recv = d, .count = n, .kind = kind, .peer = root};
	return request_go(c, &r);
}
static int do_reduce_scatter(ms_comm *c, const void *s, void *d, uint64_t n, int kind, int op) {
	native_request r = {.what = REQ_REDUCE_SCATTER, .send = s, .recv = d, .count = n, .kind = kind, .op = op};
	return request_go(c, &r);
}
static int do_all_to_all(ms_comm *c, const void *s, void *d, uint64_t n, int kind) {
	native_request r = {.what = REQ_ALL_TO_ALL, .send = s, .recv = d, .count = n, .kind = kind};
	return request_go(c, &r);
}
static int do_send(ms_comm *c, const void *b, uint64_t n, int to, uint64_t tag) {
	native_request r = {.what = REQ_SEND, .send = b, .count = n, .kind = MS_UINT8, .peer = to, .tag = tag};
	return request_go(c, &r);
}
static int do_recv(ms_comm *c, void *b, uint64_t n, int from, uint64_t tag, uint64_t *received) {
	native_request r = {.what = REQ_RECV, .recv = b, .count = n, .kind = MS_UINT8, .peer = from, .tag = tag};
	int code = request_go(c, &r);
	if (received)
		*received = r.received;
	return code;
}
static const char *do_error(ms_comm *c) { return c->error; }

static int do_emit(ms_comm *c, const ms_column *col) {
	if (!col || (!col->data && col->count)) {
		snprintf(c->error, sizeof c->error, "emit: column without data");
		return MS_INVALID;
	}
	native_request r = {.what = REQ_EMIT, .send = col->data, .count = col->count, .kind = col->kind, .memory = col->memory};
	return request_go(c, &r);
}

static int do_fail(ms_comm *c, const char *why) {
	snprintf(c->why, sizeof c->why, "%s", why ? why : "");
	return MS_ERROR;
}

static const ms_ops ops = {
	.size = sizeof(ms_ops),
	.barrier = do_barrier, .all_reduce = do_all_reduce, .reduce = do_reduce, .broadcast = do_broadcast,
	.all_gather = do_all_gather, .gather = do_gather, .scatter = do_scatter, .reduce_scatter = do_reduce_scatter,
	.all_to_all = do_all_to_all, .send = do_send, .recv = do_recv, .error = do_error,
};

void *native_open(const char *path, unsigned int *abi, char *message, size_t n) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*abi = 0;
	if (!lib) {
		const char *why = dlerror();
		snprintf(message, n, "%s", why ? why : "cannot be loaded");
		return NULL;
	}
	const unsigned int *v = dlsym(lib, "millstream_native_abi");
	if (v)
		*abi = *v;
	return lib;
}

void *native_symbol(void *lib, const char *name) { return dlsym(lib, name); }

static void *run(void *arg) {
	native_run *r = arg;
	native_request done = {.what = REQ_RETURNED, .code = MS_ERROR};
	if (r->set_current && r->set_current(r->call.device) != 0)
		do_fail(&r->comm, "cannot make the context of the CUDA device current");
	else
		done.code = r->f(&r->call);
	request_go(&r->comm, &done);
	return NULL;
}

native_run *native_start(void *algorithm, int rank, int ranks, native_device device, uint64_t npartitions,
	const ms_partition *partitions, const void *parameters, uint64_t parameter_bytes, char *message, size_t n) {
	native_run *r = calloc(1, sizeof *r);
	if (!r) {
		snprintf(message, n, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&r->comm.mu, NULL);
	pthread_cond_init(&r->comm.changed, NULL);
	r->f = (ms_algorithm)algorithm;
	r->call = (ms_call){
		.abi = MS_NATIVE_ABI, .size = sizeof(ms_call), .rank = rank, .ranks = ranks, .comm = &r->comm, .ops = &ops,
		.stream = (void *)device.stream, .device = device.ordinal, .nccl = (void *)device.nccl, .npartitions = npartitions, .partitions = partitions, .parameters = parameters,
		.parameter_bytes = parameter_bytes, .emit = do_emit, .fail = do_fail,
	};
	r->set_current = device.set_current;
	int err = pthread_create(&r->thread, NULL, run, r);
	if (err) {
		snprintf(message, n, "cannot start a thread for the algorithm: %s", strerror(err));
		free(r);
		return NULL;
	}
	return r;
}

native_request *native_next(native_run *r) {
	ms_comm *c = &r->comm;
	pthread_mutex_lock(&c->mu);
	while (!c->requested)
		pthread_cond_wait(&c->changed, &c->mu);
	c->requested = 0;
	pthread_mutex_unlock(&c->mu);
	return &c->req;
}

void native_reply(native_run *r, int code, const char *error) {
	ms_comm *c = &r->comm;
	pthread_mutex_lock(&c->mu);
	snprintf(c->error, sizeof c->error, "%s", error ? error : "");
	c->code = code;
	c->replied = 1;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->mu);
}

const char *native_reason(native_run *r) { return r->comm.why[0] ? r->comm.why : r->comm.error; }

void native_free(native_run *r) {
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->comm.changed);
	pthread_mutex_destroy(&r->comm.mu);
	free(r);
}
