#ifndef MILLSTREAM_FOLD_H
#define MILLSTREAM_FOLD_H

#include <stddef.h>
#include <stdint.h>

/* ms_fold sets dst to a op b for n elements, numbered as in kind.go and op.go. It returns 0 without an effect for a
 * kind without a loop. dst may be a or b. */
int ms_fold(void *dst, const void *a, const void *b, size_t n, int kind, int op);

#endif
