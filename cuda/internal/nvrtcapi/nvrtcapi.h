// NVRTC, the CUDA compiler as a library, opened at run time. Its header is not needed to build; TestABI compares these
// declarations with the real ones if it is installed.
#ifndef NVRTCAPI_H
#define NVRTCAPI_H

#include <stddef.h>

enum {
	NVRTCAPI_NOT_LOADED = -1, // nvrtcapi_load has not succeeded
	NVRTCAPI_NO_SYMBOL = -2,  // the library is too old for this function
	NVRTCAPI_NO_MEMORY = -3,
};

// nvrtcapi_load opens a library, with only_if_loaded only one that the process has loaded. It returns 0, or -1 and a message.
int nvrtcapi_load(const char *path, int only_if_loaded, char *message, size_t n);
// nvrtcapi_path returns the path of the loaded file, or "".
const char *nvrtcapi_path(void);
int nvrtcapi_version(int *major, int *minor);
const char *nvrtcapi_error_text(int result);

// nvrtcapi_compile compiles to a cubin or to PTX. *image and *log are malloc'ed, or NULL; the log is text.
int nvrtcapi_compile(const char *source, const char *name, int headers, const char *const *bodies, const char *const *names,
	int options, const char *const *flags, int cubin, char **image, size_t *image_len, char **log);

#endif
