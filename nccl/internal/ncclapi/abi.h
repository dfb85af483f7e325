// The part of NCCL's binary interface that this package uses: types, constants and the functions it
// looks up. No NCCL header is needed to build. Every value below is that of <nccl.h>; TestABI
// and TestGPUABI compare all of them, and the prototypes, with the real header if it is installed.
#ifndef NCCLAPI_ABI_H
#define NCCLAPI_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef NCCLAPI_WITH_NCCL_H // the tests use the same table with the real types
typedef ncclResult_t ncclapi_result;
typedef ncclComm_t ncclapi_comm;
typedef ncclUniqueId ncclapi_id;
typedef ncclDataType_t ncclapi_type;
typedef ncclRedOp_t ncclapi_redop;
typedef ncclScalarResidence_t ncclapi_residence;
typedef ncclConfig_t ncclapi_config_arg;
typedef cudaStream_t ncclapi_stream;
typedef ncclWindow_t ncclapi_window;
#else
typedef int ncclapi_result;                       // ncclResult_t, an enum
typedef struct ncclapi_comm_st *ncclapi_comm;     // ncclComm_t
typedef struct { char internal[128]; } ncclapi_id; // ncclUniqueId, NCCL_UNIQUE_ID_BYTES
typedef int ncclapi_type;                         // ncclDataType_t, an enum
typedef int ncclapi_redop;                        // ncclRedOp_t, an enum
typedef int ncclapi_residence;                    // ncclScalarResidence_t, an enum
typedef struct ncclapi_config ncclapi_config_arg; // ncclConfig_t
typedef struct ncclapi_stream_st *ncclapi_stream; // cudaStream_t, which is CUstream
typedef struct ncclapi_window_st *ncclapi_window; // ncclWindow_t
#endif

// The first members of ncclConfig_t, as of 2.18. NCCL copies size bytes and uses defaults for
// the rest, so that this works with every later release.
struct ncclapi_config {
	size_t size;
	unsigned magic;
	unsigned version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
};

enum {
	NCCLAPI_CONFIG_MAGIC = 0xcafebeef - 0x100000000, // NCCL_API_MAGIC, as an int
	NCCLAPI_CONFIG_VERSION = 21800,                  // release that defines the struct
	NCCLAPI_UNDEFINED = -2147483647 - 1,             // NCCL_CONFIG_UNDEF_INT
};

enum {
	// ncclResult_t
	NCCLAPI_SUCCESS = 0,              // ncclSuccess
	NCCLAPI_UNHANDLED_CUDA_ERROR = 1, // ncclUnhandledCudaError
	NCCLAPI_SYSTEM_ERROR = 2,         // ncclSystemError
	NCCLAPI_INTERNAL_ERROR = 3,       // ncclInternalError
	NCCLAPI_INVALID_ARGUMENT = 4,     // ncclInvalidArgument
	NCCLAPI_INVALID_USAGE = 5,        // ncclInvalidUsage
	NCCLAPI_REMOTE_ERROR = 6,         // ncclRemoteError
	NCCLAPI_IN_PROGRESS = 7,          // ncclInProgress

	// ncclScalarResidence_t
	NCCLAPI_SCALAR_HOST = 1, // ncclScalarHostImmediate

	// flags of ncclCommShrink, since 2.27
	NCCLAPI_SHRINK_ABORT = 1, // NCCL_SHRINK_ABORT

	// flags of ncclCommWindowRegister, since 2.27
	NCCLAPI_WINDOW_SYMMETRIC = 1, // NCCL_WIN_COLL_SYMMETRIC
};

// F(required, symbol, parameters...): all functions that are looked up.
#define NCCLAPI_FUNCTIONS(F) \
	F(1, ncclGetVersion, int *) \
	F(1, ncclGetUniqueId, ncclapi_id *) \
	F(1, ncclCommInitRankConfig, ncclapi_comm *, int, ncclapi_id, int, ncclapi_config_arg *) \
	F(1, ncclCommFinalize, ncclapi_comm) \
	F(1, ncclCommDestroy, ncclapi_comm) \
	F(1, ncclCommAbort, ncclapi_comm) \
	F(1, ncclCommGetAsyncError, ncclapi_comm, ncclapi_result *) \
	F(1, ncclCommUserRank, const ncclapi_comm, int *) \
	F(1, ncclCommCount, const ncclapi_comm, int *) \
	F(0, ncclCommSplit, ncclapi_comm, int, int, ncclapi_comm *, ncclapi_config_arg *) \
	F(0, ncclCommShrink, ncclapi_comm, int *, int, ncclapi_comm *, ncclapi_config_arg *, int) \
	F(0, ncclCommRegister, const ncclapi_comm, void *, size_t, void **) \
	F(0, ncclCommDeregister, const ncclapi_comm, void *) \
	F(0, ncclCommWindowRegister, ncclapi_comm, void *, size_t, ncclapi_window *, int) \
	F(0, ncclCommWindowDeregister, ncclapi_comm, ncclapi_window) \
	F(1, ncclRedOpCreatePreMulSum, ncclapi_redop *, void *, ncclapi_type, ncclapi_residence, ncclapi_comm) \
	F(1, ncclRedOpDestroy, ncclapi_redop, ncclapi_comm) \
	F(1, ncclAllReduce, const void *, void *, size_t, ncclapi_type, ncclapi_redop, ncclapi_comm, ncclapi_stream) \
	F(1, ncclReduce, const void *, void *, size_t, ncclapi_type, ncclapi_redop, int, ncclapi_comm, ncclapi_stream) \
	F(1, ncclBroadcast, const void *, void *, size_t, ncclapi_type, int, ncclapi_comm, ncclapi_stream) \
	F(1, ncclAllGather, const void *, void *, size_t, ncclapi_type, ncclapi_comm, ncclapi_stream) \
	F(1, ncclReduceScatter, const void *, void *, size_t, ncclapi_type, ncclapi_redop, ncclapi_comm, ncclapi_stream) \
	F(1, ncclSend, const void *, size_t, ncclapi_type, int, ncclapi_comm, ncclapi_stream) \
	F(1, ncclRecv, void *, size_t, ncclapi_type, int, ncclapi_comm, ncclapi_stream) \
	F(0, ncclAlltoAll, const void *, void *, size_t, ncclapi_type, ncclapi_comm, ncclapi_stream) \
	F(0, ncclGather, const void *, void *, size_t, ncclapi_type, int, ncclapi_comm, ncclapi_stream) \
	F(0, ncclScatter, const void *, void *, size_t, ncclapi_type, int, ncclapi_comm, ncclapi_stream) \
	F(1, ncclGroupStart, void) \
	F(1, ncclGroupEnd, void)

#endif
