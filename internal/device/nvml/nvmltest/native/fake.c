// A libnvidia-ml with eight GPUs for tests. GPU 1 is divided into MIG instances 0 and 2. FAKE_NVML has words that break
// it: init, count, alllost, lost (GPU 3), nomemory, wild. FAKE_NVML_USED and FAKE_NVML_BUSY are bytes and percent of all
// GPUs. Handles are numbers from 1 on, those of instances 100 + index.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, NOT_LOADED = 9, LOST = 15, UNKNOWN = 999 };

static int users;

static int is(const char *word) {
	const char *all = getenv("FAKE_NVML");
	return all && strstr(all, word);
}

static unsigned long long number(const char *name, unsigned long long other) {
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : other;
}

static int index_of(void *d) { return (int)(size_t)d - 1; }
static int is_mig(void *d) { return index_of(d) >= 99; }

const char *nvmlErrorString(int code) {
	switch (code) {
	case UNINITIALIZED: return "Uninitialized";
	case NOT_LOADED: return "Driver Not Loaded";
	case LOST: return "GPU is lost";
	case NOT_FOUND: return "Not Found";
	}
	return "Unknown Error";
}

int nvmlInit_v2(void) {
	if (is("init"))
		return NOT_LOADED;
	users++;
	return OK;
}

int nvmlShutdown(void) { return users-- > 0 ? OK : UNINITIALIZED; }

int nvmlDeviceGetCount_v2(unsigned *n) {
	*n = 8;
	return is("count") ? UNKNOWN : users > 0 ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
	if (i >= 8)
		return INVALID;
	*d = (void *)(size_t)(i + 1);
	return is("alllost") ? LOST : users > 0 ? OK : UNINITIALIZED;
}

int nvmlDeviceGetUUID(void *d, char *out, unsigned size) {
	if (is_mig(d))
		snprintf(out, size, "MIG-%d", index_of(d) - 99);
	else
		snprintf(out, size, "GPU-fake-%d", index_of(d));
	return is("lost") && index_of(d) == 3 ? LOST : OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **d) {
	int i;
	if (users <= 0)
		return UNINITIALIZED;
	if (sscanf(uuid, "GPU-fake-%d", &i) == 1 && i >= 0 && i < 8)
		*d = (void *)(size_t)(i + 1);
	else if (sscanf(uuid, "MIG-%d", &i) == 1 && (i == 0 || i == 2))
		*d = (void *)(size_t)(i + 100);
	else
		return NOT_FOUND;
	return OK;
}

int nvmlDeviceGetName(void *d, char *out, unsigned size) {
	snprintf(out, size, "%s", is_mig(d) ? "Fake GPU MIG 3g.20gb" : "Fake GPU");
	return OK;
}

struct pci {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char address[32];
};

int nvmlDeviceGetPciInfo_v3(void *d, struct pci *p) {
	snprintf(p->address, sizeof p->address, "00000000:%02X:00.0", 0x10 * (index_of(d) + 1));
	return OK;
}

struct memory {
	unsigned long long total, free, used;
};

int nvmlDeviceGetMemoryInfo(void *d, struct memory *m) {
	if (users <= 0)
		return UNINITIALIZED;
	if (is("nomemory"))
		return NOT_SUPPORTED;
	m->total = is("wild") ? ~0ull : (is_mig(d) ? 20ull : 40ull) << 30;
	m->used = number("FAKE_NVML_USED", (1ull << 30) * (index_of(d) + 1));
	m->free = m->total - m->used;
	return OK;
}

struct utilization {
	unsigned gpu, memory;
};

int nvmlDeviceGetUtilizationRates(void *d, struct utilization *u) {
	if (users <= 0)
		return UNINITIALIZED;
	if (is_mig(d))
		return NOT_SUPPORTED;
	u->gpu = is("wild") ? ~0u : (unsigned)number("FAKE_NVML_BUSY", 10 * index_of(d));
	return is("gone") ? LOST : OK;
}

int nvmlDeviceGetNvLinkState(void *d, unsigned i, unsigned *active) {
	if (index_of(d) == 2)
		return NOT_SUPPORTED;
	if (index_of(d) == 3)
		return UNKNOWN;
	if (i >= 12)
		return INVALID;
	*active = index_of(d) == 4 ? i % 2 : 1; // every other link of GPU 4 is down
	return OK;
}

int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
	*now = *pending = index_of(d) == 1;
	return index_of(d) == 5 ? NOT_SUPPORTED : OK;
}

int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) {
	(void)d;
	*n = is("wild") ? ~0u : 7;
	return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned i, void **part) {
	(void)d;
	if (i != 0 && i != 2)
		return NOT_FOUND;
	*part = (void *)(size_t)(i + 100);
	return OK;
}

int nvmlDeviceGetGpuInstanceId(void *d, unsigned *n) {
	*n = 10 + index_of(d) - 99;
	return OK;
}

int nvmlDeviceGetComputeInstanceId(void *d, unsigned *n) {
	(void)d;
	*n = 0;
	return OK;
}
