// Kernels of Lloyd's algorithm. kernel.h compiles each for several instruction sets; the best one is selected once, at
// run time, so that one binary runs on every machine.
#include "lloyd.h"

#include <stdlib.h>
#include <string.h>

// Rows of a block: 32 features of a block stay in the L2 cache between the two loops over it.
#define BLOCK 512

#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
#define WIDE __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512")))
#define MIDDLE __attribute__((target("avx2,fma")))
#endif

#define T double
#define TI int64_t
#define TARGET
#define VBYTES 16
#define KT 4
#define NAME _f64_plain
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#ifdef X86
#define TARGET MIDDLE
#define VBYTES 32
#define KT 4
#define NAME _f64_avx2
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#define TARGET WIDE
#define VBYTES 64
#define KT 8
#define NAME _f64_avx512
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#endif
#undef T
#undef TI

#define T float
#define TI int32_t
#define TARGET
#define VBYTES 16
#define KT 4
#define NAME _f32_plain
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#ifdef X86
#define TARGET MIDDLE
#define VBYTES 32
#define KT 4
#define NAME _f32_avx2
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#define TARGET WIDE
#define VBYTES 64
#define KT 8
#define NAME _f32_avx512
#include "kernel.h"
#undef NAME
#undef VBYTES
#undef KT
#undef TARGET
#endif
#undef T
#undef TI

// 0: baseline of the architecture, 1: AVX2, 2: AVX-512.
int ms_lloyd_level(void) {
#ifdef X86
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
		return 2;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return 1;
#endif
	return 0;
}

// Packs the centers of one tile, feature by feature, then half their squared norms. The last tile is padded with
// centers that are infinitely far away.
#define PACK(T)                                                                                   \
	static void pack_##T(const T *centers, const T *shift, int k, int d, int kt, T *packed) { \
		for (int tile = 0; tile * kt < k; tile++, packed += (d + 1) * kt)                 \
			for (int t = 0; t < kt; t++) {                                            \
				int c = tile * kt + t;                                            \
				double norm = 0;                                                  \
				for (int j = 0; j < d; j++) {                                     \
					T e = c < k ? centers[(long)c * d + j] - shift[j] : 0;    \
					packed[j * kt + t] = e;                                   \
					norm += (double)e * e;                                    \
				}                                                                 \
				packed[d * kt + t] = c < k ? (T)(norm / 2) : (T)(1.0 / 0.0);      \
			}                                                                         \
	}
PACK(double)
PACK(float)

#define CHOOSE(level, kind, call) \
	((level) == 2 ? kind##_avx512 call : (level) == 1 ? kind##_avx2 call : kind##_plain call)
#ifndef X86
#undef CHOOSE
#define CHOOSE(level, kind, call) kind##_plain call
#endif

#define API(T, X)                                                                                                                       \
	long ms_lloyd_pass_##X(int level, const T *const *columns, long n, int d, int k, const T *centers, const T *shift,              \
			       int32_t *labels, double *sums, int64_t *counts) {                                                        \
		int kt = level == 2 ? 8 : 4, tiles = (k + kt - 1) / kt;                                                                 \
		T *packed = malloc(sizeof(T) * ((size_t)tiles * kt * (d + 1) + (size_t)d * 2 * 64 / sizeof(T)));                         \
		const T **x = malloc(sizeof(T *) * 2 * (size_t)d);                                                                      \
		long changed = -1;                                                                                                      \
		if (packed && x) {                                                                                                      \
			pack_##T(centers, shift, k, d, kt, packed);                                                                     \
			T *tail = packed + (size_t)tiles * kt * (d + 1);                                                                \
			changed = CHOOSE(level, pass_##X, (columns, n, d, k, tiles, shift, packed, labels, sums, counts, tail, x));     \
		}                                                                                                                       \
		free(packed);                                                                                                           \
		free(x);                                                                                                                \
		return changed;                                                                                                         \
	}                                                                                                                               \
	double ms_lloyd_inertia_##X(int level, const T *const *columns, long n, int d, int k, const T *byfeature, const int32_t *labels) { \
		double sum = 0;                                                                                                         \
		const T **x = malloc(sizeof(T *) * (size_t)d);                                                                          \
		if (!x)                                                                                                                 \
			return -1;                                                                                                      \
		for (long i = 0; i < n; i += BLOCK) {                                                                                   \
			long m = n - i < BLOCK ? n - i : BLOCK;                                                                         \
			for (int j = 0; j < d; j++)                                                                                     \
				x[j] = columns[j] + i;                                                                                  \
			sum += CHOOSE(level, inertia_##X, (x, m, d, k, byfeature, labels + i));                                         \
		}                                                                                                                       \
		free(x);                                                                                                                \
		return sum;                                                                                                             \
	}                                                                                                                               \
	int ms_lloyd_distances_##X(int level, const T *const *columns, long n, int d, const T *c, double *out) {                        \
		const T **x = malloc(sizeof(T *) * (size_t)d);                                                                          \
		if (!x)                                                                                                                 \
			return -1;                                                                                                      \
		for (long i = 0; i < n; i += BLOCK) {                                                                                   \
			long m = n - i < BLOCK ? n - i : BLOCK;                                                                         \
			for (int j = 0; j < d; j++)                                                                                     \
				x[j] = columns[j] + i;                                                                                  \
			CHOOSE(level, distances_##X, (x, m, d, c, out + i));                                                            \
		}                                                                                                                       \
		free(x);                                                                                                                \
		return 0;                                                                                                               \
	}
API(double, f64)
API(float, f32)
