// NCCL functions behind a table that is filled at run time. No call blocks on another rank:
// communicators are non-blocking, and callers poll ncclapi_async_error.
#ifndef NCCLAPI_H
#define NCCLAPI_H

#include <stddef.h>
#include <stdint.h>

// Not an NCCL result: the library lacks the function.
enum { NCCLAPI_NO_SYMBOL = -1, NCCLAPI_NOT_LOADED = -2 };

// ncclapi_load opens a library, once. It returns 0, or -1 and a message.
int ncclapi_load(const char *path, int only_if_loaded, char *message, size_t n);
const char *ncclapi_path(void);
int ncclapi_version(void);
const char *ncclapi_error_text(int result);
const char *ncclapi_last_error(uint64_t comm);

int ncclapi_unique_id(void *id128);

// set_current is the hook of package cuda: it makes the device's context current on this thread, in
// the same C call that needs it.
typedef int (*ncclapi_set_current)(int device);

typedef struct ncclapi_settings {
	int cga_cluster_size, min_ctas, max_ctas, split_share; // 0: default of NCCL
	const char *net_name;                                  // NULL: default of NCCL
} ncclapi_settings;

int ncclapi_init(uintptr_t set_current, int device, int ranks, const void *id128, int rank, const ncclapi_settings *s, uint64_t *comm);
// Split and shrink write the new communicator later, from an NCCL thread (seen with 2.28: the
// async error of the old one reports success before). So it is written to C memory, a cell, which
// ncclapi_peek reads.
int ncclapi_split(uintptr_t set_current, int device, uint64_t comm, int color, int key, const ncclapi_settings *s, uint64_t *cell);
int ncclapi_shrink(uintptr_t set_current, int device, uint64_t comm, const int32_t *without, int n, int abort, const ncclapi_settings *s, uint64_t *cell);
uint64_t ncclapi_peek(uint64_t cell);
void ncclapi_free(uint64_t cell);
int ncclapi_place(uint64_t comm, int *rank, int *ranks);
int ncclapi_async_error(uint64_t comm, int *state);
int ncclapi_finalize(uintptr_t set_current, int device, uint64_t comm);
int ncclapi_destroy(uintptr_t set_current, int device, uint64_t comm);
int ncclapi_abort(uintptr_t set_current, int device, uint64_t comm);
int ncclapi_register(uintptr_t set_current, int device, uint64_t comm, uint64_t addr, size_t n, uint64_t *handle);
int ncclapi_deregister(uintptr_t set_current, int device, uint64_t comm, uint64_t handle);
// A window is memory of all ranks: all of them call these.
int ncclapi_window_register(uintptr_t set_current, int device, uint64_t comm, uint64_t addr, size_t n, uint64_t *cell);
uint64_t ncclapi_window_peek(uint64_t cell);
int ncclapi_window_deregister(uintptr_t set_current, int device, uint64_t comm, uint64_t cell);
int ncclapi_premul_sum(uint64_t comm, const void *scalar, int type, int *op);
int ncclapi_redop_destroy(uint64_t comm, int op);

enum {
	NCCLAPI_ALL_REDUCE,
	NCCLAPI_REDUCE,
	NCCLAPI_BROADCAST,
	NCCLAPI_ALL_GATHER,
	NCCLAPI_REDUCE_SCATTER,
	NCCLAPI_SEND,
	NCCLAPI_RECV,
	NCCLAPI_ALL_TO_ALL, // this and the following: NCCL 2.28, see ncclapi_has
	NCCLAPI_GATHER,
	NCCLAPI_SCATTER,
};

// ncclapi_has reports whether the library supports a kind of operation.
int ncclapi_has(int kind);

// One operation of a group.
typedef struct ncclapi_op {
	int32_t kind, type, redop, peer; // peer of send and recv; root of reduce and broadcast
	uint64_t send, recv, count;
} ncclapi_op;

// ncclapi_run enqueues operations on a stream, several as a group.
int ncclapi_run(uintptr_t set_current, int device, uint64_t comm, uint64_t stream, const ncclapi_op *ops, int n);

#endif
