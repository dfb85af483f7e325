// Kernels for one floating-point type (T, with TI of the same width) and one instruction set (NAME, TARGET, VBYTES bytes
// per vector, KT centers at once): lloyd.c includes this file once for each. Columns are Arrow arrays, one for each
// feature. A vector holds one feature of adjacent rows.
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define FN(x) CAT(x, NAME)
#define LANES (VBYTES / (int)sizeof(T))
#define GROUP (2 * LANES)

typedef T FN(vec) __attribute__((vector_size(VBYTES), aligned(sizeof(T))));
typedef TI FN(vint) __attribute__((vector_size(VBYTES), aligned(sizeof(T))));

// Computes the labels of GROUP rows starting at row i. packed has the centers in tiles of KT, feature by feature, and
// half their squared norms after each tile: the nearest center has the least |c|^2/2 - x.c.
TARGET static void FN(group)(const T *const *x, long i, int d, int tiles, const T *shift, const T *packed, int32_t *label) {
	FN(vec) best0 = {0}, best1 = {0};
	FN(vint) at0 = {0}, at1 = {0};
	for (int tile = 0; tile < tiles; tile++, packed += (d + 1) * KT) {
		FN(vec) a0[KT], a1[KT];
		for (int t = 0; t < KT; t++) {
			FN(vec) zero = {0};
			a0[t] = a1[t] = zero + packed[d * KT + t];
		}
		for (int j = 0; j < d; j++) {
			FN(vec) x0 = *(const FN(vec) *)(x[j] + i) - shift[j];
			FN(vec) x1 = *(const FN(vec) *)(x[j] + i + LANES) - shift[j];
#pragma GCC unroll 8
			for (int t = 0; t < KT; t++) {
				T c = packed[j * KT + t];
				a0[t] -= x0 * c;
				a1[t] -= x1 * c;
			}
		}
		if (tile == 0)
			best0 = a0[0], best1 = a1[0];
#pragma GCC unroll 8
		for (int t = 0; t < KT; t++) {
			FN(vint) less0 = a0[t] < best0, less1 = a1[t] < best1;
			TI n = tile * KT + t;
			best0 = (FN(vec))(((FN(vint))a0[t] & less0) | ((FN(vint))best0 & ~less0));
			best1 = (FN(vec))(((FN(vint))a1[t] & less1) | ((FN(vint))best1 & ~less1));
			at0 = (n & less0) | (at0 & ~less0);
			at1 = (n & less1) | (at1 & ~less1);
		}
	}
	for (int l = 0; l < LANES; l++) {
		label[l] = (int32_t)at0[l];
		label[l + LANES] = (int32_t)at1[l];
	}
}

// Computes the labels of n rows; the last group is padded.
TARGET static void FN(labels)(const T *const *x, long n, int d, int tiles, const T *shift, const T *packed, int32_t *label, T *tail, const T **tails) {
	long i = 0;
	for (; i + GROUP <= n; i += GROUP)
		FN(group)(x, i, d, tiles, shift, packed, label + i);
	if (i < n) {
		int32_t last[GROUP];
		for (int j = 0; j < d; j++) {
			for (int l = 0; l < GROUP; l++)
				tail[j * GROUP + l] = x[j][i + l < n ? i + l : n - 1];
			tails[j] = tail + j * GROUP;
		}
		FN(group)(tails, 0, d, tiles, shift, packed, last);
		memcpy(label + i, last, (n - i) * sizeof(int32_t));
	}
}

// Returns the sum of the squared distances of n rows, at most BLOCK, to the centers of their labels, in double precision.
TARGET static double FN(inertia)(const T *const *x, long n, int d, int k, const T *byfeature, const int32_t *label) {
	double dist[BLOCK] = {0}, sum = 0;
	for (int j = 0; j < d; j++) {
		const T *v = x[j], *c = byfeature + (long)j * k;
		for (long i = 0; i < n; i++) {
			double e = (double)v[i] - (double)c[label[i]];
			dist[i] += e * e;
		}
	}
	for (long i = 0; i < n; i++)
		sum += dist[i];
	return sum;
}

// Computes the squared distances of n rows, at most BLOCK, to one point.
TARGET static void FN(distances)(const T *const *x, long n, int d, const T *c, double *out) {
	for (long i = 0; i < n; i++)
		out[i] = 0;
	for (int j = 0; j < d; j++) {
		const T *v = x[j];
		double cj = c[j];
		for (long i = 0; i < n; i++) {
			double e = (double)v[i] - cj;
			out[i] += e * e;
		}
	}
}

// One pass over n rows. labels has those of the last pass, or -1; sums and counts follow the labels. Returns the
// number of rows whose label has changed.
TARGET static long FN(pass)(const T *const *columns, long n, int d, int k, int tiles, const T *shift, const T *packed, int32_t *labels, double *sums, int64_t *counts, T *tail, const T **x) {
	int32_t now[BLOCK];
	int32_t moved[BLOCK];
	long changed = 0;
	(void)k;
	for (long i = 0; i < n; i += BLOCK) {
		long m = n - i < BLOCK ? n - i : BLOCK;
		for (int j = 0; j < d; j++)
			x[j] = columns[j] + i;
		FN(labels)(x, m, d, tiles, shift, packed, now, tail, x + d);
		int32_t *old = labels + i;
		long count = 0;
		for (long r = 0; r < m; r++) {
			moved[count] = (int32_t)r;
			count += now[r] != old[r];
		}
		if (count == 0)
			continue;
		changed += count;
		if (sums) {
			for (int j = 0; j < d; j++) {
				const T *v = x[j];
				double s = shift[j];
				for (long c = 0; c < count; c++) {
					int32_t r = moved[c];
					double e = (double)v[r] - s;
					sums[(long)now[r] * d + j] += e;
					if (old[r] >= 0)
						sums[(long)old[r] * d + j] -= e;
				}
			}
			for (long c = 0; c < count; c++) {
				int32_t r = moved[c];
				counts[now[r]]++;
				if (old[r] >= 0)
					counts[old[r]]--;
			}
		}
		memcpy(old, now, m * sizeof(int32_t));
	}
	return changed;
}

#undef CAT_
#undef CAT
#undef FN
#undef LANES
#undef GROUP
