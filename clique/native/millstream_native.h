/* The C interface of native algorithms: a shared library whose functions run on the ranks of a clique.
 *
 * An algorithm is an exported function of type ms_algorithm. It gets the partitions of this rank, communicates
 * with the other ranks through call->ops, and passes columns of results to call->emit. It runs in its own thread,
 * and everything in its ms_call is valid until it returns. All ranks must call the same operations in the same
 * order.
 *
 * A library also exports
 *
 *     const unsigned int millstream_native_abi = MS_NATIVE_ABI;
 *
 * (in C++ within extern "C", and declared extern), which identifies it.
 */
#ifndef MILLSTREAM_NATIVE_H
#define MILLSTREAM_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. Structs only grow at their ends; their size determines the valid fields. */
#define MS_NATIVE_ABI 1

/* Types of elements. */
enum {
	MS_INT8 = 1, MS_INT16, MS_INT32, MS_INT64,
	MS_UINT8, MS_UINT16, MS_UINT32, MS_UINT64,
	MS_FLOAT16, MS_BFLOAT16, MS_FLOAT32, MS_FLOAT64
};

/* Reductions of elements. */
enum { MS_SUM = 1, MS_PROD, MS_MIN, MS_MAX, MS_AVG };

/* Kinds of memory. */
enum { MS_HOST = 0, MS_PINNED = 1, MS_DEVICE = 2, MS_MANAGED = 3 };

/* Results of operations. ops->error returns a text. */
enum {
	MS_OK = 0,
	MS_ERROR = 1,     /* see ops->error */
	MS_MISMATCH = 2,  /* the calls of the ranks differ; the clique remains usable */
	MS_RANK = 3,      /* a rank was lost or aborted: return, the clique has ended */
	MS_CANCELED = 4, /* the caller was canceled: return */
	MS_INVALID = 5    /* invalid argument */
};

/* A column: count contiguous elements of one type. */
typedef struct ms_column {
	const void *data;
	uint64_t count;
	int32_t kind;
	int32_t memory; /* MS_HOST ... */
	int32_t device; /* ordinal for MS_DEVICE, else -1 */
	int32_t reserved;
} ms_column;

/* A partition: columns of the same length. */
typedef struct ms_partition {
	uint64_t rows;
	uint64_t ncolumns;
	const ms_column *columns;
} ms_partition;

/* The communicator of this rank, in this call. */
typedef struct ms_comm ms_comm;

/* Operations of a communicator. They block; counts are in elements. Only the thread of the algorithm may call them.
 * Buffers are in host memory or, on all ranks alike, in device memory: operations then start after the work on
 * call->stream, and have completed when they return. */
typedef struct ms_ops {
	uint32_t size; /* sizeof(ms_ops) of the caller */
	uint32_t reserved;
	int (*barrier)(ms_comm *);
	int (*all_reduce)(ms_comm *, const void *send, void *recv, uint64_t count, int kind, int op);
	int (*reduce)(ms_comm *, const void *send, void *recv, uint64_t count, int kind, int op, int root);
	int (*broadcast)(ms_comm *, void *buf, uint64_t count, int kind, int root);
	int (*all_gather)(ms_comm *, const void *send, void *recv, uint64_t count, int kind);
	int (*gather)(ms_comm *, const void *send, void *recv, uint64_t count, int kind, int root);
	int (*scatter)(ms_comm *, const void *send, void *recv, uint64_t count, int kind, int root);
	int (*reduce_scatter)(ms_comm *, const void *send, void *recv, uint64_t count, int kind, int op);
	int (*all_to_all)(ms_comm *, const void *send, void *recv, uint64_t count, int kind);
	int (*send)(ms_comm *, const void *buf, uint64_t bytes, int to, uint64_t tag);
	int (*recv)(ms_comm *, void *buf, uint64_t bytes, int from, uint64_t tag, uint64_t *received);
	const char *(*error)(ms_comm *); /* text of the last error, "" if there is none */
} ms_ops;

/* One call of an algorithm, on one rank. */
typedef struct ms_call {
	uint32_t abi;  /* MS_NATIVE_ABI */
	uint32_t size; /* sizeof(ms_call) */
	int32_t rank, ranks;
	ms_comm *comm;
	const ms_ops *ops;
	void *stream; /* CUstream that orders device memory; NULL without a device. The caller synchronizes it at the end */
	uint64_t npartitions;
	const ms_partition *partitions;
	const void *parameters; /* passed by the caller */
	uint64_t parameter_bytes;
	/* Emits one column of results, which is copied; device memory in stream order. */
	int (*emit)(ms_comm *, const ms_column *);
	/* Sets the reason of a failure and returns MS_ERROR, for `return call->fail(call->comm, "...")`. */
	int (*fail)(ms_comm *, const char *why);
	/* CUDA device of this rank, -1 if there is none. Its primary context is current. */
	int32_t device;
	int32_t reserved;
	/* The ncclComm_t of the ranks if device memory uses NCCL, else NULL. It is non-blocking: a call that returns
	 * ncclInProgress has completed when ncclCommGetAsyncError returns another result. Do not use ops on device memory, and
	 * do not return, before the work that was enqueued with it has completed. */
	void *nccl;
} ms_call;

/* An algorithm returns 0 on success, any other value on failure. */
typedef int (*ms_algorithm)(const ms_call *);

#ifdef __cplusplus
}
#endif
#endif
