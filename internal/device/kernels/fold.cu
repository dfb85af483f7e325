// Reductions of package collective on a device: target = source 0 op source 1 op ..., element by element, from the
// left, each step rounded to the type of the elements. The rules are those of internal/collective/fold.go, so that
// results have the same bits on host and device (except for the payload of a NaN that an operation creates).
//
// Compiled once for each element type, selected by KIND_... Sources and targets may be memory of other processes; a
// target may be a source, because one thread reads an element from all sources before it writes it.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static const int MAX = 64;

// fold_call is the same as foldCall in internal/collective/device_fold.go.
struct fold_call {
	u64 count;            // elements
	u32 sources, targets; // number of sources
	u32 ranks;            // divisor of avg
	u32 spare;
	u64 source[MAX];
	u64 target[MAX];
	u64 scale[MAX]; // premulsum: the bits of the factor of each source
};

// A kind has bits, the integer that holds an element in memory, and value, the type of computations.
#if defined(KIND_int8)
typedef u8 bits; typedef signed char value; typedef long long wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_int16)
typedef u16 bits; typedef short value; typedef long long wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_int32)
typedef u32 bits; typedef int value; typedef long long wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_int64)
typedef u64 bits; typedef long long value; typedef long long wide; typedef u64 carrier;
#define INTEGER
#elif defined(KIND_uint8)
typedef u8 bits; typedef u8 value; typedef u64 wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_uint16)
typedef u16 bits; typedef u16 value; typedef u64 wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_uint32)
typedef u32 bits; typedef u32 value; typedef u64 wide; typedef u32 carrier;
#define INTEGER
#elif defined(KIND_uint64)
typedef u64 bits; typedef u64 value; typedef u64 wide; typedef u64 carrier;
#define INTEGER
#elif defined(KIND_float16)
typedef u16 bits; typedef float value;
#elif defined(KIND_bfloat16)
typedef u16 bits; typedef float value;
#elif defined(KIND_float32)
typedef u32 bits; typedef float value;
#elif defined(KIND_float64)
typedef u64 bits; typedef double value;
#else
#error "define KIND_int8 ... KIND_float64"
#endif

#if defined(INTEGER)
__device__ __forceinline__ value load(bits b) { return (value)b; }
__device__ __forceinline__ bits store(value v) { return (bits)v; }
#elif defined(KIND_float32)
__device__ __forceinline__ value load(bits b) { return __uint_as_float(b); }
__device__ __forceinline__ bits store(value v) { return __float_as_uint(v); }
#elif defined(KIND_float64)
__device__ __forceinline__ value load(bits b) { return __longlong_as_double((long long)b); }
__device__ __forceinline__ bits store(value v) { return (u64)__double_as_longlong(v); }
#elif defined(KIND_bfloat16)
__device__ __forceinline__ value load(bits b) { return __uint_as_float((u32)b << 16); }
__device__ __forceinline__ bits store(value v) {
	u32 b = __float_as_uint(v);
	if ((b & 0x7fffffff) > 0x7f800000)
		return (bits)(b >> 16 | 0x40);
	return (bits)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
#else // float16: hardware conversions, except that NaNs keep the same payload as in Go
__device__ __forceinline__ value load(bits b) {
	float f;
	asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(b));
	if ((b & 0x7fff) > 0x7c00)
		f = __uint_as_float((u32)(b & 0x8000) << 16 | 0x7f800000 | ((u32)(b & 0x3ff) | 0x200) << 13);
	return f;
}
__device__ __forceinline__ bits store(value v) {
	u16 h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
	u32 b = __float_as_uint(v);
	if ((b & 0x7fffffff) > 0x7f800000)
		h = (u16)((b >> 16 & 0x8000) | 0x7e00 | (b >> 13 & 0x3ff));
	return h;
}
#endif

// rounded returns the result of a step: half-precision values are rounded after each.
#if defined(KIND_float16) || defined(KIND_bfloat16)
__device__ __forceinline__ value rounded(value v) { return load(store(v)); }
#else
__device__ __forceinline__ value rounded(value v) { return v; }
#endif

#ifdef INTEGER // wraps around, which C++ defines for unsigned types only
__device__ __forceinline__ value plus(value a, value b) { return (value)((carrier)a + (carrier)b); }
__device__ __forceinline__ value times(value a, value b) { return (value)((carrier)a * (carrier)b); }
__device__ __forceinline__ value over(value a, u32 n) { return (value)((wide)a / (wide)n); }
#else
__device__ __forceinline__ value plus(value a, value b) { return a + b; }
__device__ __forceinline__ value times(value a, value b) { return a * b; }
__device__ __forceinline__ value over(value a, u32 n) { return a / (value)n; }
#endif

struct sum {
	__device__ static value first(value v, u64) { return v; }
	__device__ static value step(value a, value b, u64) { return rounded(plus(a, b)); }
	__device__ static value last(value v, u32) { return v; }
};
struct prod : sum {
	__device__ static value step(value a, value b, u64) { return rounded(times(a, b)); }
};
// The left of equal values, such as the two zeros; NaN if one of them is NaN.
struct min_ : sum {
	__device__ static value step(value a, value b, u64) { return b < a || b != b ? b : a; }
};
struct max_ : sum {
	__device__ static value step(value a, value b, u64) { return b > a || b != b ? b : a; }
};
struct avg : sum {
	__device__ static value last(value v, u32 n) { return n > 1 ? rounded(over(v, n)) : v; }
};
struct premulsum : sum {
	__device__ static value first(value v, u64 s) { return rounded(times(v, load((bits)s))); }
	__device__ static value step(value a, value b, u64 s) { return rounded(plus(a, first(b, s))); }
};

// Memory accesses: single elements, aligned or not, and sixteen bytes at once.
struct element {
	static const int width = 1;
	__device__ static void get(bits *e, u64 p, u64 i) { e[0] = ((const bits *)p)[i]; }
	__device__ static void put(const bits *e, u64 p, u64 i) { ((bits *)p)[i] = e[0]; }
};
struct anywhere {
	static const int width = 1;
	__device__ static void get(bits *e, u64 p, u64 i) {
		u64 v = 0;
		for (int k = 0; k < (int)sizeof(bits); k++)
			v |= (u64)((const u8 *)p)[i * sizeof(bits) + k] << 8 * k;
		e[0] = (bits)v;
	}
	__device__ static void put(const bits *e, u64 p, u64 i) {
		for (int k = 0; k < (int)sizeof(bits); k++)
			((u8 *)p)[i * sizeof(bits) + k] = (u8)((u64)e[0] >> 8 * k);
	}
};
struct vector {
	static const int width = 16 / sizeof(bits);
	union pack {
		uint4 v;
		bits e[width];
	};
	__device__ static void get(bits *e, u64 p, u64 i) {
		pack k;
		k.v = ((const uint4 *)p)[i];
#pragma unroll
		for (int j = 0; j < width; j++)
			e[j] = k.e[j];
	}
	__device__ static void put(const bits *e, u64 p, u64 i) {
		pack k;
#pragma unroll
		for (int j = 0; j < width; j++)
			k.e[j] = e[j];
		((uint4 *)p)[i] = k.v;
	}
};

// sweep folds `units` units of memory, each of M::width elements: the first `head` from the beginning, the others from
// `gap` units later. All addresses are offset by `shift` bytes. Loops are not unrolled: they are limited by memory
// bandwidth, and the driver compiles this code at its first use.
template <class O, class M> __device__ __forceinline__ void sweep(const fold_call &c, u64 shift, u64 units, u64 head, u64 gap) {
	const u64 stride = (u64)gridDim.x * blockDim.x;
#pragma unroll 1
	for (u64 n = (u64)blockIdx.x * blockDim.x + threadIdx.x; n < units; n += stride) {
		const u64 i = n < head ? n : n + gap;
		bits e[M::width];
		value acc[M::width];
		M::get(e, c.source[0] + shift, i);
#pragma unroll
		for (int j = 0; j < M::width; j++)
			acc[j] = O::first(load(e[j]), c.scale[0]);
#pragma unroll 1
		for (u32 s = 1; s < c.sources; s++) {
			M::get(e, c.source[s] + shift, i);
#pragma unroll
			for (int j = 0; j < M::width; j++)
				acc[j] = O::step(acc[j], load(e[j]), c.scale[s]);
		}
#pragma unroll
		for (int j = 0; j < M::width; j++)
			e[j] = store(O::last(acc[j], c.ranks));
#pragma unroll 1
		for (u32 t = 0; t < c.targets; t++)
			M::put(e, c.target[t] + shift, i);
	}
}

// fold selects the widest access that all addresses allow: sixteen bytes if their alignment is the same, with single
// elements before and after; single elements; or bytes.
template <class O> __device__ __forceinline__ void fold(const fold_call &c) {
	const u64 at = c.source[0] & 15;
	u64 differ = 0;
#pragma unroll 1
	for (u32 s = 0; s < c.sources; s++)
		differ |= (c.source[s] & 15) ^ at;
#pragma unroll 1
	for (u32 t = 0; t < c.targets; t++)
		differ |= (c.target[t] & 15) ^ at;
	if ((differ | at) & (sizeof(bits) - 1)) {
		sweep<O, anywhere>(c, 0, c.count, 0, 0);
		return;
	}
	u64 head = c.count, packs = 0;
	if (!differ) {
		head = (16 - at) % 16 / sizeof(bits);
		if (head > c.count)
			head = c.count;
		packs = (c.count - head) / vector::width;
		sweep<O, vector>(c, head * sizeof(bits), packs, packs, 0);
	}
	sweep<O, element>(c, 0, c.count - packs * vector::width, head, packs * vector::width);
}

#define KERNEL(name, op) \
	extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ fold_call c) { fold<op>(c); }

KERNEL(fold_sum, sum)
KERNEL(fold_prod, prod)
KERNEL(fold_min, min_)
KERNEL(fold_max, max_)
KERNEL(fold_avg, avg)
KERNEL(fold_premulsum, premulsum)
