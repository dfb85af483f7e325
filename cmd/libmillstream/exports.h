/* Types of the functions in Go that the C files of this package call, and what these files share. */
#ifndef MILLSTREAM_EXPORTS_H
#define MILLSTREAM_EXPORTS_H

#define MILLSTREAM_API __attribute__((visibility("default")))
#include "millstream.h"

/* Text of an error, written by Go into memory of the calling thread. */
typedef struct failure {
	char text[2048];
} failure;

/* One side of millstream_v1_multicast_sendrecv. */
typedef struct parts {
	uintptr_t base;
	const uint64_t *counts, *offsets;
	const int *ranks;
	size_t n;
} parts;

#define MILLSTREAM_MAX_PARTS (1 << 20)

/* Copies a call of the caller, whose header may be older and its struct smaller. */
int millstream_read_call(const millstream_v1_call *from, millstream_v1_call *to);
/* Reports whether the process has loaded the CUDA driver. Without it there is no device memory to recognize. */
int millstream_has_cuda(void);
/* Set in a child of fork(), in which a call into Go would never return. */
extern int millstream_forked;
/* Returns the memory of this thread for the text of errors. */
failure *millstream_last(void);
/* Stores the text of an error and returns its code. */
int millstream_fail(int code, const char *text);

#define CHECK_FORK \
	if (millstream_forked) \
		return millstream_fail(MILLSTREAM_FORKED, "millstream: the library does not work in a child of fork(); start the " \
			"process with exec, such as multiprocessing's start method spawn")
#define CHECK(condition, text) \
	if (!(condition)) \
		return millstream_fail(MILLSTREAM_INVALID, "millstream: " text)

#endif
