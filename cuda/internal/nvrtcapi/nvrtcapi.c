//go:build cgo

#define _GNU_SOURCE // dladdr
#include "nvrtcapi.h"
#include "abi.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

// The table: one pointer per function. nvrtcapi_load writes it before it sets loaded, and it is never changed.
static struct {
#define FIELD(required, symbol, ...) nvrtcapi_result (*symbol)(__VA_ARGS__);
	NVRTCAPI_FUNCTIONS(FIELD)
#undef FIELD
	const char *(*nvrtcGetErrorString)(nvrtcapi_result);
} rtc;

static atomic_int loaded;
static char load_path[1024];

int nvrtcapi_load(const char *path, int only_if_loaded, char *message, size_t n) {
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | (only_if_loaded ? RTLD_NOLOAD : 0));
	if (!lib) {
		const char *why = dlerror();
		snprintf(message, n, "%s", why ? why : "not loaded");
		return -1;
	}
#define LOOKUP(required, symbol, ...) \
	*(void **)&rtc.symbol = dlsym(lib, #symbol); \
	if (required && !rtc.symbol) { \
		snprintf(message, n, "%s has no %s: it is not NVRTC", path, #symbol); \
		return -1; \
	}
	NVRTCAPI_FUNCTIONS(LOOKUP)
#undef LOOKUP
	*(void **)&rtc.nvrtcGetErrorString = dlsym(lib, "nvrtcGetErrorString");
	Dl_info where;
	if (dladdr(*(void **)&rtc.nvrtcVersion, &where) && where.dli_fname)
		snprintf(load_path, sizeof load_path, "%s", where.dli_fname);
	atomic_store(&loaded, 1);
	return 0;
}

const char *nvrtcapi_path(void) { return load_path; }

#define READY() \
	if (!atomic_load_explicit(&loaded, memory_order_acquire)) \
		return NVRTCAPI_NOT_LOADED

int nvrtcapi_version(int *major, int *minor) {
	READY();
	return rtc.nvrtcVersion(major, minor);
}

const char *nvrtcapi_error_text(int result) {
	if (!atomic_load(&loaded) || !rtc.nvrtcGetErrorString || result < 0)
		return NULL;
	return rtc.nvrtcGetErrorString(result);
}

static char *log_of(nvrtcapi_program p) {
	size_t n = 0;
	if (rtc.nvrtcGetProgramLogSize(p, &n) || n == 0)
		return NULL;
	char *log = calloc(1, n + 1);
	if (log && rtc.nvrtcGetProgramLog(p, log)) {
		free(log);
		return NULL;
	}
	return log;
}

static int image_of(nvrtcapi_program p, int cubin, char **image, size_t *n) {
	int rc = cubin ? rtc.nvrtcGetCUBINSize(p, n) : rtc.nvrtcGetPTXSize(p, n);
	if (rc)
		return rc;
	*image = calloc(1, *n + 1);
	if (!*image)
		return NVRTCAPI_NO_MEMORY;
	return cubin ? rtc.nvrtcGetCUBIN(p, *image) : rtc.nvrtcGetPTX(p, *image);
}

int nvrtcapi_compile(const char *source, const char *name, int headers, const char *const *bodies, const char *const *names,
	int options, const char *const *flags, int cubin, char **image, size_t *image_len, char **log) {
	READY();
	if (cubin && (!rtc.nvrtcGetCUBIN || !rtc.nvrtcGetCUBINSize))
		return NVRTCAPI_NO_SYMBOL;
	nvrtcapi_program p = NULL;
	int rc = rtc.nvrtcCreateProgram(&p, source, name, headers, bodies, names);
	if (rc)
		return rc;
	rc = rtc.nvrtcCompileProgram(p, options, flags);
	*log = log_of(p);
	if (!rc)
		rc = image_of(p, cubin, image, image_len);
	rtc.nvrtcDestroyProgram(&p);
	return rc;
}
