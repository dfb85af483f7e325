#include "fold.h"

/* Loops that the compiler vectorizes, for the baseline of the architecture and for AVX2. No contraction and no
 * reassociation: results have the bits of the plain Go loops. */

#define LOOP(expr) for (size_t i = 0; i < n; i++) { d[i] = (expr); }

#define BODY(T, U)                                                                            \
	{                                                                                         \
		typedef T __attribute__((aligned(1), may_alias)) E; /* memory may be unaligned */        \
		E *d = dst;                                                                           \
		const E *a = va, *b = vb;                                                             \
		switch (op) {                                                                         \
		case 1: LOOP((T)((U)a[i] + (U)b[i])) break;                                           \
		case 2: LOOP((T)((U)a[i] * (U)b[i])) break;                                           \
		case 3: LOOP(b[i] < a[i] || b[i] != b[i] ? b[i] : a[i]) break;                        \
		case 4: LOOP(b[i] > a[i] || b[i] != b[i] ? b[i] : a[i]) break;                        \
		}                                                                                     \
	}

/* bfloat16 by shifts: round to nearest even, quiet NaNs, as in kind.go. */
static inline float wide(uint16_t h)
{
	union { uint32_t u; float f; } x = {.u = (uint32_t)h << 16};
	return x.f;
}

static inline uint16_t narrow(float f)
{
	union { float f; uint32_t u; } x = {.f = f};
	uint32_t nan = x.u >> 16 | 0x40, num = (x.u + 0x7fff + (x.u >> 16 & 1)) >> 16;
	return (uint16_t)((x.u & 0x7fffffff) > 0x7f800000 ? nan : num);
}

#define BF16_BODY                                                                             \
	{                                                                                         \
		typedef uint16_t __attribute__((aligned(1), may_alias)) E;                            \
		E *d = dst;                                                                           \
		const E *a = va, *b = vb;                                                             \
		switch (op) {                                                                         \
		case 1: LOOP(narrow(wide(a[i]) + wide(b[i]))) break;                                  \
		case 2: LOOP(narrow(wide(a[i]) * wide(b[i]))) break;                                  \
		case 3: LOOP(narrow(wide(b[i]) < wide(a[i]) || wide(b[i]) != wide(b[i]) ? wide(b[i]) : wide(a[i]))) break; \
		case 4: LOOP(narrow(wide(b[i]) > wide(a[i]) || wide(b[i]) != wide(b[i]) ? wide(b[i]) : wide(a[i]))) break; \
		}                                                                                     \
	}

#define ALL(name, attr)                                                                       \
	attr static int name(void *dst, const void *va, const void *vb, size_t n, int kind, int op) \
	{                                                                                         \
		switch (kind) {                                                                       \
		case 1: BODY(int8_t, uint8_t) return 1;                                               \
		case 2: BODY(int16_t, uint32_t) return 1;                                             \
		case 3: BODY(int32_t, uint32_t) return 1;                                             \
		case 4: BODY(int64_t, uint64_t) return 1;                                             \
		case 5: BODY(uint8_t, uint8_t) return 1;                                              \
		case 6: BODY(uint16_t, uint32_t) return 1;                                            \
		case 7: BODY(uint32_t, uint32_t) return 1;                                            \
		case 8: BODY(uint64_t, uint64_t) return 1;                                            \
		case 10: BF16_BODY return 1;                                                          \
		case 11: BODY(float, float) return 1;                                                 \
		case 12: BODY(double, double) return 1;                                               \
		}                                                                                     \
		return 0;                                                                             \
	}

ALL(fold_plain, )
#if defined(__x86_64__)
ALL(fold_avx2, __attribute__((target("avx2"))))
#endif

int ms_fold(void *dst, const void *a, const void *b, size_t n, int kind, int op)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		return fold_avx2(dst, a, b, n, kind, op);
#endif
	return fold_plain(dst, a, b, n, kind, op);
}
