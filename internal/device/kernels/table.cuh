// Types and functions of the table kernels (table_*.cu), put before each source. Their structures are those of
// frame/internal/gpu/layout.go.
//
// A column has values of one to eight bytes and, if it may have nulls, a byte for each row that is not 0 for a value.
// Rows are numbered by 32 bits.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define KERNEL extern "C" __global__ void __launch_bounds__(256)

namespace {

constexpr int THREADS = 256;
constexpr int MAX_KEYS = 8;
constexpr u64 EMPTY = ~0ull; // a free slot of a hash table
constexpr u32 NO_ROW = ~0u;

enum kind : u32 { I8, I16, I32, I64, U8, U16, U32, U64, F32, F64 };

struct column {
	u64 data, valid; // valid: 0 without nulls
	u32 kind, spare;
};

// keys are the key columns of rows. If packed, they are parts of one word: column i has width[i] bits from shift[i],
// and a null sets the bit null_bit[i] (255: none) instead.
struct keys {
	u32 count, packed;
	column c[MAX_KEYS];
	u8 shift[MAX_KEYS], width[MAX_KEYS], null_bit[MAX_KEYS];
};

__device__ __forceinline__ bool valid_at(const column &c, u64 row) { return !c.valid || ((const u8 *)c.valid)[row]; }

// Words of floats are equal if the floats are equal as keys.
__device__ __forceinline__ u64 float_word(double v) {
	if (v != v)
		return 0x7ff8000000000000ull;
	return v == 0 ? 0 : (u64)__double_as_longlong(v);
}

__device__ __forceinline__ u64 word_at(const column &c, u64 row) {
	switch (c.kind) {
	case I8: return (u64)(i64)((const signed char *)c.data)[row];
	case I16: return (u64)(i64)((const short *)c.data)[row];
	case I32: return (u64)(i64)((const int *)c.data)[row];
	case U8: return ((const u8 *)c.data)[row];
	case U16: return ((const u16 *)c.data)[row];
	case U32: return ((const u32 *)c.data)[row];
	case F32: {
		float v = ((const float *)c.data)[row];
		if (v != v)
			return 0x7fc00000u;
		return v == 0 ? 0 : __float_as_uint(v);
	}
	case F64: return float_word(((const double *)c.data)[row]);
	}
	return ((const u64 *)c.data)[row];
}

__device__ __forceinline__ double double_at(const column &c, u64 row) {
	switch (c.kind) {
	case F32: return (double)((const float *)c.data)[row];
	case F64: return ((const double *)c.data)[row];
	case U64: return (double)((const u64 *)c.data)[row];
	}
	return (double)(i64)word_at(c, row);
}

// ordered_at returns a value as a signed integer with the same order: -0 is 0, NaN is above all.
__device__ __forceinline__ i64 ordered_at(const column &c, u64 row) {
	switch (c.kind) {
	case U64: return (i64)(((const u64 *)c.data)[row] ^ 1ull << 63);
	case F32: case F64: {
		i64 b = (i64)float_word(double_at(c, row));
		return b ^ ((b >> 63) & 0x7fffffffffffffffll);
	}
	}
	return (i64)word_at(c, row);
}

// store_ordered stores a result of ordered_at as a value again.
__device__ __forceinline__ void store_ordered(u64 data, u32 kind, u64 row, i64 v) {
	switch (kind) {
	case I8: case U8: ((u8 *)data)[row] = (u8)v; break;
	case I16: case U16: ((u16 *)data)[row] = (u16)v; break;
	case I32: case U32: ((u32 *)data)[row] = (u32)v; break;
	case U64: ((u64 *)data)[row] = (u64)v ^ 1ull << 63; break;
	case F32: case F64: {
		double d = __longlong_as_double(v ^ ((v >> 63) & 0x7fffffffffffffffll));
		if (kind == F32)
			((float *)data)[row] = (float)d;
		else
			((double *)data)[row] = d;
		break;
	}
	default: ((i64 *)data)[row] = v;
	}
}

// store_word stores a result of word_at as a value again.
__device__ __forceinline__ void store_word(u64 data, u32 kind, u64 row, u64 v) {
	switch (kind) {
	case I8: case U8: ((u8 *)data)[row] = (u8)v; break;
	case I16: case U16: ((u16 *)data)[row] = (u16)v; break;
	case I32: case U32: case F32: ((u32 *)data)[row] = (u32)v; break;
	default: ((u64 *)data)[row] = v;
	}
}

__device__ __forceinline__ u64 mix(u64 h) {
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdull;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ull;
	return h ^ h >> 33;
}

__device__ __forceinline__ bool has_null(const keys &k, u64 row) {
	for (u32 i = 0; i < k.count; i++)
		if (!valid_at(k.c[i], row))
			return true;
	return false;
}

__device__ __forceinline__ u64 packed_at(const keys &k, u64 row) {
	u64 w = 0;
	for (u32 i = 0; i < k.count; i++) {
		const column &c = k.c[i];
		if (!valid_at(c, row)) {
			w |= 1ull << k.null_bit[i];
			continue;
		}
		u64 v = word_at(c, row);
		if (k.width[i] < 64)
			v &= (1ull << k.width[i]) - 1;
		w |= v << k.shift[i];
	}
	return w;
}

// hash_at returns the same hash for keys that are equal, also if one of the two columns cannot have nulls.
__device__ __forceinline__ u64 hash_at(const keys &k, u64 row) {
	u64 h = 0;
	for (u32 i = 0; i < k.count; i++)
		h = mix(h * 31 + (valid_at(k.c[i], row) ? word_at(k.c[i], row) : 0x9e3779b97f4a7c15ull));
	return h;
}

// same reports whether two rows have the same keys; a null is the same as another.
__device__ __forceinline__ bool same(const keys &a, u64 row, const keys &b, u64 other) {
	for (u32 i = 0; i < a.count; i++) {
		bool v = valid_at(a.c[i], row);
		if (v != valid_at(b.c[i], other) || (v && word_at(a.c[i], row) != word_at(b.c[i], other)))
			return false;
	}
	return true;
}

// inclusive_sum returns the sum of v of the threads of the block up to this one. warps has room for a number of each
// warp, which may be used again after a __syncthreads.
template <typename T> __device__ __forceinline__ T inclusive_sum(T v, T *warps) {
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	for (int d = 1; d < 32; d *= 2) {
		T o = __shfl_up_sync(~0u, v, d);
		if (lane >= d)
			v += o;
	}
	if (lane == 31)
		warps[warp] = v;
	__syncthreads();
	for (int w = 0; w < warp; w++)
		v += warps[w];
	return v;
}

} // namespace
