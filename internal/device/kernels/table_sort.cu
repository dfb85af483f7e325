// Stable radix sort of 64-bit words with a 32-bit number each, least digit first: one pass over the rows for each digit
// of eight bits. A block ranks its tile in shared memory, so that words of a digit are written together, and learns
// where those of earlier tiles end by looking at their published counts.

namespace {

constexpr int DIGITS = 256;
constexpr int PER = 12;
constexpr int SORT_TILE = THREADS * PER;
constexpr int WARPS = THREADS / 32;
constexpr u32 COUNTED = 1u << 30, SUMMED = 2u << 30, VALUE = (1u << 30) - 1;

} // namespace

// sort_words sets the words by which rows are sorted by a column, descending if down; those of nulls are 0. numbers are
// the rows in their order so far, null for 0 to n-1.
KERNEL sort_words(column c, const u32 *numbers, u64 n, u32 down, u64 *words) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u64 row = numbers ? numbers[i] : i;
		u64 w = 0;
		if (valid_at(c, row)) {
			w = (u64)ordered_at(c, row) ^ 1ull << 63;
			if (down)
				w = ~w;
		}
		words[i] = w;
	}
}

// sort_nulls sets words by which nulls are sorted last, or first.
KERNEL sort_nulls(column c, const u32 *numbers, u64 n, u32 first, u64 *words) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		words[i] = valid_at(c, numbers ? numbers[i] : i) ? first : !first;
}

KERNEL sort_number(u64 n, u32 *numbers) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS)
		numbers[i] = (u32)i;
}

// sort_count adds the counts of all eight digits to counts.
KERNEL sort_count(const u64 *words, u64 n, u64 *counts) {
	__shared__ u32 own[8 * DIGITS];
	for (int i = threadIdx.x; i < 8 * DIGITS; i += THREADS)
		own[i] = 0;
	__syncthreads();
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u64 w = words[i];
#pragma unroll
		for (int d = 0; d < 8; d++)
			atomicAdd(&own[d * DIGITS + (u32)(w >> 8 * d & 255)], 1);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < 8 * DIGITS; i += THREADS)
		if (own[i])
			atomicAdd(&counts[i], (u64)own[i]);
}

// sort_pass sorts by one digit. starts has the first place of each digit; tiles is the number of the next tile, and
// status has a word for each tile and digit: 0, or its count, or that of all tiles to it.
KERNEL sort_pass(const u64 *words, const u32 *numbers, u64 n, u32 shift, const u64 *starts, u32 *tiles, u32 *status, u64 *to_words, u32 *to_numbers) {
	__shared__ u64 stage[SORT_TILE];
	__shared__ u32 count[WARPS][DIGITS];
	__shared__ u64 move[DIGITS];
	__shared__ u32 sums[WARPS], tile;
	int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	if (threadIdx.x == 0)
		tile = atomicAdd(tiles, 1);
	for (int i = threadIdx.x; i < WARPS * DIGITS; i += THREADS)
		(&count[0][0])[i] = 0;
	__syncthreads();
	u64 base = (u64)tile * SORT_TILE;
	int rows = n - base < SORT_TILE ? (int)(n - base) : SORT_TILE;
	// A warp has neighboring rows, 32 at a time, and ranks them in this order.
	u64 w[PER];
	u16 rank[PER];
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int r = (warp * PER + i) * 32 + lane;
		w[i] = r < rows ? words[base + r] : 0;
	}
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int r = (warp * PER + i) * 32 + lane;
		u32 digit = r < rows ? (u32)(w[i] >> shift & 255) : 256u;
		u32 mates = __match_any_sync(~0u, digit);
		u32 before = __popc(mates & ((1u << lane) - 1));
		u32 old = 0;
		if (r < rows && before == 0) {
			old = count[warp][digit];
			count[warp][digit] = old + __popc(mates);
		}
		old = __shfl_sync(~0u, old, __ffs(mates) - 1);
		rank[i] = (u16)(old + before);
		__syncwarp();
	}
	__syncthreads();
	// Each thread has a digit: its places in the tile, by warp, and in the output.
	u32 digit = threadIdx.x, total = 0;
	for (int v = 0; v < WARPS; v++) {
		u32 c = count[v][digit];
		count[v][digit] = total;
		total += c;
	}
	volatile u32 *mine = status + (u64)tile * DIGITS + digit;
	*mine = (tile == 0 ? SUMMED : COUNTED) | total;
	u32 place = inclusive_sum(total, sums) - total;
	u32 earlier = 0;
	for (i64 t = (i64)tile - 1; t >= 0;) {
		u32 v = *(volatile u32 *)(status + (u64)t * DIGITS + digit);
		if (v == 0)
			continue;
		earlier += v & VALUE;
		if (v & SUMMED)
			break;
		t--;
	}
	if (tile > 0)
		*mine = SUMMED | (earlier + total);
	for (int v = 0; v < WARPS; v++)
		count[v][digit] += place;
	move[digit] = starts[digit] + earlier - place;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int r = (warp * PER + i) * 32 + lane;
		if (r < rows) {
			rank[i] += (u16)count[warp][w[i] >> shift & 255];
			stage[rank[i]] = w[i];
		}
	}
	__syncthreads();
	u64 to[PER];
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int p = i * THREADS + threadIdx.x;
		if (p < rows) {
			u64 word = stage[p];
			to[i] = move[word >> shift & 255] + p;
			to_words[to[i]] = word;
		}
	}
	__syncthreads();
	u32 *numbers_stage = (u32 *)stage;
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int r = (warp * PER + i) * 32 + lane;
		if (r < rows)
			numbers_stage[rank[i]] = numbers ? numbers[base + r] : (u32)(base + r);
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < PER; i++) {
		int p = i * THREADS + threadIdx.x;
		if (p < rows)
			to_numbers[to[i]] = numbers_stage[p];
	}
}
