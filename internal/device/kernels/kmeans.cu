// Lloyd's algorithm for k-means, with the same labels as package lloyd on the CPU. Columns are Arrow arrays, one for
// each feature, with adjacent rows next to each other, so that the threads of a warp, each with its own rows, read
// whole cache lines.
//
// The nearest center of a row x has the least |c|^2/2 - x.c, both with a shift that is near the middle of the data. The
// order of the operations is that of the CPU kernels: scores are equal bit by bit, and so are ties.
//
// Sums follow the labels: a pass adds and subtracts only rows whose label has changed. Doubles are added in an order
// that differs from run to run, and so do the last bits of the sums.
//
// Compiled once for each floating-point type, which halves the time of the driver's compiler at the first fit of a
// program: FLOAT32, else double.

typedef long long i64;

namespace {

constexpr int THREADS = 256;
constexpr int TILE_BYTES = 8192;   // centers that are in shared memory at a time
constexpr int SUM_DOUBLES = 4224;  // sums and counts that fit into shared memory: 128 groups of 33

template <typename T> struct alignas(16) Vec {
	static constexpr int N = 16 / sizeof(T);
	T v[N];
};

#if defined(FLOAT32)
__device__ inline float madd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
__device__ inline double madd(double a, double b, double c) { return __fma_rn(a, b, c); }
#endif

// Applies the label changes of a list of rows to the sums. A warp processes a row, its lanes the features: no two
// lanes access the same address.
template <typename T>
__device__ void follow(const T *const *cols, const T *shift, i64 base, int d, const int *rows, const int *olds, const int *news, int count, double *sums, double *counts) {
	int lane = threadIdx.x & 31;
	for (int e = threadIdx.x >> 5; e < count; e += THREADS / 32) {
		i64 row = base + rows[e];
		int was = olds[e], is = news[e];
		for (int j = lane; j < d; j += 32) {
			double v = (double)cols[j][row] - (double)shift[j];
			atomicAdd(&sums[(i64)is * d + j], v);
			if (was >= 0)
				atomicAdd(&sums[(i64)was * d + j], -v);
		}
		if (lane == 0) {
			atomicAdd(&counts[is], 1.0);
			if (was >= 0)
				atomicAdd(&counts[was], -1.0);
		}
	}
}

// One pass over the rows. moved are the centers minus shift, row by row, half their half squared norms. all are k*d
// sums, k counts and the number of labels that have changed since the beginning; null: only labels change. D is the
// number of features that a thread keeps in registers, a multiple of 4 and at least d, or 0 for any number; R is the
// number of rows of a thread.
template <typename T, int D, int R>
__device__ void pass(const T *const *cols, const T *shift, i64 n, int d, int k, const T *moved, const T *half, int *labels, double *all) {
	constexpr int V = Vec<T>::N;
	constexpr int ROWS = THREADS * R;
	constexpr int FEATURES = D > 0 ? D : 16; // of a tile
	constexpr int TILE = TILE_BYTES / (FEATURES * (int)sizeof(T)) > 128 ? 128 : TILE_BYTES / (FEATURES * (int)sizeof(T));
	__shared__ Vec<T> tile[TILE * FEATURES / V];
	__shared__ T halves[TILE];
	__shared__ double own[SUM_DOUBLES];
	__shared__ int rows[ROWS], olds[ROWS], news[ROWS];
	__shared__ int count;
	T *flat = (T *)tile;
	const bool inside = all && k * (i64)(d + 1) <= SUM_DOUBLES;
	double *sums = inside ? own : all, *counts = sums + (i64)k * d;
	if (inside)
		for (int i = threadIdx.x; i < k * (d + 1); i += THREADS)
			own[i] = 0;
	double changed = 0;
	for (i64 base = (i64)blockIdx.x * ROWS; base < n; base += (i64)gridDim.x * ROWS) {
		T best[R];
		int at[R];
		T x[R][D > 0 ? D : 1];
#pragma unroll
		for (int r = 0; r < R; r++) {
			at[r] = 0;
			best[r] = 0;
			i64 row = base + r * THREADS + threadIdx.x;
			if (D > 0 && row < n) {
#pragma unroll
				for (int j = 0; j < D; j++)
					x[r][j] = j < d ? cols[j][row] - shift[j] : (T)0;
			} else {
#pragma unroll
				for (int j = 0; j < (D > 0 ? D : 1); j++)
					x[r][j] = 0;
			}
		}
		if (threadIdx.x == 0)
			count = 0;
		for (int c0 = 0; c0 < k; c0 += TILE) {
			int m = k - c0 < TILE ? k - c0 : TILE;
			if (D > 0) {
				if (c0 > 0 || base == (i64)blockIdx.x * ROWS || k > TILE) { // else it is loaded already
					__syncthreads();
					for (int i = threadIdx.x; i < m * D; i += THREADS) {
						int c = i / (D > 0 ? D : 1), j = i % (D > 0 ? D : 1);
						flat[i] = j < d ? -moved[(i64)(c0 + c) * d + j] : (T)0;
					}
					for (int i = threadIdx.x; i < m; i += THREADS)
						halves[i] = half[c0 + i];
					__syncthreads();
				}
				for (int c = 0; c < m; c++) {
					T score[R];
#pragma unroll
					for (int r = 0; r < R; r++)
						score[r] = halves[c];
#pragma unroll
					for (int q = 0; q < D / V; q++) {
						Vec<T> a = tile[c * (D / V) + q];
#pragma unroll
						for (int l = 0; l < V; l++)
#pragma unroll
							for (int r = 0; r < R; r++)
								score[r] = madd(x[r][D > 0 ? q * V + l : 0], a.v[l], score[r]);
					}
#pragma unroll
					for (int r = 0; r < R; r++)
						if (c0 + c == 0 || score[r] < best[r]) {
							best[r] = score[r];
							at[r] = c0 + c;
						}
				}
			} else {
				// Any number of features: sixteen features and eight centers at a time.
				constexpr int GROUP = 8;
				for (int g = 0; g < m; g += GROUP) {
					T score[R][GROUP];
#pragma unroll
					for (int r = 0; r < R; r++)
#pragma unroll
						for (int c = 0; c < GROUP; c++)
							score[r][c] = g + c < m ? half[c0 + g + c] : (T)0;
					for (int j0 = 0; j0 < d; j0 += FEATURES) {
						__syncthreads();
						for (int i = threadIdx.x; i < GROUP * FEATURES; i += THREADS) {
							int c = i / FEATURES, j = i % FEATURES;
							flat[j * GROUP + c] = g + c < m && j0 + j < d ? -moved[(i64)(c0 + g + c) * d + j0 + j] : (T)0;
						}
						__syncthreads();
						for (int j = 0; j < FEATURES && j0 + j < d; j++)
#pragma unroll
							for (int r = 0; r < R; r++) {
								i64 row = base + r * THREADS + threadIdx.x;
								T v = row < n ? cols[j0 + j][row] - shift[j0 + j] : (T)0;
#pragma unroll
								for (int c = 0; c < GROUP; c++)
									score[r][c] = madd(v, flat[j * GROUP + c], score[r][c]);
							}
					}
#pragma unroll
					for (int r = 0; r < R; r++)
#pragma unroll
						for (int c = 0; c < GROUP; c++)
							if (g + c < m && (c0 + g + c == 0 || score[r][c] < best[r])) {
								best[r] = score[r][c];
								at[r] = c0 + g + c;
							}
				}
			}
		}
		__syncthreads();
#pragma unroll
		for (int r = 0; r < R; r++) {
			i64 row = base + r * THREADS + threadIdx.x;
			if (row >= n)
				continue;
			int was = labels[row];
			if (was == at[r])
				continue;
			labels[row] = at[r];
			if (all) {
				int e = atomicAdd(&count, 1);
				rows[e] = r * THREADS + threadIdx.x;
				olds[e] = was;
				news[e] = at[r];
			}
		}
		__syncthreads();
		if (all && count > 0) {
			follow<T>(cols, shift, base, d, rows, olds, news, count, sums, counts);
			changed += count;
		}
		__syncthreads();
	}
	if (!all)
		return;
	if (inside)
		for (int i = threadIdx.x; i < k * (d + 1); i += THREADS)
			if (own[i] != 0) // not for NaN
				atomicAdd(&all[i], own[i]);
	if (threadIdx.x == 0 && changed > 0)
		atomicAdd(&all[(i64)k * (d + 1)], changed);
}

// Returns the sum of a block's doubles, in a fixed order, in thread 0.
__device__ double blockSum(double v) {
	__shared__ double parts[THREADS / 32];
	for (int o = 16; o > 0; o >>= 1)
		v += __shfl_down_sync(0xffffffffu, v, o);
	__syncthreads();
	if ((threadIdx.x & 31) == 0)
		parts[threadIdx.x >> 5] = v;
	__syncthreads();
	if (threadIdx.x == 0)
		for (int i = 1; i < THREADS / 32; i++)
			v += parts[i];
	return v;
}

template <typename T>
__device__ double distance(const T *const *cols, i64 row, int d, const T *point) {
	double sum = 0;
	for (int j = 0; j < d; j++) {
		double e = (double)cols[j][row] - (double)point[j];
		sum += e * e;
	}
	return sum;
}

// Squared distances of the rows to the centers of their labels, one sum for each block.
template <typename T>
__device__ void inertia(const T *const *cols, i64 n, int d, const T *centers, const int *labels, double *out) {
	double sum = 0;
	for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row < n; row += (i64)gridDim.x * THREADS)
		sum += distance(cols, row, d, centers + (i64)labels[row] * d);
	sum = blockSum(sum);
	if (threadIdx.x == 0)
		out[blockIdx.x] = sum;
}

// Squared distances of the rows to the centers of their labels (if labels is set), or to one point; the lesser of them
// and closest, if that is set. Each block has THREADS rows and their sum.
template <typename T>
__device__ void distances(const T *const *cols, i64 n, int d, const T *points, const int *labels, const double *closest, double *out, double *sums) {
	i64 row = (i64)blockIdx.x * THREADS + threadIdx.x;
	double e = 0;
	if (row < n) {
		e = distance(cols, row, d, labels ? points + (i64)labels[row] * d : points);
		if (closest)
			e = closest[row] < e ? closest[row] : e;
		out[row] = e;
	}
	e = blockSum(e);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = e;
}

// Sums and sums of squares of the columns minus shift: blockIdx.y is the column, each block has one of each.
template <typename T>
__device__ void moments(const T *const *cols, const T *shift, i64 n, double *out) {
	const T *c = cols[blockIdx.y];
	T s = shift[blockIdx.y];
	double sum = 0, squares = 0;
	for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row < n; row += (i64)gridDim.x * THREADS) {
		double e = (double)(T)(c[row] - s);
		sum += e;
		squares += e * e;
	}
	sum = blockSum(sum);
	squares = blockSum(squares);
	if (threadIdx.x == 0) {
		i64 at = 2 * ((i64)blockIdx.y * gridDim.x + blockIdx.x);
		out[at] = sum;
		out[at + 1] = squares;
	}
}

// One row and its label.
template <typename T>
__device__ void row(const T *const *cols, i64 at, int d, const int *labels, double *out) {
	for (int j = threadIdx.x; j < d; j += THREADS)
		out[j] = (double)cols[j][at];
	if (threadIdx.x == 0)
		out[d] = (double)labels[at];
}

// Converts numbers to another type: for columns that do not have the type of the computation.
template <typename From, typename To> __device__ void convert(const From *in, i64 n, To *out) {
	for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < n; i += (i64)gridDim.x * THREADS)
		out[i] = (To)in[i];
}

} // namespace

#define PASS(NAME, T, D, R)                                                                                                                                                                           \
	extern "C" __global__ void __launch_bounds__(THREADS) kmeans_pass_##NAME(const T *const *cols, const T *shift, i64 n, int d, int k, const T *moved, const T *half, int *labels, double *all) {      \
		pass<T, D, R>(cols, shift, n, d, k, moved, half, labels, all);                                                                                                                              \
	}
#if defined(FLOAT32)
PASS(d8, float, 8, 2)
PASS(d16, float, 16, 2)
PASS(d32, float, 32, 2)
PASS(any, float, 0, 1)
#else
PASS(d8, double, 8, 2)
PASS(d16, double, 16, 1)
PASS(d32, double, 32, 1)
PASS(any, double, 0, 1)
#endif

#if defined(FLOAT32)
typedef float real;
#else
typedef double real;
#endif

extern "C" __global__ void kmeans_inertia(const real *const *cols, i64 n, int d, const real *centers, const int *labels, double *out) {
	inertia<real>(cols, n, d, centers, labels, out);
}

extern "C" __global__ void kmeans_distances(const real *const *cols, i64 n, int d, const real *points, const int *labels, const double *closest, double *out, double *sums) {
	distances<real>(cols, n, d, points, labels, closest, out, sums);
}

extern "C" __global__ void kmeans_moments(const real *const *cols, const real *shift, i64 n, double *out) { moments<real>(cols, shift, n, out); }

extern "C" __global__ void kmeans_row(const real *const *cols, i64 at, int d, const int *labels, double *out) { row<real>(cols, at, d, labels, out); }

#if !defined(FLOAT32)
// Integer columns are converted to float64, as are float32 columns next to others.
#define CONVERT(NAME, FROM)                                                                                                                                                                           \
	extern "C" __global__ void kmeans_convert_##NAME(const FROM *in, i64 n, double *out) { convert<FROM, double>(in, n, out); }
CONVERT(i8, signed char)
CONVERT(i16, short)
CONVERT(i32, int)
CONVERT(i64, i64)
CONVERT(u8, unsigned char)
CONVERT(u16, unsigned short)
CONVERT(u32, unsigned int)
CONVERT(u64, unsigned long long)
CONVERT(f32, float)
#endif
