// NVRTC, CUDA's compiler as a library, opened at run time. No header of it is needed to build; TestABI compares what is
// declared here with the real one where that is installed.
#ifndef NVRTCAPI_H
#define NVRTCAPI_H

#include <stddef.h>

enum {
	NVRTCAPI_NOT_LOADED = -1, // nvrtcapi_load has not succeeded
	NVRTCAPI_NO_SYMBOL = -2,  // the library is too old for this function
	NVRTCAPI_NO_MEMORY = -3,
};

// nvrtcapi_load opens a library; only_if_loaded: only if it is in the process already. 0, or -1 with a message.
int nvrtcapi_load(const char *path, int only_if_loaded, char *message, size_t n);
// nvrtcapi_path is the file that was loaded, or "".
const char *nvrtcapi_path(void);
int nvrtcapi_version(int *major, int *minor);
const char *nvrtcapi_error_text(int result);

// nvrtcapi_compile compiles to a cubin or to PTX. *image and *log are malloc'ed, or NULL; the log is a text.
int nvrtcapi_compile(const char *source, const char *name, int headers, const char *const *bodies, const char *const *names,
	int options, const char *const *flags, int cubin, char **image, size_t *image_len, char **log);

#endif
