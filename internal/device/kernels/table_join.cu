// Hash join. A slot of the table is a key, the number of rows with it, and where their numbers are: the number itself
// if there is one, else the end of a range of the list of rows. A packed key is a word; other keys are represented by
// the upper half of their hash and the number of one row that has them. Null keys equal nothing and are left out.

namespace {

struct slot {
	u64 key;
	u32 count, rows;
};

struct join_call {
	keys build, probe;
	u64 build_rows, mask;
	u64 slots;   // mask+2: the last one is for a packed key that is EMPTY
	u64 slot_of; // the slot of each build row, NO_ROW for those with a null
	u64 list;    // numbers of rows
	u64 used;    // of the list
	u64 hit;     // a byte for each slot that has matched, 0: not needed
};

__device__ __forceinline__ u64 mark_of(u64 hash, u64 row) {
	u64 mark = (hash & ~0xffffffffull) | row;
	return mark >> 32 == NO_ROW ? mark ^ 1ull << 63 : mark;
}

// take returns the slot of the key of a build row.
__device__ __forceinline__ u64 take(const join_call &j, u64 row) {
	slot *slots = (slot *)j.slots;
	u64 key, at;
	if (j.build.packed) {
		key = packed_at(j.build, row);
		if (key == EMPTY)
			return j.mask + 1;
		at = mix(key);
	} else {
		at = hash_at(j.build, row);
		key = mark_of(at, row);
	}
	for (;; at++) {
		u64 *p = &slots[at & j.mask].key, old = *(volatile u64 *)p;
		if (old == EMPTY) {
			old = atomicCAS(p, EMPTY, key);
			if (old == EMPTY)
				return at & j.mask;
		}
		if (j.build.packed ? old == key : old >> 32 == key >> 32 && same(j.build, (u32)old, j.build, row))
			return at & j.mask;
	}
}

// find returns the number of the slot of the key of a probe row and its content; count is 0 if there is none.
__device__ __forceinline__ u64 find(const join_call &j, u64 row, slot *out) {
	const slot *slots = (const slot *)j.slots;
	u64 key, at;
	if (j.probe.packed) {
		key = packed_at(j.probe, row);
		at = key == EMPTY ? j.mask + 1 : mix(key);
		if (key == EMPTY) {
			*out = slots[at];
			return at;
		}
	} else {
		at = hash_at(j.probe, row);
		key = mark_of(at, 0);
	}
	for (;; at++) {
		uint4 v = *(const uint4 *)&slots[at & j.mask];
		u64 old = (u64)v.y << 32 | v.x;
		if (old == EMPTY) {
			*out = slot{EMPTY, 0, 0};
			return at & j.mask;
		}
		if (j.probe.packed ? old == key : old >> 32 == key >> 32 && same(j.build, (u32)old, j.probe, row)) {
			*out = slot{old, v.z, v.w};
			return at & j.mask;
		}
	}
}

} // namespace

// join_clear frees all slots.
KERNEL join_clear(join_call j) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < j.mask + 2; i += (u64)gridDim.x * THREADS)
		((slot *)j.slots)[i] = slot{EMPTY, 0, 0};
}

// join_insert takes a slot for each build row and counts them, join_ranges reserves the ranges of the list, and
// join_fill fills them.
KERNEL join_insert(join_call j) {
	slot *slots = (slot *)j.slots;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < j.build_rows; i += (u64)gridDim.x * THREADS) {
		u32 at = NO_ROW;
		if (!has_null(j.build, i)) {
			at = (u32)take(j, i);
			atomicAdd(&slots[at].count, 1);
		}
		((u32 *)j.slot_of)[i] = at;
	}
}

KERNEL join_ranges(join_call j) {
	slot *slots = (slot *)j.slots;
	for (u64 first = (u64)blockIdx.x * THREADS; first < j.mask + 2; first += (u64)gridDim.x * THREADS) {
		u64 i = first + threadIdx.x;
		u32 n = i < j.mask + 2 ? slots[i].count : 0;
		if (n < 2)
			n = 0;
		// One reservation for a warp: most slots have none.
		if (!__any_sync(~0u, n))
			continue;
		u32 lane = threadIdx.x & 31, sum = n, base = 0;
		for (int d = 1; d < 32; d *= 2) {
			u32 o = __shfl_up_sync(~0u, sum, d);
			if (lane >= d)
				sum += o;
		}
		if (lane == 31)
			base = atomicAdd((u32 *)j.used, sum);
		base = __shfl_sync(~0u, base, 31);
		if (n)
			slots[i].rows = base + sum - n;
	}
}

KERNEL join_fill(join_call j) {
	slot *slots = (slot *)j.slots;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < j.build_rows; i += (u64)gridDim.x * THREADS) {
		u32 at = ((const u32 *)j.slot_of)[i];
		if (at == NO_ROW)
			continue;
		if (slots[at].count == 1)
			slots[at].rows = (u32)i;
		else
			((u32 *)j.list)[atomicAdd(&slots[at].rows, 1)] = (u32)i;
	}
}

// join_probe emits pairs of a range of probe rows: NO_ROW stands for no build row. kind 0: pairs, 1: and probe rows
// without a match, 2: probe rows with a match, 3: without. Pairs beyond room are counted only.
KERNEL join_probe(join_call j, u64 first, u64 rows, u32 kind, u32 *left, u32 *right, u64 room, u64 *emitted) {
	__shared__ u64 ends[THREADS], warps[THREADS / 32], base;
	__shared__ u32 counts[THREADS], at[THREADS];
	u64 tiles = (rows + THREADS - 1) / THREADS;
	for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
		u64 i = t * THREADS + threadIdx.x, row = first + i;
		slot s = {EMPTY, 0, 0};
		u32 pairs = 0;
		if (i < rows) {
			if (!has_null(j.probe, row)) {
				u64 found = find(j, row, &s);
				if (j.hit && s.count)
					((u8 *)j.hit)[found] = 1;
			}
			switch (kind) {
			case 0: pairs = s.count; break;
			case 1: pairs = s.count ? s.count : 1; break;
			case 2: pairs = s.count != 0; break;
			default: pairs = s.count == 0;
			}
		}
		if (kind >= 2) // the build row is not needed
			s.count = 0;
		u64 end = inclusive_sum<u64>(pairs, warps);
		ends[threadIdx.x] = end;
		counts[threadIdx.x] = s.count;
		at[threadIdx.x] = s.count > 1 ? s.rows - s.count : s.rows;
		if (threadIdx.x == THREADS - 1)
			base = atomicAdd(emitted, end);
		__syncthreads();
		u64 total = ends[THREADS - 1], out = base;
		for (u64 p = threadIdx.x; p < total && out + p < room; p += THREADS) {
			u32 lo = 0, hi = THREADS - 1; // the first thread whose end is above p
			while (lo < hi) {
				u32 mid = (lo + hi) / 2;
				if (ends[mid] > p)
					hi = mid;
				else
					lo = mid + 1;
			}
			u32 r = NO_ROW;
			if (counts[lo] == 1)
				r = at[lo];
			else if (counts[lo] > 1)
				r = ((const u32 *)j.list)[at[lo] + (u32)(p - (lo ? ends[lo - 1] : 0))];
			left[out + p] = (u32)(first + t * THREADS + lo);
			if (right)
				right[out + p] = r;
		}
		__syncthreads();
	}
}

// join_rest sets the mask of the build rows without a match.
KERNEL join_rest(join_call j, u8 *mask) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < j.build_rows; i += (u64)gridDim.x * THREADS) {
		u32 at = ((const u32 *)j.slot_of)[i];
		mask[i] = at == NO_ROW || !((const u8 *)j.hit)[at];
	}
}
