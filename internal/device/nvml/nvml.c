//go:build cgo

#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvml_device *device_t;

// Structures and functions of the library's stable interface.
typedef struct {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
} pci_t;
typedef struct {
	unsigned long long total, free, used;
} memory_t;
typedef struct {
	unsigned gpu, memory;
} utilization_t;

enum { NOT_SUPPORTED = 3 };

// X(required, symbol, arguments...). Old drivers lack the optional functions.
#define FUNCTIONS(X) \
	X(1, nvmlInit_v2, void) \
	X(1, nvmlShutdown, void) \
	X(1, nvmlDeviceGetCount_v2, unsigned *) \
	X(1, nvmlDeviceGetHandleByIndex_v2, unsigned, device_t *) \
	X(1, nvmlDeviceGetHandleByUUID, const char *, device_t *) \
	X(1, nvmlDeviceGetUUID, device_t, char *, unsigned) \
	X(1, nvmlDeviceGetName, device_t, char *, unsigned) \
	X(1, nvmlDeviceGetMemoryInfo, device_t, memory_t *) \
	X(1, nvmlDeviceGetUtilizationRates, device_t, utilization_t *) \
	X(0, nvmlDeviceGetPciInfo_v3, device_t, pci_t *) \
	X(0, nvmlDeviceGetNvLinkState, device_t, unsigned, unsigned *) \
	X(0, nvmlDeviceGetMigMode, device_t, unsigned *, unsigned *) \
	X(0, nvmlDeviceGetMaxMigDeviceCount, device_t, unsigned *) \
	X(0, nvmlDeviceGetMigDeviceHandleByIndex, device_t, unsigned, device_t *) \
	X(0, nvmlDeviceGetGpuInstanceId, device_t, unsigned *) \
	X(0, nvmlDeviceGetComputeInstanceId, device_t, unsigned *)

struct nvml_library {
	const char *(*nvmlErrorString)(int);
#define FIELD(required, symbol, ...) int (*symbol)(__VA_ARGS__);
	FUNCTIONS(FIELD)
#undef FIELD
};

nvml_library *nvml_open(const char *path, char *message, int size) {
	// The object stays loaded: NVIDIA's libraries start threads, which dlclose would leave without code.
	void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (!object) {
		snprintf(message, size, "%s", dlerror());
		return NULL;
	}
	nvml_library *l = calloc(1, sizeof *l);
	if (!l) {
		snprintf(message, size, "out of memory");
		return NULL;
	}
	*(void **)&l->nvmlErrorString = dlsym(object, "nvmlErrorString");
#define LOOKUP(required, symbol, ...) \
	*(void **)&l->symbol = dlsym(object, #symbol); \
	if (required && !l->symbol) { \
		snprintf(message, size, "%s lacks the function %s", path, #symbol); \
		free(l); \
		return NULL; \
	}
	FUNCTIONS(LOOKUP)
#undef LOOKUP
	int code = l->nvmlInit_v2();
	if (code) {
		snprintf(message, size, "nvmlInit: %s (%d)", nvml_text(l, code), code);
		free(l);
		return NULL;
	}
	return l;
}

int nvml_close(nvml_library *l) { return l->nvmlShutdown(); }

const char *nvml_text(nvml_library *l, int code) {
	const char *text = l->nvmlErrorString ? l->nvmlErrorString(code) : NULL;
	return text ? text : "unknown error";
}

#define DEVICE(device) ((device_t)(uintptr_t)(device))
#define OPTIONAL(symbol) \
	if (!l->symbol) \
		return NOT_SUPPORTED;

int nvml_count(nvml_library *l, unsigned *n) { return l->nvmlDeviceGetCount_v2(n); }

static int handle(int code, device_t d, uint64_t *device) {
	*device = (uint64_t)(uintptr_t)d;
	return code;
}

int nvml_by_index(nvml_library *l, unsigned i, uint64_t *device) {
	device_t d = NULL;
	int code = l->nvmlDeviceGetHandleByIndex_v2(i, &d);
	return handle(code, d, device);
}

int nvml_by_uuid(nvml_library *l, const char *uuid, uint64_t *device) {
	device_t d = NULL;
	int code = l->nvmlDeviceGetHandleByUUID(uuid, &d);
	return handle(code, d, device);
}

int nvml_uuid(nvml_library *l, uint64_t device, char *out, unsigned size) {
	return l->nvmlDeviceGetUUID(DEVICE(device), out, size);
}

int nvml_name(nvml_library *l, uint64_t device, char *out, unsigned size) {
	return l->nvmlDeviceGetName(DEVICE(device), out, size);
}

int nvml_address(nvml_library *l, uint64_t device, char *out, unsigned size) {
	OPTIONAL(nvmlDeviceGetPciInfo_v3)
	pci_t pci;
	memset(&pci, 0, sizeof pci);
	int code = l->nvmlDeviceGetPciInfo_v3(DEVICE(device), &pci);
	snprintf(out, size, "%.*s", (int)sizeof pci.address, pci.address);
	return code;
}

int nvml_memory(nvml_library *l, uint64_t device, uint64_t *used, uint64_t *total) {
	memory_t m;
	memset(&m, 0, sizeof m);
	int code = l->nvmlDeviceGetMemoryInfo(DEVICE(device), &m);
	*used = m.used;
	*total = m.total;
	return code;
}

int nvml_utilization(nvml_library *l, uint64_t device, unsigned *percent) {
	utilization_t u;
	memset(&u, 0, sizeof u);
	int code = l->nvmlDeviceGetUtilizationRates(DEVICE(device), &u);
	*percent = u.gpu;
	return code;
}

int nvml_link(nvml_library *l, uint64_t device, unsigned i, unsigned *active) {
	OPTIONAL(nvmlDeviceGetNvLinkState)
	return l->nvmlDeviceGetNvLinkState(DEVICE(device), i, active);
}

int nvml_mig_mode(nvml_library *l, uint64_t device, unsigned *enabled) {
	OPTIONAL(nvmlDeviceGetMigMode)
	unsigned pending;
	return l->nvmlDeviceGetMigMode(DEVICE(device), enabled, &pending);
}

int nvml_mig_count(nvml_library *l, uint64_t device, unsigned *n) {
	OPTIONAL(nvmlDeviceGetMaxMigDeviceCount)
	return l->nvmlDeviceGetMaxMigDeviceCount(DEVICE(device), n);
}

int nvml_mig_device(nvml_library *l, uint64_t device, unsigned i, uint64_t *part) {
	OPTIONAL(nvmlDeviceGetMigDeviceHandleByIndex)
	device_t d = NULL;
	int code = l->nvmlDeviceGetMigDeviceHandleByIndex(DEVICE(device), i, &d);
	return handle(code, d, part);
}

int nvml_mig_ids(nvml_library *l, uint64_t device, unsigned *gpu, unsigned *compute) {
	OPTIONAL(nvmlDeviceGetGpuInstanceId)
	OPTIONAL(nvmlDeviceGetComputeInstanceId)
	int code = l->nvmlDeviceGetGpuInstanceId(DEVICE(device), gpu);
	return code ? code : l->nvmlDeviceGetComputeInstanceId(DEVICE(device), compute);
}
