/* Types of the functions in Go that millstream.c calls. */
#ifndef MILLSTREAM_EXPORTS_H
#define MILLSTREAM_EXPORTS_H

#include "millstream.h"

/* Text of an error, written by Go into memory of the calling thread. */
typedef struct failure {
	char text[2048];
} failure;

#endif
