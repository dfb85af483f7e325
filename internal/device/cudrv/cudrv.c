//go:build cgo

#define _GNU_SOURCE // dladdr
#include "cudrv.h"
#include "abi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The table: one pointer per driver function.
static struct {
#define FIELD(required, symbol, ...) cudrv_result (*symbol)(__VA_ARGS__);
	CUDRV_FUNCTIONS(FIELD)
#undef FIELD
} cu;

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static int load_stage, load_result;
static char load_message[1024], load_path[1024];

static void *open_library(void) {
	// An explicit path is final: a fallback would hide that it is wrong.
	const char *chosen = getenv("MILLSTREAM_CUDA_LIBRARY");
	// WSL has the driver in a folder that the dynamic linker does not search.
	const char *places[] = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
	if (chosen && *chosen) {
		void *lib = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
		if (!lib)
			snprintf(load_message, sizeof load_message, "MILLSTREAM_CUDA_LIBRARY: %s", dlerror());
		return lib;
	}
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		void *lib = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
		if (lib)
			return lib;
		if (i == 0)
			snprintf(load_message, sizeof load_message, "%s", dlerror());
	}
	return NULL;
}

static void load(void) {
	void *lib = open_library();
	if (!lib) {
		load_stage = CUDRV_FAILED_OPEN;
		return;
	}
#define LOOKUP(required, symbol, ...) \
	*(void **)&cu.symbol = dlsym(lib, #symbol); \
	if (required && !cu.symbol) { \
		load_stage = CUDRV_FAILED_SYMBOL; \
		snprintf(load_message, sizeof load_message, "%s", #symbol); \
	}
	CUDRV_FUNCTIONS(LOOKUP)
#undef LOOKUP
	Dl_info where;
	if (cu.cuInit && dladdr(*(void **)&cu.cuInit, &where) && where.dli_fname)
		snprintf(load_path, sizeof load_path, "%s", where.dli_fname);
	if (load_stage)
		return;
	load_result = cu.cuInit(0);
	if (load_result != CUDRV_SUCCESS)
		load_stage = CUDRV_FAILED_INIT;
}

int cudrv_load(int *result, const char **message) {
	pthread_once(&load_once, load);
	*result = load_result;
	*message = load_message;
	return load_stage;
}

static int ready(void) {
	pthread_once(&load_once, load);
	if (load_stage == CUDRV_FAILED_INIT)
		return load_result;
	return load_stage ? CUDRV_NOT_LOADED : 0;
}

const char *cudrv_path(void) {
	pthread_once(&load_once, load);
	return load_path;
}

void cudrv_error_text(int result, const char **name, const char **text) {
	pthread_once(&load_once, load);
	*name = *text = NULL;
	if (cu.cuGetErrorName && cu.cuGetErrorString && result >= 0) {
		cu.cuGetErrorName(result, name);
		cu.cuGetErrorString(result, text);
	}
}

// Primary contexts, retained at first use and kept until the process ends: other libraries
// and memory in flight depend on them and cannot be counted.
enum { MAX_DEVICES = 128 };
static _Atomic(cudrv_context) primaries[MAX_DEVICES];
static pthread_mutex_t primaries_lock = PTHREAD_MUTEX_INITIALIZER;

static int primary(int device, cudrv_context *ctx) {
	int rc = ready();
	if (rc)
		return rc;
	if (device < 0 || device >= MAX_DEVICES)
		return CUDRV_ERROR_INVALID_DEVICE;
	*ctx = atomic_load_explicit(&primaries[device], memory_order_acquire);
	if (*ctx)
		return 0;
	pthread_mutex_lock(&primaries_lock);
	*ctx = atomic_load_explicit(&primaries[device], memory_order_acquire);
	if (!*ctx) {
		cudrv_device handle;
		rc = cu.cuDeviceGet(&handle, device);
		if (!rc)
			rc = cu.cuDevicePrimaryCtxRetain(ctx, handle);
		if (!rc)
			atomic_store_explicit(&primaries[device], *ctx, memory_order_release);
	}
	pthread_mutex_unlock(&primaries_lock);
	return rc;
}

// enter makes the device's context current; leave restores the previous context of the
// thread. A thread without a context keeps ours, which saves a call the next time.
static int enter(int device, cudrv_context *other) {
	cudrv_context ctx, before;
	*other = NULL;
	int rc = primary(device, &ctx);
	if (rc)
		return rc;
	rc = cu.cuCtxGetCurrent(&before);
	if (rc || before == ctx)
		return rc;
	rc = cu.cuCtxSetCurrent(ctx);
	if (!rc)
		*other = before;
	return rc;
}

static void leave(cudrv_context other) {
	if (other)
		cu.cuCtxSetCurrent(other);
}

// IN_CONTEXT evaluates an expression with the device's context current and returns its result.
#define IN_CONTEXT(device, expression) \
	cudrv_context other_; \
	int rc_ = enter(device, &other_); \
	if (rc_) \
		return rc_; \
	rc_ = (expression); \
	leave(other_); \
	return rc_

#define STREAM(h) ((cudrv_stream)(uintptr_t)(h))
#define EVENT(h) ((cudrv_event)(uintptr_t)(h))

int cudrv_set_current(int device) {
	cudrv_context ctx;
	int rc = primary(device, &ctx);
	return rc ? rc : cu.cuCtxSetCurrent(ctx);
}

int cudrv_event_query(void *event) {
	int rc = ready();
	if (rc)
		return -CUDRV_ERROR_UNKNOWN; // no event can exist
	rc = cu.cuEventQuery((cudrv_event)event); // needs no current context
	if (rc == CUDRV_ERROR_NOT_READY)
		return 1;
	return -rc;
}

int cudrv_driver_version(int *version) {
	int rc = ready();
	return rc ? rc : cu.cuDriverGetVersion(version);
}

int cudrv_device_count(int *count) {
	int rc = ready();
	return rc ? rc : cu.cuDeviceGetCount(count);
}

int cudrv_device_query(int device, cudrv_device_info *info) {
	cudrv_device d;
	size_t total = 0;
	int rc = ready();
	memset(info, 0, sizeof *info);
	if (rc || (rc = cu.cuDeviceGet(&d, device)) ||
	    (rc = cu.cuDeviceGetName(info->name, sizeof info->name, d)) ||
	    (rc = cu.cuDeviceGetUuid((cudrv_uuid *)info->uuid, d)) ||
	    (rc = cu.cuDeviceGetPCIBusId(info->pci, sizeof info->pci, d)) ||
	    (rc = cu.cuDeviceTotalMem_v2(&total, d)))
		return rc;
	info->total = total;
	// cuDeviceGetUuid returns the UUID of the physical GPU, _v2 that of the MIG instance: a
	// difference is how the driver interface reports MIG.
	if (!cu.cuDeviceGetUuid_v2 || cu.cuDeviceGetUuid_v2((cudrv_uuid *)info->instance_uuid, d))
		memcpy(info->instance_uuid, info->uuid, sizeof info->uuid);
	struct { int *field, attribute, missing; } attributes[] = {
		{&info->cc_major, CUDRV_DEVICE_CC_MAJOR, 0},
		{&info->cc_minor, CUDRV_DEVICE_CC_MINOR, 0},
		{&info->multiprocessors, CUDRV_DEVICE_MULTIPROCESSOR_COUNT, 0},
		{&info->integrated, CUDRV_DEVICE_INTEGRATED, 0},
		{&info->unified_addressing, CUDRV_DEVICE_UNIFIED_ADDRESSING, 0},
		{&info->managed, CUDRV_DEVICE_MANAGED_MEMORY, 0},
		{&info->concurrent_managed, CUDRV_DEVICE_CONCURRENT_MANAGED_ACCESS, 0},
		{&info->pageable_access, CUDRV_DEVICE_PAGEABLE_MEMORY_ACCESS, 0},
		{&info->memory_pools, CUDRV_DEVICE_MEMORY_POOLS_SUPPORTED, 0},
		{&info->gpu_direct_rdma, CUDRV_DEVICE_GPU_DIRECT_RDMA_SUPPORTED, 0},
		// Drivers before 12.0 do not have this attribute, and support IPC wherever addresses are unified.
		{&info->ipc, CUDRV_DEVICE_IPC_EVENT_SUPPORTED, -1},
		{&info->numa_node, CUDRV_DEVICE_HOST_NUMA_ID, -1},
	};
	for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
		if (cu.cuDeviceGetAttribute(attributes[i].field, attributes[i].attribute, d))
			*attributes[i].field = attributes[i].missing; // an older driver
	if (info->ipc < 0)
		info->ipc = info->unified_addressing;
	return 0;
}

int cudrv_can_access_peer(int device, int peer, int *yes) {
	cudrv_device a, b;
	int rc = ready();
	if (rc || (rc = cu.cuDeviceGet(&a, device)) || (rc = cu.cuDeviceGet(&b, peer)))
		return rc;
	return cu.cuDeviceCanAccessPeer(yes, a, b);
}

int cudrv_primary_state(int device, unsigned *flags, int *active) {
	cudrv_device d;
	int rc = ready();
	if (rc || (rc = cu.cuDeviceGet(&d, device)))
		return rc;
	return cu.cuDevicePrimaryCtxGetState(d, flags, active);
}

int cudrv_primary_retain(int device, uint64_t *context) {
	cudrv_context ctx = NULL;
	int rc = primary(device, &ctx);
	*context = (uintptr_t)ctx;
	return rc;
}

int cudrv_mem_info(int device, uint64_t *free_bytes, uint64_t *total_bytes) {
	size_t f = 0, t = 0;
	IN_CONTEXT(device, (rc_ = cu.cuMemGetInfo_v2(&f, &t), *free_bytes = f, *total_bytes = t, rc_));
}

int cudrv_mem_alloc(int device, size_t n, uint64_t *addr) {
	IN_CONTEXT(device, cu.cuMemAlloc_v2((cudrv_ptr *)addr, n));
}

int cudrv_mem_alloc_managed(int device, size_t n, uint64_t *addr) {
	IN_CONTEXT(device, cu.cuMemAllocManaged((cudrv_ptr *)addr, n, CUDRV_MEM_ATTACH_GLOBAL));
}

int cudrv_mem_alloc_host(int device, size_t n, uint64_t *addr) {
	// Portable: pinned in every context, because copies may run on another device's stream.
	void *p = NULL;
	IN_CONTEXT(device, (rc_ = cu.cuMemHostAlloc(&p, n, CUDRV_MEMHOSTALLOC_PORTABLE), *addr = (uintptr_t)p, rc_));
}

int cudrv_mem_alloc_async(int device, size_t n, uint64_t stream, uint64_t record, uint64_t *addr) {
	int rc = ready();
	if (rc)
		return rc;
	if (!cu.cuMemAllocAsync || !cu.cuMemFreeAsync)
		return CUDRV_NO_SYMBOL;
	IN_CONTEXT(device, (rc_ = cu.cuMemAllocAsync((cudrv_ptr *)addr, n, STREAM(stream))) ? rc_
	                   : (rc_ = cu.cuEventRecord(EVENT(record), STREAM(stream)))
	                       ? (cu.cuMemFreeAsync(*addr, STREAM(stream)), rc_)
	                       : 0);
}

int cudrv_mem_free(int device, uint64_t addr) { IN_CONTEXT(device, cu.cuMemFree_v2(addr)); }

int cudrv_mem_free_host(int device, uint64_t addr) {
	IN_CONTEXT(device, cu.cuMemFreeHost((void *)(uintptr_t)addr));
}

int cudrv_host_register(int device, uint64_t addr, size_t n) {
	IN_CONTEXT(device, cu.cuMemHostRegister_v2((void *)(uintptr_t)addr, n, CUDRV_MEMHOSTREGISTER_PORTABLE));
}

int cudrv_host_unregister(int device, uint64_t addr) {
	IN_CONTEXT(device, cu.cuMemHostUnregister((void *)(uintptr_t)addr));
}

int cudrv_mem_free_async(int device, uint64_t addr, uint64_t stream) {
	IN_CONTEXT(device, cu.cuMemFreeAsync(addr, STREAM(stream)));
}

static int default_pool(int device, cudrv_mempool *pool) {
	cudrv_device d;
	int rc = ready();
	if (rc)
		return rc;
	if (!cu.cuDeviceGetDefaultMemPool || !cu.cuMemPoolSetAttribute || !cu.cuMemPoolGetAttribute)
		return CUDRV_NO_SYMBOL;
	if ((rc = cu.cuDeviceGet(&d, device)))
		return rc;
	return cu.cuDeviceGetDefaultMemPool(pool, d);
}

int cudrv_pool_keep(int device, uint64_t bytes) {
	cudrv_mempool pool;
	int rc = default_pool(device, &pool);
	return rc ? rc : cu.cuMemPoolSetAttribute(pool, CUDRV_MEMPOOL_RELEASE_THRESHOLD, &bytes);
}

int cudrv_pool_reserved(int device, uint64_t *bytes) {
	cudrv_mempool pool;
	int rc = default_pool(device, &pool);
	return rc ? rc : cu.cuMemPoolGetAttribute(pool, CUDRV_MEMPOOL_RESERVED_CURRENT, bytes);
}

int cudrv_address_range(int device, uint64_t addr, uint64_t *base, uint64_t *size) {
	size_t n = 0;
	IN_CONTEXT(device, (rc_ = cu.cuMemGetAddressRange_v2((cudrv_ptr *)base, &n, addr), *size = n, rc_));
}

int cudrv_buffer_id(int device, uint64_t addr, uint64_t *id) {
	cudrv_pointer_attribute what[] = {CUDRV_POINTER_BUFFER_ID};
	unsigned long long n = 0;
	void *data[] = {&n};
	IN_CONTEXT(device, (rc_ = cu.cuPointerGetAttributes(1, what, data, addr)) ? rc_ : (*id = n) ? 0 : CUDRV_ERROR_INVALID_VALUE);
}

static int pointer_query(uint64_t addr, cudrv_pointer_info *info) {
	void *host = NULL;
	unsigned type = 0, managed = 0, ipc = 0;
	int device = -1;
	cudrv_ptr base = 0;
	size_t size = 0;
	cudrv_pointer_attribute first[] = {CUDRV_POINTER_MEMORY_TYPE, CUDRV_POINTER_IS_MANAGED, CUDRV_POINTER_DEVICE_ORDINAL, CUDRV_POINTER_HOST_POINTER};
	void *first_data[] = {&type, &managed, &device, &host};
	// Newer attributes separately: a driver that lacks one rejects the whole call.
	cudrv_pointer_attribute second[] = {CUDRV_POINTER_IPC_CAPABLE, CUDRV_POINTER_RANGE_START_ADDR, CUDRV_POINTER_RANGE_SIZE};
	void *second_data[] = {&ipc, &base, &size};
	int rc = cu.cuPointerGetAttributes(4, first, first_data, addr);
	if (rc)
		return rc;
	if (type && cu.cuPointerGetAttributes(3, second, second_data, addr))
		base = size = ipc = 0;
	*info = (cudrv_pointer_info){type, managed != 0, device, ipc != 0, base, size, (uintptr_t)host};
	return 0;
}

int cudrv_pointer_query(uint64_t addr, cudrv_pointer_info *info) {
	int count = 0, rc = ready();
	memset(info, 0, sizeof *info);
	info->device = -1;
	if (rc)
		return rc;
	rc = pointer_query(addr, info);
	if (rc != CUDRV_ERROR_INVALID_CONTEXT || cu.cuDeviceGetCount(&count))
		return rc;
	// On a thread without a context: borrow an existing one, but never create one to
	// query a pointer. Without any context there is no CUDA memory.
	for (int i = 0; i < count; i++) {
		unsigned flags;
		int active = 0;
		if (cudrv_primary_state(i, &flags, &active) || !active)
			continue;
		IN_CONTEXT(i, pointer_query(addr, info));
	}
	return 0;
}

static int wait_for(uint64_t stream, uint64_t event) {
	return event ? cu.cuStreamWaitEvent(STREAM(stream), EVENT(event), 0) : 0;
}

static int record_on(uint64_t stream, uint64_t event) {
	return event ? cu.cuEventRecord(EVENT(event), STREAM(stream)) : 0;
}

int cudrv_copy(int device, uint64_t dst, uint64_t src, size_t n, uint64_t stream, uint64_t wait1, uint64_t wait2, uint64_t record) {
	IN_CONTEXT(device, (rc_ = wait_for(stream, wait1)) || (rc_ = wait_for(stream, wait2)) ||
	                   (n && (rc_ = cu.cuMemcpyAsync(dst, src, n, STREAM(stream)))) ||
	                   (rc_ = record_on(stream, record)) ? rc_ : 0);
}

int cudrv_copy_rows(int device, uint64_t dst, uint64_t src, size_t width, size_t pitch, size_t rows, uint64_t stream, uint64_t record) {
	cudrv_memcpy2d c = {0};
	c.src_type = CUDRV_MEMORYTYPE_HOST;
	c.src_host = (const void *)(uintptr_t)src;
	c.src_pitch = pitch;
	c.dst_type = CUDRV_MEMORYTYPE_DEVICE;
	c.dst_device = dst;
	c.dst_pitch = width;
	c.width = width;
	c.height = rows;
	IN_CONTEXT(device, (rc_ = cu.cuMemcpy2DAsync_v2(&c, STREAM(stream))) || (rc_ = record_on(stream, record)) ? rc_ : 0);
}

int cudrv_fill(int device, uint64_t dst, unsigned char value, size_t n, uint64_t stream, uint64_t wait, uint64_t record) {
	IN_CONTEXT(device, (rc_ = wait_for(stream, wait)) ||
	                   (n && (rc_ = cu.cuMemsetD8Async(dst, value, n, STREAM(stream)))) ||
	                   (rc_ = record_on(stream, record)) ? rc_ : 0);
}

int cudrv_stream_create(int device, unsigned flags, int priority, uint64_t *stream) {
	IN_CONTEXT(device, cu.cuStreamCreateWithPriority((cudrv_stream *)stream, flags, priority));
}

int cudrv_stream_destroy(int device, uint64_t stream) { IN_CONTEXT(device, cu.cuStreamDestroy_v2(STREAM(stream))); }

int cudrv_stream_wait(int device, uint64_t stream, uint64_t event) { IN_CONTEXT(device, wait_for(stream, event)); }

int cudrv_stream_query(int device, uint64_t stream, int *busy) {
	IN_CONTEXT(device, (rc_ = cu.cuStreamQuery(STREAM(stream)), (*busy = rc_ == CUDRV_ERROR_NOT_READY) ? 0 : rc_));
}

int cudrv_event_create(int device, unsigned flags, uint64_t *event) {
	IN_CONTEXT(device, cu.cuEventCreate((cudrv_event *)event, flags));
}

int cudrv_event_destroy(int device, uint64_t event) { IN_CONTEXT(device, cu.cuEventDestroy_v2(EVENT(event))); }

int cudrv_event_record(int device, uint64_t event, uint64_t stream) { IN_CONTEXT(device, record_on(stream, event)); }

int cudrv_event_elapsed(int device, uint64_t start, uint64_t end, float *ms) {
	IN_CONTEXT(device, cu.cuEventElapsedTime(ms, EVENT(start), EVENT(end)));
}

int cudrv_ipc_get_mem(int device, uint64_t addr, unsigned char handle[64]) {
	IN_CONTEXT(device, cu.cuIpcGetMemHandle((cudrv_ipc_mem *)handle, addr));
}

int cudrv_ipc_open_mem(int device, const unsigned char handle[64], uint64_t *addr) {
	cudrv_ipc_mem h;
	memcpy(&h, handle, sizeof h);
	IN_CONTEXT(device, cu.cuIpcOpenMemHandle_v2((cudrv_ptr *)addr, h, CUDRV_IPC_LAZY_PEER_ACCESS));
}

int cudrv_ipc_close_mem(int device, uint64_t addr) { IN_CONTEXT(device, cu.cuIpcCloseMemHandle(addr)); }

int cudrv_ipc_get_event(int device, uint64_t event, unsigned char handle[64]) {
	IN_CONTEXT(device, cu.cuIpcGetEventHandle((cudrv_ipc_event *)handle, EVENT(event)));
}

int cudrv_ipc_open_event(int device, const unsigned char handle[64], uint64_t *event) {
	cudrv_ipc_event h;
	memcpy(&h, handle, sizeof h);
	IN_CONTEXT(device, cu.cuIpcOpenEventHandle((cudrv_event *)event, h));
}

int cudrv_module_load(int device, const void *image, uint64_t *module, char *log, size_t size) {
	char info[4096] = "";
	cudrv_jit_option options[] = {CUDRV_JIT_ERROR_LOG_BUFFER, CUDRV_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CUDRV_JIT_INFO_LOG_BUFFER, CUDRV_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)size, info, (void *)sizeof info};
	*log = 0;
	IN_CONTEXT(device, cu.cuModuleLoadDataEx((cudrv_module *)module, image, 4, options, values));
}

#define MODULE(h) ((cudrv_module)(uintptr_t)(h))
#define FUNCTION(h) ((cudrv_function)(uintptr_t)(h))

int cudrv_module_unload(int device, uint64_t module) { IN_CONTEXT(device, cu.cuModuleUnload(MODULE(module))); }

int cudrv_module_function(int device, uint64_t module, const char *name, uint64_t *function) {
	IN_CONTEXT(device, cu.cuModuleGetFunction((cudrv_function *)function, MODULE(module), name));
}

int cudrv_function_query(int device, uint64_t function, cudrv_function_info *info) {
	IN_CONTEXT(device, (rc_ = cu.cuFuncGetAttribute(&info->max_threads, CUDRV_FUNC_MAX_THREADS_PER_BLOCK, FUNCTION(function))) ||
	                   (rc_ = cu.cuFuncGetAttribute(&info->shared_bytes, CUDRV_FUNC_SHARED_SIZE_BYTES, FUNCTION(function))) ||
	                   (rc_ = cu.cuFuncGetAttribute(&info->registers, CUDRV_FUNC_NUM_REGS, FUNCTION(function))) ||
	                   (rc_ = cu.cuFuncGetAttribute(&info->dynamic_shared, CUDRV_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, FUNCTION(function))) ? rc_ : 0);
}

int cudrv_function_set_shared(int device, uint64_t function, int bytes) {
	IN_CONTEXT(device, cu.cuFuncSetAttribute(FUNCTION(function), CUDRV_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
}

int cudrv_function_blocks(int device, uint64_t function, int block, size_t shared, int *blocks) {
	IN_CONTEXT(device, cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, FUNCTION(function), block, shared));
}

static int launch(const cudrv_launch *l, const unsigned char *values, const uint64_t *waits) {
	void *parameters[CUDRV_MAX_PARAMETERS];
	int rc;
	for (unsigned i = 0; i < l->parameters; i++)
		parameters[i] = (void *)(values + l->at[i]);
	for (unsigned i = 0; i < l->waits; i++)
		if ((rc = wait_for(l->stream, waits[i])))
			return rc;
	rc = cu.cuLaunchKernel(FUNCTION(l->function), l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, STREAM(l->stream), parameters, NULL);
	return rc ? rc : record_on(l->stream, l->record);
}

int cudrv_launch_kernel(int device, const cudrv_launch *l, const unsigned char *values, const uint64_t *waits) {
	if (l->parameters > CUDRV_MAX_PARAMETERS)
		return CUDRV_ERROR_INVALID_VALUE;
	IN_CONTEXT(device, launch(l, values, waits));
}
