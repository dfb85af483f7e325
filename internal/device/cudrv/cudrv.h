// Self-contained calls into the CUDA driver: a call that needs a context first makes the
// device's primary context current on the calling OS thread, because a goroutine may be
// on another thread at its next call.
//
// All functions return a CUresult (0 is success) or one of the negative codes below.
#ifndef CUDRV_H
#define CUDRV_H

#include <stddef.h>
#include <stdint.h>

enum {
	CUDRV_NOT_LOADED = -1, // no driver library; cudrv_load returns the reason
	CUDRV_NO_SYMBOL = -2,  // the installed driver is too old for this function
};

// cudrv_load opens the library and calls cuInit, once. It creates no context. It returns the
// failed stage (0: none), with details in *result (of cuInit) and *message.
enum { CUDRV_LOADED = 0, CUDRV_FAILED_OPEN = 1, CUDRV_FAILED_SYMBOL = 2, CUDRV_FAILED_INIT = 3 };
int cudrv_load(int *result, const char **message);
// cudrv_path returns the path of the loaded file, or "".
const char *cudrv_path(void);
// cudrv_error_text sets the driver's name and text of a CUresult, or NULL.
void cudrv_error_text(int result, const char **name, const char **text);

// Hooks for other bindings, see mem.DeviceHooks.
int cudrv_set_current(int device);
int cudrv_event_query(void *event);

typedef struct {
	char name[256];
	char pci[32];
	unsigned char uuid[16];          // UUID of the physical GPU
	unsigned char instance_uuid[16]; // UUID of the MIG instance; equal to uuid without MIG
	uint64_t total;
	int cc_major, cc_minor, multiprocessors, integrated, unified_addressing, managed;
	int concurrent_managed, pageable_access, memory_pools, gpu_direct_rdma, ipc, numa_node;
} cudrv_device_info;

typedef struct {
	int type;    // CUmemorytype; 0: unknown to CUDA
	int managed; // 1: unified memory
	int device;
	int ipc;       // 1: may be exported with cudrv_ipc_get_mem
	uint64_t base; // 0: unknown
	uint64_t size;
	uint64_t host; // host address, or 0
} cudrv_pointer_info;

int cudrv_driver_version(int *version);
int cudrv_device_count(int *count);
int cudrv_device_query(int device, cudrv_device_info *info);
int cudrv_can_access_peer(int device, int peer, int *yes);
int cudrv_primary_state(int device, unsigned *flags, int *active);
int cudrv_primary_retain(int device, uint64_t *context);
int cudrv_mem_info(int device, uint64_t *free_bytes, uint64_t *total_bytes);

int cudrv_mem_alloc(int device, size_t n, uint64_t *addr);
int cudrv_mem_alloc_managed(int device, size_t n, uint64_t *addr);
int cudrv_mem_alloc_host(int device, size_t n, uint64_t *addr);
int cudrv_mem_alloc_async(int device, size_t n, uint64_t stream, uint64_t record, uint64_t *addr);
int cudrv_mem_free(int device, uint64_t addr);
int cudrv_mem_free_host(int device, uint64_t addr);
int cudrv_host_register(int device, uint64_t addr, size_t n);
int cudrv_host_unregister(int device, uint64_t addr);
int cudrv_mem_free_async(int device, uint64_t addr, uint64_t stream);
// The device's default memory pool: the bytes that it keeps unused, and its size.
int cudrv_pool_keep(int device, uint64_t bytes);
int cudrv_pool_reserved(int device, uint64_t *bytes);
int cudrv_buffer_id(int device, uint64_t addr, uint64_t *id);
int cudrv_address_range(int device, uint64_t addr, uint64_t *base, uint64_t *size);
int cudrv_pointer_query(uint64_t addr, cudrv_pointer_info *info);

// Stream work: wait for up to two events (0: none), run, record an event (0: none).
int cudrv_copy(int device, uint64_t dst, uint64_t src, size_t n, uint64_t stream, uint64_t wait1, uint64_t wait2, uint64_t record);
// cudrv_copy_rows copies rows of pinned host memory, which are pitch bytes apart, to adjacent device memory.
int cudrv_copy_rows(int device, uint64_t dst, uint64_t src, size_t width, size_t pitch, size_t rows, uint64_t stream, uint64_t record);
int cudrv_fill(int device, uint64_t dst, unsigned char value, size_t n, uint64_t stream, uint64_t wait, uint64_t record);

int cudrv_stream_create(int device, unsigned flags, int priority, uint64_t *stream);
int cudrv_stream_destroy(int device, uint64_t stream);
int cudrv_stream_wait(int device, uint64_t stream, uint64_t event);
int cudrv_stream_query(int device, uint64_t stream, int *busy);
int cudrv_event_create(int device, unsigned flags, uint64_t *event);
int cudrv_event_destroy(int device, uint64_t event);
int cudrv_event_record(int device, uint64_t event, uint64_t stream);
int cudrv_event_elapsed(int device, uint64_t start, uint64_t end, float *ms);

int cudrv_ipc_get_mem(int device, uint64_t addr, unsigned char handle[64]);
int cudrv_ipc_open_mem(int device, const unsigned char handle[64], uint64_t *addr);
int cudrv_ipc_close_mem(int device, uint64_t addr);
int cudrv_ipc_get_event(int device, uint64_t event, unsigned char handle[64]);
int cudrv_ipc_open_event(int device, const unsigned char handle[64], uint64_t *event);

// Kernels. cudrv_module_load writes the messages of the driver's compiler to log, a text of at most size bytes.
int cudrv_module_load(int device, const void *image, uint64_t *module, char *log, size_t size);
int cudrv_module_unload(int device, uint64_t module);
int cudrv_module_function(int device, uint64_t module, const char *name, uint64_t *function);

typedef struct {
	int max_threads, shared_bytes, registers, dynamic_shared;
} cudrv_function_info;
int cudrv_function_query(int device, uint64_t function, cudrv_function_info *info);
int cudrv_function_set_shared(int device, uint64_t function, int bytes);
int cudrv_function_blocks(int device, uint64_t function, int block, size_t shared, int *blocks);

enum { CUDRV_MAX_PARAMETERS = 64 };
typedef struct {
	unsigned grid[3], block[3], shared;
	unsigned parameters, waits;               // number of parameters
	unsigned short at[CUDRV_MAX_PARAMETERS];  // offset of each parameter in values
	uint64_t function, stream, record;        // record: an event, 0: none
} cudrv_launch;
// Stream work as in cudrv_copy: wait for events, launch, record. values are the bytes of the parameters.
int cudrv_launch_kernel(int device, const cudrv_launch *l, const unsigned char *values, const uint64_t *waits);

#endif
