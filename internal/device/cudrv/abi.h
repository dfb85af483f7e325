// The part of the CUDA driver's binary interface that this package uses: types, constants and the
// functions it looks up. No CUDA header is needed to build. Every value below is that of
// <cuda.h>; TestABI compares all of them, and the prototypes, with the real header if
// it is installed.
#ifndef CUDRV_ABI_H
#define CUDRV_ABI_H

#include <stddef.h>
#include <stdint.h>

// CUDA_MEMCPY2D_v2. TestABI compares the offsets.
struct cudrv_memcpy2d_st {
	size_t src_x, src_y;
	int src_type; // CUmemorytype
	const void *src_host;
	unsigned long long src_device;
	void *src_array;
	size_t src_pitch, dst_x, dst_y;
	int dst_type; // CUmemorytype
	void *dst_host;
	unsigned long long dst_device;
	void *dst_array;
	size_t dst_pitch, width, height;
};

#ifdef CUDRV_WITH_CUDA_H // TestABI uses the same table with the real types
typedef CUresult cudrv_result;
typedef CUdevice cudrv_device;
typedef CUcontext cudrv_context;
typedef CUstream cudrv_stream;
typedef CUevent cudrv_event;
typedef CUdeviceptr cudrv_ptr;
typedef CUuuid cudrv_uuid;
typedef CUdevice_attribute cudrv_device_attribute;
typedef CUpointer_attribute cudrv_pointer_attribute;
typedef CUipcMemHandle cudrv_ipc_mem;
typedef CUipcEventHandle cudrv_ipc_event;
typedef CUmodule cudrv_module;
typedef CUfunction cudrv_function;
typedef CUjit_option cudrv_jit_option;
typedef CUfunction_attribute cudrv_function_attribute;
typedef CUmemoryPool cudrv_mempool;
typedef CUmemPool_attribute cudrv_mempool_attribute;
typedef CUDA_MEMCPY2D cudrv_memcpy2d;
#else
typedef int cudrv_result;                                 // CUresult, an enum
typedef int cudrv_device;                                 // CUdevice
typedef struct cudrv_context_st *cudrv_context;           // CUcontext
typedef struct cudrv_stream_st *cudrv_stream;             // CUstream
typedef struct cudrv_event_st *cudrv_event;               // CUevent
typedef unsigned long long cudrv_ptr;                     // CUdeviceptr (_v2, 64 bit)
typedef struct { char bytes[16]; } cudrv_uuid;            // CUuuid
typedef int cudrv_device_attribute;                       // CUdevice_attribute, an enum
typedef int cudrv_pointer_attribute;                      // CUpointer_attribute, an enum
typedef struct { char reserved[64]; } cudrv_ipc_mem;      // CUipcMemHandle, CU_IPC_HANDLE_SIZE
typedef struct { char reserved[64]; } cudrv_ipc_event;    // CUipcEventHandle
typedef struct cudrv_module_st *cudrv_module;             // CUmodule
typedef struct cudrv_function_st *cudrv_function;         // CUfunction
typedef int cudrv_jit_option;                             // CUjit_option, an enum
typedef int cudrv_function_attribute;                     // CUfunction_attribute, an enum
typedef struct cudrv_mempool_st *cudrv_mempool;           // CUmemoryPool
typedef int cudrv_mempool_attribute;                      // CUmemPool_attribute, an enum
typedef struct cudrv_memcpy2d_st cudrv_memcpy2d;          // CUDA_MEMCPY2D_v2
#endif

enum {
	// CUresult
	CUDRV_SUCCESS = 0,                 // CUDA_SUCCESS
	CUDRV_ERROR_INVALID_VALUE = 1,     // CUDA_ERROR_INVALID_VALUE
	CUDRV_ERROR_INVALID_DEVICE = 101,  // CUDA_ERROR_INVALID_DEVICE
	CUDRV_ERROR_INVALID_CONTEXT = 201, // CUDA_ERROR_INVALID_CONTEXT
	CUDRV_ERROR_NOT_READY = 600,       // CUDA_ERROR_NOT_READY
	CUDRV_ERROR_UNKNOWN = 999,         // CUDA_ERROR_UNKNOWN

	// CUdevice_attribute
	CUDRV_DEVICE_MULTIPROCESSOR_COUNT = 16,       // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	CUDRV_DEVICE_INTEGRATED = 18,                 // CU_DEVICE_ATTRIBUTE_INTEGRATED
	CUDRV_DEVICE_UNIFIED_ADDRESSING = 41,         // CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
	CUDRV_DEVICE_CC_MAJOR = 75,                   // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
	CUDRV_DEVICE_CC_MINOR = 76,                   // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
	CUDRV_DEVICE_MANAGED_MEMORY = 83,             // CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
	CUDRV_DEVICE_PAGEABLE_MEMORY_ACCESS = 88,     // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
	CUDRV_DEVICE_CONCURRENT_MANAGED_ACCESS = 89,  // CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
	CUDRV_DEVICE_MEMORY_POOLS_SUPPORTED = 115,    // CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED
	CUDRV_DEVICE_GPU_DIRECT_RDMA_SUPPORTED = 116, // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED
	CUDRV_DEVICE_IPC_EVENT_SUPPORTED = 125,       // CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED
	CUDRV_DEVICE_HOST_NUMA_ID = 134,              // CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID

	// CUpointer_attribute
	CUDRV_POINTER_MEMORY_TYPE = 2,        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
	CUDRV_POINTER_HOST_POINTER = 4,       // CU_POINTER_ATTRIBUTE_HOST_POINTER
	CUDRV_POINTER_BUFFER_ID = 7,          // CU_POINTER_ATTRIBUTE_BUFFER_ID
	CUDRV_POINTER_IS_MANAGED = 8,         // CU_POINTER_ATTRIBUTE_IS_MANAGED
	CUDRV_POINTER_DEVICE_ORDINAL = 9,     // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
	CUDRV_POINTER_IPC_CAPABLE = 10,       // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
	CUDRV_POINTER_RANGE_START_ADDR = 11,  // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
	CUDRV_POINTER_RANGE_SIZE = 12,        // CU_POINTER_ATTRIBUTE_RANGE_SIZE

	// CUmemorytype
	CUDRV_MEMORYTYPE_HOST = 1,   // CU_MEMORYTYPE_HOST
	CUDRV_MEMORYTYPE_DEVICE = 2, // CU_MEMORYTYPE_DEVICE

	// CUjit_option
	CUDRV_JIT_INFO_LOG_BUFFER = 3,             // CU_JIT_INFO_LOG_BUFFER
	CUDRV_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4,  // CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES
	CUDRV_JIT_ERROR_LOG_BUFFER = 5,            // CU_JIT_ERROR_LOG_BUFFER
	CUDRV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES

	// CUfunction_attribute
	CUDRV_FUNC_MAX_THREADS_PER_BLOCK = 0,         // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	CUDRV_FUNC_SHARED_SIZE_BYTES = 1,             // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
	CUDRV_FUNC_NUM_REGS = 4,                      // CU_FUNC_ATTRIBUTE_NUM_REGS
	CUDRV_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8, // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

	// CUmemPool_attribute
	CUDRV_MEMPOOL_RELEASE_THRESHOLD = 4, // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
	CUDRV_MEMPOOL_RESERVED_CURRENT = 5,  // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT

	// Flags
	CUDRV_STREAM_NON_BLOCKING = 1,      // CU_STREAM_NON_BLOCKING
	CUDRV_EVENT_DISABLE_TIMING = 2,     // CU_EVENT_DISABLE_TIMING
	CUDRV_EVENT_INTERPROCESS = 4,       // CU_EVENT_INTERPROCESS
	CUDRV_MEM_ATTACH_GLOBAL = 1,        // CU_MEM_ATTACH_GLOBAL
	CUDRV_MEMHOSTALLOC_PORTABLE = 1,    // CU_MEMHOSTALLOC_PORTABLE
	CUDRV_MEMHOSTREGISTER_PORTABLE = 1, // CU_MEMHOSTREGISTER_PORTABLE
	CUDRV_IPC_LAZY_PEER_ACCESS = 1,     // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
};

// The functions: CUDRV_FUNCTION(required, exported symbol, parameter types...). The suffix _v2
// is part of the symbol; <cuda.h> hides it behind macros. Functions that are not required are
// missing from some drivers still in use (10.2 and later).
#define CUDRV_FUNCTIONS(F) \
	F(1, cuInit, unsigned) \
	F(1, cuDriverGetVersion, int *) \
	F(1, cuGetErrorName, cudrv_result, const char **) \
	F(1, cuGetErrorString, cudrv_result, const char **) \
	F(1, cuDeviceGetCount, int *) \
	F(1, cuDeviceGet, cudrv_device *, int) \
	F(1, cuDeviceGetName, char *, int, cudrv_device) \
	F(1, cuDeviceGetUuid, cudrv_uuid *, cudrv_device) \
	F(0, cuDeviceGetUuid_v2, cudrv_uuid *, cudrv_device) \
	F(1, cuDeviceGetPCIBusId, char *, int, cudrv_device) \
	F(1, cuDeviceTotalMem_v2, size_t *, cudrv_device) \
	F(1, cuDeviceGetAttribute, int *, cudrv_device_attribute, cudrv_device) \
	F(1, cuDeviceCanAccessPeer, int *, cudrv_device, cudrv_device) \
	F(1, cuDevicePrimaryCtxRetain, cudrv_context *, cudrv_device) \
	F(1, cuDevicePrimaryCtxGetState, cudrv_device, unsigned *, int *) \
	F(1, cuCtxGetCurrent, cudrv_context *) \
	F(1, cuCtxSetCurrent, cudrv_context) \
	F(1, cuMemGetInfo_v2, size_t *, size_t *) \
	F(1, cuMemAlloc_v2, cudrv_ptr *, size_t) \
	F(1, cuMemFree_v2, cudrv_ptr) \
	F(1, cuMemAllocManaged, cudrv_ptr *, size_t, unsigned) \
	F(1, cuMemHostAlloc, void **, size_t, unsigned) \
	F(1, cuMemFreeHost, void *) \
	F(1, cuMemHostRegister_v2, void *, size_t, unsigned) \
	F(1, cuMemHostUnregister, void *) \
	F(0, cuMemAllocAsync, cudrv_ptr *, size_t, cudrv_stream) \
	F(0, cuMemFreeAsync, cudrv_ptr, cudrv_stream) \
	F(0, cuDeviceGetDefaultMemPool, cudrv_mempool *, cudrv_device) \
	F(0, cuMemPoolSetAttribute, cudrv_mempool, cudrv_mempool_attribute, void *) \
	F(0, cuMemPoolGetAttribute, cudrv_mempool, cudrv_mempool_attribute, void *) \
	F(1, cuMemGetAddressRange_v2, cudrv_ptr *, size_t *, cudrv_ptr) \
	F(1, cuMemcpyAsync, cudrv_ptr, cudrv_ptr, size_t, cudrv_stream) \
	F(1, cuMemcpy2DAsync_v2, const cudrv_memcpy2d *, cudrv_stream) \
	F(1, cuMemsetD8Async, cudrv_ptr, unsigned char, size_t, cudrv_stream) \
	F(1, cuPointerGetAttributes, unsigned, cudrv_pointer_attribute *, void **, cudrv_ptr) \
	F(1, cuStreamCreateWithPriority, cudrv_stream *, unsigned, int) \
	F(1, cuStreamDestroy_v2, cudrv_stream) \
	F(1, cuStreamWaitEvent, cudrv_stream, cudrv_event, unsigned) \
	F(1, cuStreamQuery, cudrv_stream) \
	F(1, cuEventCreate, cudrv_event *, unsigned) \
	F(1, cuEventDestroy_v2, cudrv_event) \
	F(1, cuEventRecord, cudrv_event, cudrv_stream) \
	F(1, cuEventQuery, cudrv_event) \
	F(1, cuEventElapsedTime, float *, cudrv_event, cudrv_event) \
	F(1, cuIpcGetMemHandle, cudrv_ipc_mem *, cudrv_ptr) \
	F(1, cuIpcOpenMemHandle_v2, cudrv_ptr *, cudrv_ipc_mem, unsigned) \
	F(1, cuIpcCloseMemHandle, cudrv_ptr) \
	F(1, cuIpcGetEventHandle, cudrv_ipc_event *, cudrv_event) \
	F(1, cuIpcOpenEventHandle, cudrv_event *, cudrv_ipc_event) \
	F(1, cuModuleLoadDataEx, cudrv_module *, const void *, unsigned, cudrv_jit_option *, void **) \
	F(1, cuModuleUnload, cudrv_module) \
	F(1, cuModuleGetFunction, cudrv_function *, cudrv_module, const char *) \
	F(1, cuFuncGetAttribute, int *, cudrv_function_attribute, cudrv_function) \
	F(1, cuFuncSetAttribute, cudrv_function, cudrv_function_attribute, int) \
	F(1, cuOccupancyMaxActiveBlocksPerMultiprocessor, int *, cudrv_function, int, size_t) \
	F(1, cuLaunchKernel, cudrv_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cudrv_stream, void **, void **)

#endif
