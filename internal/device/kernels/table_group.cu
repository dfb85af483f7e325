// Hash group-by. A slot of the table has the key and a word for each state of the aggregates, next to each other, so
// that a row touches one or two sectors of memory. A packed key is the first word; other keys are represented by the
// upper half of their hash and the number of one row that has them.
//
// All states are words that are updated by one atomic operation, so that a row needs no lock. Sums of doubles differ in
// their last bits from run to run.

namespace {

constexpr int MAX_STATES = 14;
constexpr int OWN_WORDS = 5120; // shared memory of a block
constexpr int MAX_RESULTS = 16;

// Operations of states. Sums of 64-bit integers are two: of the lower and of the upper halves, which cannot overflow.
enum state_op : u32 { COUNT_ROWS, COUNT, SUM_INT, SUM_LOW, SUM_HIGH, SUM_DOUBLE, MIN, MAX };

struct state {
	column c;
	u32 op, spare;
};

struct group_call {
	keys k;
	u64 rows, first, mask; // rows first to first+rows-1; mask: slots-1
	u64 slots;  // mask+2 slots: the last one is for a packed key that is EMPTY
	u64 counts; // groups, 1 if the table is full
	u64 limit;  // of groups
	u32 states, own; // own: slots in shared memory, 0: none
	state s[MAX_STATES];
};

__device__ __forceinline__ u64 identity(u32 op) {
	return op == MIN ? 0x7fffffffffffffffull : op == MAX ? 1ull << 63 : 0;
}

// update applies a row to a state, in global or shared memory.
__device__ __forceinline__ void update(u64 *at, const state &s, u64 row) {
	if (s.op == COUNT_ROWS) {
		atomicAdd(at, 1ull);
		return;
	}
	if (!valid_at(s.c, row))
		return;
	switch (s.op) {
	case COUNT: atomicAdd(at, 1ull); break;
	case SUM_INT: atomicAdd(at, word_at(s.c, row)); break;
	case SUM_LOW: atomicAdd(at, word_at(s.c, row) & 0xffffffffull); break;
	case SUM_HIGH: {
		u64 v = word_at(s.c, row);
		atomicAdd(at, s.c.kind == U64 ? v >> 32 : (u64)((i64)v >> 32));
		break;
	}
	case SUM_DOUBLE: atomicAdd((double *)at, double_at(s.c, row)); break;
	case MIN: atomicMin((i64 *)at, ordered_at(s.c, row)); break;
	case MAX: atomicMax((i64 *)at, ordered_at(s.c, row)); break;
	}
}

// combine applies a state of a block to that of all.
__device__ __forceinline__ void combine(u64 *at, u32 op, u64 v) {
	switch (op) {
	case SUM_DOUBLE: atomicAdd((double *)at, __longlong_as_double((i64)v)); break;
	case MIN: atomicMin((i64 *)at, (i64)v); break;
	case MAX: atomicMax((i64 *)at, (i64)v); break;
	default: atomicAdd(at, v);
	}
}

__device__ __forceinline__ u64 read(const u64 *p) { return *(const volatile u64 *)p; }

// full counts a group, and reports whether there are too many.
__device__ __forceinline__ bool full(const group_call &g) {
	u64 *counts = (u64 *)g.counts;
	if (atomicAdd(&counts[0], 1ull) < g.limit)
		return false;
	counts[1] = 1;
	return true;
}

// find returns the slot of a packed key, which it takes if there is none; null if the table is full.
__device__ __forceinline__ u64 *find(const group_call &g, u64 key) {
	u32 stride = g.states + 1;
	if (key == EMPTY) { // its slot is marked by another word, as its key is that of a free slot
		u64 *slot = (u64 *)g.slots + (g.mask + 1) * stride;
		if (read(slot) == EMPTY && atomicCAS(slot, EMPTY, 0ull) == EMPTY && full(g))
			return 0;
		return slot;
	}
	u32 tries = 0;
	for (u64 at = mix(key);; at++) {
		u64 *slot = (u64 *)g.slots + (at & g.mask) * stride;
		u64 old = read(slot);
		if (old == EMPTY || (++tries & 63) == 0) {
			// Many threads may take slots before the first one counts its own, and leave none free.
			if (read((u64 *)g.counts) > g.limit)
				return 0;
			old = atomicCAS(slot, EMPTY, key);
			if (old == EMPTY)
				return full(g) ? 0 : slot;
		}
		if (old == key)
			return slot;
	}
}

__device__ __forceinline__ u64 *find_row(const group_call &g, u64 row) {
	u32 stride = g.states + 1;
	u64 hash = hash_at(g.k, row), mark = (hash & ~0xffffffffull) | row;
	if (mark >> 32 == NO_ROW) // not EMPTY
		mark ^= 1ull << 63;
	u32 tries = 0;
	for (u64 at = hash;; at++) {
		u64 *slot = (u64 *)g.slots + (at & g.mask) * stride;
		u64 old = read(slot);
		if (old == EMPTY || (++tries & 63) == 0) {
			if (read((u64 *)g.counts) > g.limit)
				return 0;
			old = atomicCAS(slot, EMPTY, mark);
			if (old == EMPTY)
				return full(g) ? 0 : slot;
		}
		if (old >> 32 == mark >> 32 && same(g.k, (u32)old, g.k, row))
			return slot;
	}
}

} // namespace

KERNEL group_clear(group_call g) {
	u32 stride = g.states + 1;
	u64 n = (g.mask + 2) * stride;
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (u64)gridDim.x * THREADS) {
		u32 s = (u32)(i % stride);
		((u64 *)g.slots)[i] = s == 0 ? EMPTY : identity(g.s[s - 1].op);
	}
}

// group_add adds rows with packed keys to the table, group_add_rows those with other keys. They end early if the table
// is full.
KERNEL group_add(group_call g) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < g.rows; i += (u64)gridDim.x * THREADS) {
		u64 row = g.first + i, *slot = find(g, packed_at(g.k, row));
		if (!slot)
			return;
		for (u32 s = 0; s < g.states; s++)
			update(slot + 1 + s, g.s[s], row);
	}
}

KERNEL group_add_rows(group_call g) {
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < g.rows; i += (u64)gridDim.x * THREADS) {
		u64 row = g.first + i, *slot = find_row(g, row);
		if (!slot)
			return;
		for (u32 s = 0; s < g.states; s++)
			update(slot + 1 + s, g.s[s], row);
	}
}

// group_add_few is group_add for few groups: each block has a table in shared memory, and adds it to the table of all
// at its end. Keys that do not fit are added to the table of all immediately.
KERNEL group_add_few(group_call g) {
	__shared__ u64 own[OWN_WORDS];
	__shared__ u32 taken;
	u32 stride = g.states + 1, mask = g.own - 1;
	for (u32 i = threadIdx.x; i < g.own * stride; i += THREADS)
		own[i] = i % stride == 0 ? EMPTY : identity(g.s[i % stride - 1].op);
	if (threadIdx.x == 0)
		taken = 0;
	__syncthreads();
	for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < g.rows; i += (u64)gridDim.x * THREADS) {
		u64 row = g.first + i, key = packed_at(g.k, row);
		u32 mine = NO_ROW;
		u32 at = (u32)(mix(key) >> 32);
		for (int tries = 0; key != EMPTY && tries < 8; tries++, at++) {
			u32 s = (at & mask) * stride;
			u64 old = read(&own[s]);
			if (old == EMPTY) {
				if (*(volatile u32 *)&taken > g.own * 3 / 4)
					break;
				old = atomicCAS(&own[s], EMPTY, key);
				if (old == EMPTY)
					atomicAdd(&taken, 1);
			}
			if (old == EMPTY || old == key) {
				mine = s;
				break;
			}
		}
		if (mine != NO_ROW) {
			for (u32 s = 0; s < g.states; s++)
				update(&own[mine + 1 + s], g.s[s], row);
			continue;
		}
		u64 *slot = find(g, key);
		if (!slot)
			break;
		for (u32 s = 0; s < g.states; s++)
			update(slot + 1 + s, g.s[s], row);
	}
	__syncthreads();
	for (u32 i = threadIdx.x; i < g.own; i += THREADS) {
		u64 *s = own + i * stride;
		if (s[0] == EMPTY)
			continue;
		u64 *slot = find(g, s[0]);
		if (!slot)
			return;
		for (u32 j = 0; j < g.states; j++)
			combine(slot + 1 + j, g.s[j].op, s[1 + j]);
	}
}

// Results of aggregates: a is the state, b the second one of a sum of 64-bit integers, n the count of values (NONE: the
// group has some).
enum result_op : u32 { R_COUNT, R_INT, R_WIDE, R_DOUBLE, R_ORDERED, R_MEAN_INT, R_MEAN_WIDE, R_MEAN_DOUBLE };
constexpr u32 NONE = ~0u;

struct result {
	u64 data, valid;
	u32 kind, op, a, b, n, spare;
};

struct group_result {
	group_call g;
	u64 taken;    // rows of the output so far
	u64 overflow; // for each result: groups whose sum is not a 64-bit integer
	u64 key_data[MAX_KEYS], key_valid[MAX_KEYS];
	u32 results, spare;
	result r[MAX_RESULTS];
};

namespace {

__device__ __forceinline__ void store_key(const group_result &o, const u64 *slot, bool last, u64 to) {
	const keys &k = o.g.k;
	u64 word = last ? EMPTY : slot[0];
	for (u32 i = 0; i < k.count; i++) {
		const column &c = k.c[i];
		bool valid;
		u64 v;
		if (k.packed) {
			valid = k.null_bit[i] == 255 || !(word >> k.null_bit[i] & 1);
			v = word >> k.shift[i];
		} else {
			valid = valid_at(c, (u32)word);
			v = word_at(c, (u32)word);
		}
		store_word(o.key_data[i], c.kind, to, valid ? v : 0);
		if (o.key_valid[i])
			((u8 *)o.key_valid[i])[to] = valid;
	}
}

// wide is the sum of 64-bit integers: high * 2^32 + low.
struct wide {
	i64 high;
	u64 low;
};
__device__ __forceinline__ wide wide_at(const u64 *states, const result &r) {
	u64 low = states[r.a];
	return {(i64)(states[r.b] + (low >> 32)), low & 0xffffffffull};
}

} // namespace

KERNEL group_store(group_result o) {
	__shared__ u32 warps[THREADS / 32];
	__shared__ u64 base;
	u32 stride = o.g.states + 1;
	u64 n = o.g.mask + 2;
	for (u64 first = (u64)blockIdx.x * THREADS; first < n; first += (u64)gridDim.x * THREADS) {
		u64 i = first + threadIdx.x;
		const u64 *slot = (const u64 *)o.g.slots + i * stride;
		bool there = i < n && slot[0] != EMPTY;
		u32 sum = inclusive_sum<u32>(there, warps);
		if (threadIdx.x == THREADS - 1)
			base = sum ? atomicAdd((u64 *)o.taken, (u64)sum) : 0;
		__syncthreads();
		u64 to = base + sum - 1;
		__syncthreads();
		if (!there)
			continue;
		store_key(o, slot, i == o.g.mask + 1, to);
		for (u32 j = 0; j < o.results; j++) {
			const result &r = o.r[j];
			const u64 *states = slot + 1;
			u64 v = states[r.a];
			bool valid = r.n == NONE || states[r.n] != 0;
			double count = r.n == NONE ? 0 : (double)states[r.n];
			bool is_unsigned = r.kind == U64;
			if (r.valid)
				((u8 *)r.valid)[to] = valid;
			switch (r.op) {
			case R_COUNT: case R_INT: ((u64 *)r.data)[to] = v; break;
			case R_WIDE: {
				wide w = wide_at(states, r);
				bool fits = is_unsigned ? ((u64)w.high >> 32) == 0 : w.high == (i64)(int)w.high;
				if (!fits)
					atomicAdd((u64 *)o.overflow + j, 1ull);
				((u64 *)r.data)[to] = (u64)w.high << 32 | w.low;
				break;
			}
			case R_DOUBLE: ((u64 *)r.data)[to] = v; break;
			case R_ORDERED: store_ordered(r.data, r.kind, to, valid ? (i64)v : 0); break;
			case R_MEAN_INT: ((double *)r.data)[to] = valid ? (double)(i64)v / count : 0; break;
			case R_MEAN_WIDE: {
				wide w = wide_at(states, r);
				double high = is_unsigned ? (double)(u64)w.high : (double)w.high;
				((double *)r.data)[to] = valid ? (high * 4294967296.0 + (double)w.low) / count : 0;
				break;
			}
			case R_MEAN_DOUBLE: ((double *)r.data)[to] = valid ? __longlong_as_double((i64)v) / count : 0; break;
			}
		}
	}
}
