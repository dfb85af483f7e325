//go:build cgo

#define _GNU_SOURCE // dladdr
#include "ncclapi.h"
#include "abi.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The table: one pointer per NCCL function. ncclapi_load writes it before it sets loaded, and
// it is never changed.
static struct {
#define FIELD(required, symbol, ...) ncclapi_result (*symbol)(__VA_ARGS__);
	NCCLAPI_FUNCTIONS(FIELD)
#undef FIELD
	const char *(*ncclGetErrorString)(ncclapi_result);
	const char *(*ncclGetLastError)(ncclapi_comm);
} nccl;

static atomic_int loaded;
static char load_path[1024];

int ncclapi_load(const char *path, int only_if_loaded, char *message, size_t n) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | (only_if_loaded ? RTLD_NOLOAD : 0));
	if (!lib) {
		const char *why = dlerror();
		snprintf(message, n, "%s", why ? why : "not loaded");
		return -1;
	}
#define LOOKUP(required, symbol, ...) \
	*(void **)&nccl.symbol = dlsym(lib, #symbol); \
	if (required && !nccl.symbol) { \
		snprintf(message, n, "%s has no %s: NCCL 2.14 or newer is needed", path, #symbol); \
		return -1; /* not closed: another part of the process may use it */ \
	}
	NCCLAPI_FUNCTIONS(LOOKUP)
#undef LOOKUP
	*(void **)&nccl.ncclGetErrorString = dlsym(lib, "ncclGetErrorString");
	*(void **)&nccl.ncclGetLastError = dlsym(lib, "ncclGetLastError");
	Dl_info where;
	if (dladdr(*(void **)&nccl.ncclGetVersion, &where) && where.dli_fname)
		snprintf(load_path, sizeof load_path, "%s", where.dli_fname);
	atomic_store(&loaded, 1);
	return 0;
}

const char *ncclapi_path(void) { return load_path; }

#define READY() \
	if (!atomic_load_explicit(&loaded, memory_order_acquire)) \
		return NCCLAPI_NOT_LOADED

int ncclapi_version(void) {
	int v = 0;
	READY();
	return nccl.ncclGetVersion(&v) ? 0 : v;
}

const char *ncclapi_error_text(int result) {
	if (!atomic_load(&loaded) || !nccl.ncclGetErrorString || result < 0)
		return NULL;
	return nccl.ncclGetErrorString(result);
}

#define COMM(handle) ((ncclapi_comm)(uintptr_t)(handle))

const char *ncclapi_last_error(uint64_t comm) {
	if (!atomic_load(&loaded) || !nccl.ncclGetLastError)
		return NULL;
	return nccl.ncclGetLastError(COMM(comm));
}

int ncclapi_unique_id(void *id128) {
	ncclapi_id id;
	READY();
	int rc = nccl.ncclGetUniqueId(&id);
	memcpy(id128, &id, sizeof id);
	return rc;
}

// ENTER makes the device's context current: NCCL uses that of the calling thread.
#define ENTER() \
	READY(); \
	if (set_current && ((ncclapi_set_current)set_current)(device)) \
		return NCCLAPI_UNHANDLED_CUDA_ERROR

static int or_undefined(int v) { return v ? v : NCCLAPI_UNDEFINED; }

static struct ncclapi_config config_of(const ncclapi_settings *s) {
	return (struct ncclapi_config){
		.size = sizeof(struct ncclapi_config),
		.magic = (unsigned)NCCLAPI_CONFIG_MAGIC,
		.version = NCCLAPI_CONFIG_VERSION,
		.blocking = 0,
		.cgaClusterSize = or_undefined(s->cga_cluster_size),
		.minCTAs = or_undefined(s->min_ctas),
		.maxCTAs = or_undefined(s->max_ctas),
		.netName = s->net_name,
		.splitShare = or_undefined(s->split_share),
	};
}

int ncclapi_init(uintptr_t set_current, int device, int ranks, const void *id128, int rank, const ncclapi_settings *s, uint64_t *out) {
	ENTER();
	ncclapi_id id;
	ncclapi_comm comm = NULL;
	memcpy(&id, id128, sizeof id);
	struct ncclapi_config config = config_of(s);
	int rc = nccl.ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
	*out = (uintptr_t)comm;
	return rc;
}

// A cell has two pointers: where NCCL writes the new communicator, and the config, which NCCL may
// read until then.
struct cell {
	ncclapi_comm made;
	struct ncclapi_config config;
};

static struct cell *new_cell(const ncclapi_settings *s, uint64_t *out) {
	struct cell *c = calloc(1, sizeof *c);
	if (c)
		c->config = config_of(s);
	*out = (uintptr_t)c;
	return c;
}

uint64_t ncclapi_peek(uint64_t cell) {
	struct cell *c = (struct cell *)(uintptr_t)cell;
	return c ? (uintptr_t)__atomic_load_n(&c->made, __ATOMIC_ACQUIRE) : 0;
}

void ncclapi_free(uint64_t cell) { free((struct cell *)(uintptr_t)cell); }

int ncclapi_split(uintptr_t set_current, int device, uint64_t comm, int color, int key, const ncclapi_settings *s, uint64_t *cell) {
	ENTER();
	if (!nccl.ncclCommSplit)
		return NCCLAPI_NO_SYMBOL;
	struct cell *c = new_cell(s, cell);
	return c ? (int)nccl.ncclCommSplit(COMM(comm), color, key, &c->made, &c->config) : NCCLAPI_SYSTEM_ERROR;
}

int ncclapi_shrink(uintptr_t set_current, int device, uint64_t comm, const int32_t *without, int n, int abort, const ncclapi_settings *s, uint64_t *cell) {
	ENTER();
	if (!nccl.ncclCommShrink)
		return NCCLAPI_NO_SYMBOL;
	struct cell *c = new_cell(s, cell);
	return c ? (int)nccl.ncclCommShrink(COMM(comm), (int *)without, n, &c->made, &c->config, abort ? NCCLAPI_SHRINK_ABORT : 0) : NCCLAPI_SYSTEM_ERROR;
}

int ncclapi_place(uint64_t comm, int *rank, int *ranks) {
	READY();
	int rc = nccl.ncclCommUserRank(COMM(comm), rank);
	return rc ? rc : (int)nccl.ncclCommCount(COMM(comm), ranks);
}

int ncclapi_async_error(uint64_t comm, int *state) {
	READY();
	ncclapi_result r = NCCLAPI_SUCCESS;
	int rc = nccl.ncclCommGetAsyncError(COMM(comm), &r);
	*state = r;
	return rc;
}

int ncclapi_finalize(uintptr_t set_current, int device, uint64_t comm) {
	ENTER();
	return nccl.ncclCommFinalize(COMM(comm));
}

int ncclapi_destroy(uintptr_t set_current, int device, uint64_t comm) {
	ENTER();
	return nccl.ncclCommDestroy(COMM(comm));
}

int ncclapi_abort(uintptr_t set_current, int device, uint64_t comm) {
	ENTER();
	return nccl.ncclCommAbort(COMM(comm));
}

int ncclapi_register(uintptr_t set_current, int device, uint64_t comm, uint64_t addr, size_t n, uint64_t *handle) {
	ENTER();
	if (!nccl.ncclCommRegister || !nccl.ncclCommDeregister)
		return NCCLAPI_NO_SYMBOL;
	void *h = NULL;
	int rc = nccl.ncclCommRegister(COMM(comm), (void *)(uintptr_t)addr, n, &h);
	*handle = (uintptr_t)h;
	return rc;
}

int ncclapi_deregister(uintptr_t set_current, int device, uint64_t comm, uint64_t handle) {
	ENTER();
	return nccl.ncclCommDeregister(COMM(comm), (void *)(uintptr_t)handle);
}

int ncclapi_premul_sum(uint64_t comm, const void *scalar, int type, int *op) {
	READY();
	ncclapi_redop made = 0;
	int rc = nccl.ncclRedOpCreatePreMulSum(&made, (void *)scalar, type, NCCLAPI_SCALAR_HOST, COMM(comm));
	*op = made;
	return rc;
}

int ncclapi_redop_destroy(uint64_t comm, int op) {
	READY();
	return nccl.ncclRedOpDestroy(op, COMM(comm));
}

int ncclapi_has(int kind) {
	if (!atomic_load_explicit(&loaded, memory_order_acquire))
		return 0;
	switch (kind) {
	case NCCLAPI_ALL_TO_ALL:
		return nccl.ncclAlltoAll != NULL;
	case NCCLAPI_GATHER:
		return nccl.ncclGather != NULL;
	case NCCLAPI_SCATTER:
		return nccl.ncclScatter != NULL;
	}
	return kind >= NCCLAPI_ALL_REDUCE && kind <= NCCLAPI_RECV;
}

// The window is written later, by an NCCL thread, so it has its own memory.
int ncclapi_window_register(uintptr_t set_current, int device, uint64_t comm, uint64_t addr, size_t n, uint64_t *cell) {
	ENTER();
	if (!nccl.ncclCommWindowRegister || !nccl.ncclCommWindowDeregister)
		return NCCLAPI_NO_SYMBOL;
	ncclapi_window *w = calloc(1, sizeof *w);
	*cell = (uintptr_t)w;
	return w ? (int)nccl.ncclCommWindowRegister(COMM(comm), (void *)(uintptr_t)addr, n, w, NCCLAPI_WINDOW_SYMMETRIC) : NCCLAPI_SYSTEM_ERROR;
}

uint64_t ncclapi_window_peek(uint64_t cell) {
	ncclapi_window *w = (ncclapi_window *)(uintptr_t)cell;
	return w ? (uintptr_t)__atomic_load_n(w, __ATOMIC_ACQUIRE) : 0;
}

int ncclapi_window_deregister(uintptr_t set_current, int device, uint64_t comm, uint64_t cell) {
	ENTER();
	uint64_t w = ncclapi_window_peek(cell);
	return w ? (int)nccl.ncclCommWindowDeregister(COMM(comm), (ncclapi_window)(uintptr_t)w) : NCCLAPI_SUCCESS;
}

static int one(ncclapi_comm comm, ncclapi_stream stream, const ncclapi_op *o) {
	const void *send = (const void *)(uintptr_t)o->send;
	void *recv = (void *)(uintptr_t)o->recv;
	switch (o->kind) {
	case NCCLAPI_ALL_REDUCE:
		return nccl.ncclAllReduce(send, recv, o->count, o->type, o->redop, comm, stream);
	case NCCLAPI_REDUCE:
		return nccl.ncclReduce(send, recv, o->count, o->type, o->redop, o->peer, comm, stream);
	case NCCLAPI_BROADCAST:
		return nccl.ncclBroadcast(send, recv, o->count, o->type, o->peer, comm, stream);
	case NCCLAPI_ALL_GATHER:
		return nccl.ncclAllGather(send, recv, o->count, o->type, comm, stream);
	case NCCLAPI_REDUCE_SCATTER:
		return nccl.ncclReduceScatter(send, recv, o->count, o->type, o->redop, comm, stream);
	case NCCLAPI_ALL_TO_ALL:
		return nccl.ncclAlltoAll ? (int)nccl.ncclAlltoAll(send, recv, o->count, o->type, comm, stream) : NCCLAPI_NO_SYMBOL;
	case NCCLAPI_GATHER:
		return nccl.ncclGather ? (int)nccl.ncclGather(send, recv, o->count, o->type, o->peer, comm, stream) : NCCLAPI_NO_SYMBOL;
	case NCCLAPI_SCATTER:
		return nccl.ncclScatter ? (int)nccl.ncclScatter(send, recv, o->count, o->type, o->peer, comm, stream) : NCCLAPI_NO_SYMBOL;
	case NCCLAPI_SEND:
		return nccl.ncclSend(send, o->count, o->type, o->peer, comm, stream);
	case NCCLAPI_RECV:
		return nccl.ncclRecv(recv, o->count, o->type, o->peer, comm, stream);
	}
	return NCCLAPI_INVALID_ARGUMENT;
}

int ncclapi_run(uintptr_t set_current, int device, uint64_t comm, uint64_t stream, const ncclapi_op *ops, int n) {
	ENTER();
	ncclapi_stream on = (ncclapi_stream)(uintptr_t)stream;
	if (n == 1)
		return one(COMM(comm), on, ops);
	int rc = nccl.ncclGroupStart(), bad = 0;
	if (rc)
		return rc;
	for (int i = 0; i < n && !bad; i++) {
		rc = one(COMM(comm), on, &ops[i]);
		bad = rc != NCCLAPI_SUCCESS && rc != NCCLAPI_IN_PROGRESS;
	}
	// The group is always ended: it is state of the thread.
	int end = nccl.ncclGroupEnd();
	return bad ? rc : end;
}
