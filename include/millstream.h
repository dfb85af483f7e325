/* libmillstream: collectives among processes, such as the Python workers of a Dask cluster, without MPI.
 *
 * A communicator is formed in three steps. Texts are passed between the processes by whatever connects them already:
 *
 *     millstream_v1_options o = MILLSTREAM_V1_OPTIONS;
 *     o.id = "...";                                   random, the same on all ranks
 *     millstream_v1_open(&o, &comm, &contact);        every rank opens a listener and publishes its contact
 *     millstream_v1_ticket(contacts, n, &ticket);     every rank (or one) makes the ticket from all contacts
 *     millstream_v1_join(comm, ticket);               every rank connects to all others
 *     ...
 *     millstream_v1_destroy(comm);
 *
 * Ranks are ordered by the host of their name, GPU and name. All ranks call the same collectives in the same order.
 * Counts are in elements; buffers are not copied; send may equal recv where both have the same length, or be its part of this
 * rank. Functions are safe for concurrent use; calls of several threads on one communicator run one after the other. They return
 * MILLSTREAM_OK or another code, and millstream_v1_last_error() has the text.
 *
 * Buffers are in host memory or, on all ranks alike, in device memory, which is recognized by its address. Operations on device
 * memory are ordered by the CUDA stream of millstream_v1_set_stream: they run after the work that is queued on it, and work that
 * is queued on it after the call has returned runs after them. The call may return earlier than the operation ends on the GPU.
 *
 * The library contains the Go runtime: it cannot be unloaded, and does not work in a child of fork() that has not
 * called exec(); functions return MILLSTREAM_FORKED there. Signal handlers of the process stay in place.
 */
#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef MILLSTREAM_API
#define MILLSTREAM_API
#endif

/* Version of this interface, part of all names. A later version adds names and keeps these. Structs only grow at their
 * ends: their first field is their size. */
#define MILLSTREAM_ABI 1

/* Types of elements. */
enum {
	MILLSTREAM_INT8 = 1, MILLSTREAM_INT16, MILLSTREAM_INT32, MILLSTREAM_INT64,
	MILLSTREAM_UINT8, MILLSTREAM_UINT16, MILLSTREAM_UINT32, MILLSTREAM_UINT64,
	MILLSTREAM_FLOAT16, MILLSTREAM_BFLOAT16, MILLSTREAM_FLOAT32, MILLSTREAM_FLOAT64
};

/* Reductions. AVG is the sum divided by the number of ranks, truncated toward zero for integers. */
enum { MILLSTREAM_SUM = 1, MILLSTREAM_PROD, MILLSTREAM_MIN, MILLSTREAM_MAX, MILLSTREAM_AVG };

/* Operations of millstream_v1_call. */
enum {
	MILLSTREAM_BARRIER = 1, MILLSTREAM_ALLREDUCE, MILLSTREAM_REDUCE, MILLSTREAM_BROADCAST, MILLSTREAM_ALLGATHER,
	MILLSTREAM_GATHER, MILLSTREAM_SCATTER, MILLSTREAM_REDUCESCATTER, MILLSTREAM_ALLTOALL, MILLSTREAM_SEND,
	MILLSTREAM_RECV, MILLSTREAM_SENDRECV, MILLSTREAM_ALLGATHERV, MILLSTREAM_GATHERV, MILLSTREAM_SCATTERV, MILLSTREAM_ALLTOALLV
};

/* Where the memory of an operation is. With ANY, device memory is recognized by its address, which needs a pointer that is valid;
 * with DEVICE a pointer that CUDA does not know is an error. A rank without elements passes DEVICE if others have device memory. */
enum { MILLSTREAM_ANY = 0, MILLSTREAM_HOST, MILLSTREAM_DEVICE };

/* Results of all functions. */
enum {
	MILLSTREAM_OK = 0,
	MILLSTREAM_ERROR = 1,     /* see millstream_v1_last_error */
	MILLSTREAM_MISMATCH = 2,  /* the calls of the ranks differ, or one is invalid: all ranks get it, and can continue */
	MILLSTREAM_RANK = 3,      /* a rank was lost or has aborted: the communicator has ended; see failed_rank */
	MILLSTREAM_TIMEOUT = 4,   /* the time limit of this call has ended */
	MILLSTREAM_INVALID = 5,   /* invalid argument */
	MILLSTREAM_CLOSED = 6,    /* no such communicator or request, or it was destroyed */
	MILLSTREAM_TRUNCATED = 7, /* a message was longer than the buffer of its receiver */
	MILLSTREAM_FORKED = 8     /* called in a child of fork() */
};

/* A communicator and a request in flight. 0 is none. */
typedef uint64_t millstream_v1_comm;
typedef uint64_t millstream_v1_request;

/* Options of millstream_v1_open. Texts may be NULL. All but name, listen, device and the files must be equal
 * on all ranks. */
typedef struct millstream_v1_options {
	uint32_t size;         /* sizeof(millstream_v1_options) */
	int32_t deterministic; /* not 0: reductions proceed from rank 0 upward, so that results are bitwise reproducible */
	const char *id;        /* identifies the clique, 1 to 64 bytes; a random one keeps strangers out */
	const char *name;      /* name of this rank in the order of ranks and in errors (default: its address) */
	const char *listen;    /* where other ranks connect to this one (default tcp://127.0.0.1:0) */
	const char *backend;   /* "ucx", "comm", "nccl", or "" for UCX where every rank has it, and NCCL where each has it and a GPU */
	double timeout;        /* of open and join, in seconds (default 30) */
	const char *ca_file;   /* certificates of a worker, for a listener with tls:// */
	const char *cert_file;
	const char *key_file;
	const char *device;    /* number of the GPU of this rank in this process, such as "0", which NCCL needs (default: none; device
	                          memory then uses the GPU of the first buffer) */
} millstream_v1_options;

#define MILLSTREAM_V1_OPTIONS { sizeof(millstream_v1_options), 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL }

/* An operation with its arguments, for millstream_v1_run and millstream_v1_start. Fields that are not used are 0. */
typedef struct millstream_v1_call {
	uint32_t size;      /* sizeof(millstream_v1_call) */
	int32_t operation;  /* MILLSTREAM_ALLREDUCE ... */
	int32_t dtype;      /* MILLSTREAM_FLOAT64 ... */
	int32_t op;         /* MILLSTREAM_SUM ... */
	int32_t peer;       /* root, destination or source */
	int32_t from;       /* source of SENDRECV */
	uint64_t count;
	uint64_t recvcount; /* of SENDRECV */
	uint64_t tag;
	uint64_t recvtag;   /* of SENDRECV */
	const void *send;
	void *recv;
	int32_t memory;     /* MILLSTREAM_DEVICE ... */
	int32_t reserved;
	void *stream;       /* CUstream that orders device memory; NULL is that of set_stream */
	const uint64_t *counts;     /* of the V forms: one for each rank */
	const uint64_t *recvcounts; /* of ALLTOALLV */
} millstream_v1_call;

/* Returns MILLSTREAM_ABI of the library, and its release. */
MILLSTREAM_API uint32_t millstream_v1_abi(void);
MILLSTREAM_API const char *millstream_v1_release(void);
/* Returns the text of the last error in this thread, "" if there was none. It is valid until the next call. */
MILLSTREAM_API const char *millstream_v1_last_error(void);
/* Frees a text that a function has returned. */
MILLSTREAM_API void millstream_v1_free(char *text);

/* Opens the listener of this rank. contact is its text for millstream_v1_ticket. */
MILLSTREAM_API int millstream_v1_open(const millstream_v1_options *, millstream_v1_comm *, char **contact);
/* Makes the ticket of a clique from the contacts of all its ranks, in any order. */
MILLSTREAM_API int millstream_v1_ticket(const char *const *contacts, size_t n, char **ticket);
/* Connects this rank to all others. It waits for them. */
MILLSTREAM_API int millstream_v1_join(millstream_v1_comm, const char *ticket);
/* Leaves the communicator and frees it. Operations in flight fail. */
MILLSTREAM_API int millstream_v1_destroy(millstream_v1_comm);
/* Ends the communicator on all ranks: their operations fail with an error that names this rank and the reason. */
MILLSTREAM_API int millstream_v1_abort(millstream_v1_comm, const char *why);

/* Returns the number of this rank and the number of ranks. */
MILLSTREAM_API int millstream_v1_rank(millstream_v1_comm, int *rank, int *ranks);
/* Returns the name of a rank. */
MILLSTREAM_API int millstream_v1_name(millstream_v1_comm, int rank, char **name);
/* Returns how data moves: "tcp", "tls", "ucx", with "shm+" in front if all ranks share a machine. */
MILLSTREAM_API int millstream_v1_backend(millstream_v1_comm, char **backend);
/* Returns the rank whose failure has ended the communicator, -1 while it is usable. */
MILLSTREAM_API int millstream_v1_failed_rank(millstream_v1_comm, int *rank);
/* Bounds later blocking calls; 0 is no limit. A collective that takes longer ends the communicator. */
MILLSTREAM_API int millstream_v1_set_timeout(millstream_v1_comm, double seconds);
/* Sets the CUDA stream of later operations on device memory (default: NULL, the legacy default stream). The caller keeps it
 * alive until the last of them has ended. The per-thread default stream is that of the thread that makes the call. */
MILLSTREAM_API int millstream_v1_set_stream(millstream_v1_comm, void *stream);
/* Returns how device memory moves: "nccl"; "ucx" or "comm", where kernels access the memory of ranks by CUDA IPC if all ranks can,
 * and data passes through pinned memory otherwise. */
MILLSTREAM_API int millstream_v1_device_backend(millstream_v1_comm, char **backend);
/* Returns the ncclComm_t of the ranks, and the CUstream on which this library enqueues its collectives with it, for native code
 * such as RAFT and cuML. Both stay valid until destroy. The communicator is non-blocking: a call that returns ncclInProgress has
 * completed when ncclCommGetAsyncError returns another result. All ranks interleave their own calls and those of this library in
 * the same order. MILLSTREAM_INVALID if device memory does not move by NCCL. A collective. */
MILLSTREAM_API int millstream_v1_nccl_comm(millstream_v1_comm, void **nccl, void **stream);
/* Waits until the work on a stream has ended, or returns the error of the communicator if that fails first. */
MILLSTREAM_API int millstream_v1_sync_stream(millstream_v1_comm, void *stream);
/* Forms a communicator of the ranks with the same color, ordered by key and then by rank; 0 for a negative color. A collective. */
MILLSTREAM_API int millstream_v1_split(millstream_v1_comm, int color, int key, millstream_v1_comm *);
/* Forms a communicator of the same ranks with an order of calls of its own. A collective. */
MILLSTREAM_API int millstream_v1_dup(millstream_v1_comm, millstream_v1_comm *);

/* Forms a communicator of the ranks that are alive, usually after MILLSTREAM_RANK. All of them call it; ranks keep their order, and
 * those that have not called it after half of the time are left out. The old communicator remains to be destroyed. */
MILLSTREAM_API int millstream_v1_reform(millstream_v1_comm, double seconds, millstream_v1_comm *);

/* Collectives. recv of reduce and gather, and send of scatter, are used on root only. */
MILLSTREAM_API int millstream_v1_barrier(millstream_v1_comm);
MILLSTREAM_API int millstream_v1_allreduce(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype, int op);
MILLSTREAM_API int millstream_v1_reduce(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype, int op, int root);
MILLSTREAM_API int millstream_v1_broadcast(millstream_v1_comm, void *buf, uint64_t count, int dtype, int root);
/* recv has count elements of each rank. */
MILLSTREAM_API int millstream_v1_allgather(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype);
MILLSTREAM_API int millstream_v1_gather(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype, int root);
/* send has count elements for each rank. */
MILLSTREAM_API int millstream_v1_scatter(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype, int root);
MILLSTREAM_API int millstream_v1_reducescatter(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype, int op);
/* send and recv have count elements for and of each rank. */
MILLSTREAM_API int millstream_v1_alltoall(millstream_v1_comm, const void *send, void *recv, uint64_t count, int dtype);

/* V forms: parts of different lengths, one after the other. counts and the like have one entry for each rank; those of gatherv and
 * scatterv are used on root only. */
MILLSTREAM_API int millstream_v1_allgatherv(millstream_v1_comm, const void *send, void *recv, const uint64_t *counts, int dtype);
MILLSTREAM_API int millstream_v1_gatherv(millstream_v1_comm, const void *send, uint64_t count, void *recv, const uint64_t *counts,
	int dtype, int root);
MILLSTREAM_API int millstream_v1_scatterv(millstream_v1_comm, const void *send, const uint64_t *counts, void *recv, uint64_t count,
	int dtype, int root);
MILLSTREAM_API int millstream_v1_alltoallv(millstream_v1_comm, const void *send, const uint64_t *sendcounts, void *recv,
	const uint64_t *recvcounts, int dtype);

/* Messages. All 64 bits of tags are compared; messages with the same tag arrive in order. A message may be shorter than recv:
 * received, if not NULL, is its number of elements. */
MILLSTREAM_API int millstream_v1_send(millstream_v1_comm, const void *buf, uint64_t count, int dtype, int to, uint64_t tag);
MILLSTREAM_API int millstream_v1_recv(millstream_v1_comm, void *buf, uint64_t count, int dtype, int from, uint64_t tag, uint64_t *received);
MILLSTREAM_API int millstream_v1_sendrecv(millstream_v1_comm, const void *send, uint64_t count, int to, uint64_t tag, void *recv,
	uint64_t recvcount, int from, uint64_t recvtag, int dtype, uint64_t *received);

/* Sends parts of one buffer to several ranks, and receives parts of another from several ranks, all at once. Offsets are in elements.
 * Every message must have the length that its receiver expects. */
MILLSTREAM_API int millstream_v1_multicast_sendrecv(millstream_v1_comm, const void *send, const uint64_t *sendcounts,
	const uint64_t *sendoffsets, const int *dests, size_t nsends, void *recv, const uint64_t *recvcounts,
	const uint64_t *recvoffsets, const int *sources, size_t nrecvs, int dtype, uint64_t tag);

/* Groups: between group_start and group_end the operations of this communicator are started and return immediately, group_end waits
 * for all of them, and their buffers must not be used before. Groups may be nested. received is 0. */
MILLSTREAM_API int millstream_v1_group_start(millstream_v1_comm);
MILLSTREAM_API int millstream_v1_group_end(millstream_v1_comm);

/* Runs an operation: the general form of the functions above. received, which may be NULL, is as in recv. */
MILLSTREAM_API int millstream_v1_run(millstream_v1_comm, const millstream_v1_call *, uint64_t *received);
/* Starts an operation. millstream_v1_wait must be called for it; its buffers must not be used until that returns a code other
 * than MILLSTREAM_TIMEOUT. With device memory, the operation runs after the work that is on the stream now, and
 * work that is queued on the stream after millstream_v1_wait has returned runs after the operation. */
MILLSTREAM_API int millstream_v1_start(millstream_v1_comm, const millstream_v1_call *, millstream_v1_request *);
MILLSTREAM_API int millstream_v1_isend(millstream_v1_comm, const void *buf, uint64_t count, int dtype, int to, uint64_t tag,
	millstream_v1_request *);
MILLSTREAM_API int millstream_v1_irecv(millstream_v1_comm, void *buf, uint64_t count, int dtype, int from, uint64_t tag,
	millstream_v1_request *);
/* Waits for a request; seconds < 0 is no limit. After MILLSTREAM_TIMEOUT it can be called again. */
MILLSTREAM_API int millstream_v1_wait(millstream_v1_request, double seconds, uint64_t *received);
/* Waits for n requests and sets those that have ended to 0; entries that are 0 are ignored. It returns the first error. */
MILLSTREAM_API int millstream_v1_waitall(millstream_v1_request *, size_t n, double seconds);

/* A column: count contiguous elements of one type. */
typedef struct millstream_v1_column {
	const void *data;
	uint64_t count;
	int32_t dtype;
	int32_t memory; /* MILLSTREAM_HOST ... */
} millstream_v1_column;

/* A call of an algorithm of a shared library, which was compiled against millstream_native.h. */
typedef struct millstream_v1_algorithm {
	uint32_t size;                       /* sizeof(millstream_v1_algorithm) */
	uint32_t npartitions;                /* of this rank; may be 0 */
	const char *library;                 /* path of the shared library */
	const char *name;                    /* name of the algorithm in it */
	const uint32_t *ncolumns;            /* number of columns of each partition, which have the same length in a partition */
	const millstream_v1_column *columns; /* of all partitions, one after the other */
	const void *parameters;              /* passed to the algorithm */
	uint64_t parameter_bytes;
	void *stream;                        /* CUstream that orders device memory; NULL is that of set_stream */
} millstream_v1_algorithm;

/* Columns that an algorithm has emitted on this rank. */
typedef struct millstream_v1_results {
	uint64_t handle;
	uint64_t ncolumns;
	millstream_v1_column *columns;
} millstream_v1_results;

/* Runs an algorithm of a shared library on the ranks. All ranks call it; columns must not be used meanwhile. If it fails on one rank,
 * the communicator ends with an error that names the rank and the reason. */
MILLSTREAM_API int millstream_v1_native(millstream_v1_comm, const millstream_v1_algorithm *, millstream_v1_results *);
/* Frees the memory of results. */
MILLSTREAM_API int millstream_v1_free_results(millstream_v1_results *);

/* Takes part in a collective with arguments that the caller has found invalid: all ranks get MILLSTREAM_MISMATCH with the
 * reason, where they would otherwise wait. For bindings that check what this interface does not know. */
MILLSTREAM_API int millstream_v1_reject(millstream_v1_comm, int operation, const char *why);

/* Algorithms on arrays of the ranks, which they do not copy. No other call may use the communicator meanwhile. */

/* An array of a rank: rows of numbers, column by column; the elements of a row are stride elements apart. Arrays of a rank are all
 * in host memory or on one GPU, whose work on them must have ended. */
typedef struct millstream_v1_part {
	const void *data;
	uint64_t rows;
	uint64_t stride;
	uint64_t index;  /* number among the parts of all ranks, from 0 */
	int32_t *labels; /* of k-means: one for each row, in memory like data; NULL for others */
} millstream_v1_part;

/* Arguments and results of algorithms. All but threads must be equal on all ranks. */
typedef struct millstream_v1_learn {
	uint32_t size;      /* sizeof(millstream_v1_learn) */
	int32_t dtype;      /* MILLSTREAM_FLOAT32 or MILLSTREAM_FLOAT64 */
	int32_t columns;
	int32_t threads;    /* for arrays in host memory (default 1) */
	uint64_t parts;     /* number of parts of all ranks */
	int32_t clusters;   /* of k-means, as the fields below */
	int32_t max_iter;
	double tol;         /* ends the iterations, relative to the mean variance of the columns */
	uint32_t seed;      /* of k-means++ */
	int32_t plusplus;   /* not 0: initial centers by k-means++; 0: those of centers */
	double *centers;    /* clusters times columns numbers, row by row: the initial and then the final centers */
	double inertia;     /* results of k-means: sum of the squared distances, iterations, whether the last one changed no label */
	int32_t iterations;
	int32_t converged;
	uint64_t rows;      /* result: the number of rows of all ranks */
} millstream_v1_learn;

/* Divides the rows of all ranks into groups with the results of scikit-learn's KMeans, and sets the labels. A collective. */
MILLSTREAM_API int millstream_v1_kmeans_fit(millstream_v1_comm, millstream_v1_learn *, const millstream_v1_part *parts, size_t n);
/* Sets the labels of the rows of this rank to the nearest centers. */
MILLSTREAM_API int millstream_v1_kmeans_predict(const millstream_v1_learn *, const millstream_v1_part *parts, size_t n);
/* Computes the means of the columns of all ranks, and the factor R of the QR decomposition of the rows minus the means: columns
 * times columns numbers, column by column, zero below the diagonal. Principal components and linear models follow from these. A
 * collective. */
MILLSTREAM_API int millstream_v1_tall_reduce(millstream_v1_comm, millstream_v1_learn *, const millstream_v1_part *parts, size_t n,
	double *mean, double *triangle);

#ifdef __cplusplus
}
#endif
#endif
