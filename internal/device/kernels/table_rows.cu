// Rows of tables: gathering by number, selection by mask, partitioning by hash, conversion of bitmaps, comparisons, and
// columns of random numbers.

namespace {

constexpr int TILE = 4096; // rows of a block at a time
constexpr int EACH = TILE / THREADS;
constexpr int MAX_PARTS = 512;

template <typename T>
__device__ void gather(const T *from, const u8 *valid, const u32 *rows, u64 n, T *to, u8 *to_valid) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u32 r = rows[i];
		bool none = r == NO_ROW;
		to[i] = none ? (T)0 : from[r];
		if (to_valid)
			to_valid[i] = !none && (!valid || valid[r]);
	}
}

__device__ __forceinline__ u32 part_of(const keys &k, u64 row, u32 parts) {
	return (u32)((hash_at(k, row) >> 32) * parts >> 32);
}

// A block moves one column of its tile to the partitions: through shared memory, so that neighbors of a partition are
// written together. at has the place of each of the thread's rows in the tile ordered by partition, to the row of the
// output for each place.
template <typename T>
__device__ __forceinline__ void scatter(const T *from, T *to, u64 base, int rows, const u16 *at, const u16 *part, const u64 *shift, u64 *stage) {
	T *s = (T *)stage;
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		int r = i * THREADS + threadIdx.x;
		if (r < rows)
			s[at[i]] = from[base + r];
	}
	__syncthreads();
	for (int j = threadIdx.x; j < rows; j += THREADS)
		to[shift[part[j]] + j] = s[j];
	__syncthreads();
}

// random_at returns the number of row i: 64 bits, uniform.
__device__ __forceinline__ u64 random_at(u64 seed, u64 i) { return mix(mix(seed ^ 0x9e3779b97f4a7c15ull) + i * 0x9e3779b97f4a7c15ull); }

template <typename T> __device__ __forceinline__ bool compare(T a, T b, u32 op) {
	switch (op) {
	case 0: return a == b;
	case 1: return a != b;
	case 2: return a < b;
	case 3: return a <= b;
	case 4: return a > b;
	}
	return a >= b;
}

} // namespace

KERNEL rows_gather_1(const u8 *from, const u8 *valid, const u32 *rows, u64 n, u8 *to, u8 *to_valid) { gather(from, valid, rows, n, to, to_valid); }
KERNEL rows_gather_2(const u16 *from, const u8 *valid, const u32 *rows, u64 n, u16 *to, u8 *to_valid) { gather(from, valid, rows, n, to, to_valid); }
KERNEL rows_gather_4(const u32 *from, const u8 *valid, const u32 *rows, u64 n, u32 *to, u8 *to_valid) { gather(from, valid, rows, n, to, to_valid); }
KERNEL rows_gather_8(const u64 *from, const u8 *valid, const u32 *rows, u64 n, u64 *to, u8 *to_valid) { gather(from, valid, rows, n, to, to_valid); }

// rows_unpack sets a byte for each bit, rows_pack the opposite. Bits beyond the last row are 0.
KERNEL rows_unpack(const u8 *bits, u64 n, u8 *bytes) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		bytes[i] = bits[i >> 3] >> (i & 7) & 1;
}
KERNEL rows_pack(const u8 *bytes, u64 n, u8 *bits) {
	u64 last = (n + 7) / 8;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < last; i += (u64)gridDim.x * THREADS) {
		u32 b = 0;
		for (u64 j = i * 8; j < n && j < i * 8 + 8; j++)
			b |= (u32)(bytes[j] != 0) << (j & 7);
		bits[i] = (u8)b;
	}
}

// rows_compare sets the mask of rows whose value compares with a constant, and with both those of the mask before. A
// null does not compare. The constant is an integer of 64 bits, signed unless the column is unsigned, or a double. NaN
// is equal to itself and above all numbers.
KERNEL rows_compare(column c, u64 n, u32 op, u64 constant, u32 both, u8 *mask) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		bool yes = valid_at(c, i) && (!both || mask[i]);
		if (yes) {
			if (c.kind == F32 || c.kind == F64) {
				i64 b = (i64)float_word(__longlong_as_double((i64)constant));
				yes = compare<i64>(ordered_at(c, i), b ^ ((b >> 63) & 0x7fffffffffffffffll), op);
			} else if (c.kind == U64)
				yes = compare<u64>(word_at(c, i), constant, op);
			else
				yes = compare<i64>((i64)word_at(c, i), (i64)constant, op);
		}
		mask[i] = yes;
	}
}

// rows_count sets the number of rows of the mask in each tile; rows_scan, which is run by one block, the number of
// those in all tiles before, and after the last one that of all; rows_select their numbers, in order.
KERNEL rows_count(const u8 *mask, u64 n, u64 *counts) {
	__shared__ u32 total;
	u64 tiles = (n + TILE - 1) / TILE;
	for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
		if (threadIdx.x == 0)
			total = 0;
		__syncthreads();
		u32 c = 0;
		for (int i = 0; i < EACH; i++) {
			u64 r = t * TILE + i * THREADS + threadIdx.x;
			c += r < n && mask[r];
		}
		for (int d = 16; d > 0; d /= 2)
			c += __shfl_down_sync(~0u, c, d);
		if ((threadIdx.x & 31) == 0)
			atomicAdd(&total, c);
		__syncthreads();
		if (threadIdx.x == 0)
			counts[t] = total;
		__syncthreads();
	}
}

KERNEL rows_scan(u64 *counts, u64 tiles) {
	__shared__ u64 warps[THREADS / 32], next;
	u64 before = 0;
	for (u64 t = 0; t < tiles; t += THREADS) {
		u64 i = t + threadIdx.x, v = i < tiles ? counts[i] : 0;
		u64 sum = inclusive_sum(v, warps);
		if (i < tiles)
			counts[i] = before + sum - v;
		if (threadIdx.x == THREADS - 1)
			next = before + sum;
		__syncthreads();
		before = next;
	}
	if (threadIdx.x == 0)
		counts[tiles] = before;
}

KERNEL rows_select(const u8 *mask, u64 n, const u64 *starts, u32 *rows) {
	__shared__ u32 warps[THREADS / 32], next;
	u64 tiles = (n + TILE - 1) / TILE;
	for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
		u64 at = starts[t];
		for (int i = 0; i < EACH; i++) {
			u64 r = t * TILE + i * THREADS + threadIdx.x;
			u32 yes = r < n && mask[r] ? 1 : 0;
			u32 sum = inclusive_sum(yes, warps);
			if (yes)
				rows[at + sum - 1] = (u32)r;
			if (threadIdx.x == THREADS - 1)
				next = sum;
			__syncthreads();
			at += next;
		}
	}
}

// rows_part_count adds the numbers of rows of each partition to counts.
KERNEL rows_part_count(keys k, u64 n, u32 parts, u64 *counts) {
	__shared__ u32 own[MAX_PARTS];
	for (u32 p = threadIdx.x; p < parts; p += THREADS)
		own[p] = 0;
	__syncthreads();
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		atomicAdd(&own[part_of(k, i, parts)], 1);
	__syncthreads();
	for (u32 p = threadIdx.x; p < parts; p += THREADS)
		if (own[p])
			atomicAdd(&counts[p], (u64)own[p]);
}

constexpr int MAX_MOVES = 32;
struct moves {
	u32 count, spare;
	u64 from[MAX_MOVES], to[MAX_MOVES];
	u8 width[MAX_MOVES];
};

// rows_part_scatter moves rows to their partitions, in no particular order. next has the first row of each partition,
// and is advanced.
KERNEL rows_part_scatter(keys k, u64 n, u32 parts, u64 *next, moves m) {
	__shared__ u64 stage[TILE];
	__shared__ u16 part[TILE];
	__shared__ u64 shift[MAX_PARTS];
	__shared__ u32 count[MAX_PARTS], warps[THREADS / 32];
	u64 tiles = (n + TILE - 1) / TILE;
	for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
		u64 base = t * TILE;
		int rows = n - base < TILE ? (int)(n - base) : TILE;
		for (u32 p = threadIdx.x; p < MAX_PARTS; p += THREADS)
			count[p] = 0;
		__syncthreads();
		u16 at[EACH], own[EACH];
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int r = i * THREADS + threadIdx.x;
			if (r < rows) {
				own[i] = (u16)part_of(k, base + r, parts);
				at[i] = (u16)atomicAdd(&count[own[i]], 1);
			}
		}
		__syncthreads();
		// Each thread has two partitions: their first place in the tile and row in the output.
		u32 p = threadIdx.x * 2, a = count[p], b = count[p + 1];
		u32 start = inclusive_sum(a + b, warps) - a - b;
		__syncthreads();
		if (a)
			shift[p] = atomicAdd(&next[p], (u64)a) - start;
		if (b)
			shift[p + 1] = atomicAdd(&next[p + 1], (u64)b) - (start + a);
		count[p] = start;
		count[p + 1] = start + a;
		__syncthreads();
#pragma unroll
		for (int i = 0; i < EACH; i++) {
			int r = i * THREADS + threadIdx.x;
			if (r < rows) {
				at[i] += (u16)count[own[i]];
				part[at[i]] = own[i];
			}
		}
		__syncthreads();
		for (u32 c = 0; c < m.count; c++)
			switch (m.width[c]) {
			case 1: scatter((const u8 *)m.from[c], (u8 *)m.to[c], base, rows, at, part, shift, stage); break;
			case 2: scatter((const u16 *)m.from[c], (u16 *)m.to[c], base, rows, at, part, shift, stage); break;
			case 4: scatter((const u32 *)m.from[c], (u32 *)m.to[c], base, rows, at, part, shift, stage); break;
			default: scatter((const u64 *)m.from[c], (u64 *)m.to[c], base, rows, at, part, shift, stage);
			}
		__syncthreads();
	}
}

// rows_random sets a column to low plus a number below range, uniform; a range of 0 is all 64 bits. If spread is set,
// the number is hashed, which gives different values for different numbers, and if counted the number is that of the
// row. A double is a number below 1 times range.
KERNEL rows_random(u64 data, u32 kind, u32 spread, u32 counted, u64 first, u64 n, u64 seed, i64 low, u64 range) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u64 v = random_at(seed, first + i);
		if (kind == F64) {
			((double *)data)[i] = (double)low + (double)(v >> 11) * (1.0 / 9007199254740992.0) * (double)range;
			continue;
		}
		if (counted)
			v = first + i;
		else if (range)
			v = __umul64hi(v, range);
		v += (u64)low;
		store_word(data, kind, i, spread ? mix(v) : v);
	}
}

// rows_sum adds a number that depends on the rows, but not on their order, to sum.
KERNEL rows_sum(keys k, u64 n, u64 *sum) {
	u64 s = 0;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		s += hash_at(k, i);
	for (int d = 16; d > 0; d /= 2)
		s += __shfl_down_sync(~0u, s, d);
	if ((threadIdx.x & 31) == 0)
		atomicAdd(sum, s);
}
