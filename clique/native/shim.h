// C part of package native. It runs an algorithm in a separate thread and passes its calls to Go, which waits for
// them in native_next. C never calls Go.
#ifndef MILLSTREAM_NATIVE_SHIM_H
#define MILLSTREAM_NATIVE_SHIM_H

#include "millstream_native.h"

// Requests of the thread.
enum {
	REQ_RETURNED = 0, // the algorithm has returned code
	REQ_BARRIER, REQ_ALL_REDUCE, REQ_REDUCE, REQ_BROADCAST, REQ_ALL_GATHER, REQ_GATHER, REQ_SCATTER,
	REQ_REDUCE_SCATTER, REQ_ALL_TO_ALL, REQ_SEND, REQ_RECV, REQ_EMIT,
};

// A request. The thread owns it until native_next returns it, then Go until native_reply.
typedef struct {
	int what;
	int code; // for REQ_RETURNED
	const void *send;
	void *recv;
	uint64_t count;
	int kind, op, peer;
	int memory; // for REQ_EMIT
	uint64_t tag;
	uint64_t received; // reply to REQ_RECV
} native_request;

typedef struct native_run native_run;

// Device of a run.
typedef struct {
	int ordinal; // -1: none
	uintptr_t stream, nccl;
	int (*set_current)(int device);
} native_device;

// native_open loads a library and sets *abi to its ABI version, 0 if it has none.
void *native_open(const char *path, unsigned int *abi, char *message, size_t n);
void *native_symbol(void *lib, const char *name);

// native_start starts an algorithm. The caller owns partitions and parameters, which must stay valid until it returns.
native_run *native_start(void *algorithm, int rank, int ranks, native_device device, uint64_t npartitions,
	const ms_partition *partitions, const void *parameters, uint64_t parameter_bytes, char *message, size_t n);
// native_next waits for the next request.
native_request *native_next(native_run *);
// native_reply replies to the request; error may be NULL.
void native_reply(native_run *, int code, const char *error);
// native_reason returns the reason of a failure, or "".
const char *native_reason(native_run *);
// native_free frees a run after REQ_RETURNED.
void native_free(native_run *);

#endif
