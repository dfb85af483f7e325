#ifndef MILLSTREAM_FOLD_H
#define MILLSTREAM_FOLD_H

#include <stddef.h>
#include <stdint.h>

/* ms_fold sets dst to a op b for n elements; types and operations have the numbers of kind.go and op.go. It returns 0
 * and does nothing if there is no loop for the type. dst may be a or b. */
int ms_fold(void *dst, const void *a, const void *b, size_t n, int kind, int op);

#endif
