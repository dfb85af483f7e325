// Reduction of tall tables to a triangle by Householder reflections, as package tsqr does on the CPU, in double
// precision. Columns are Arrow arrays of any type of numbers, converted as they are read.
//
// Each block adds tiles of rows to a triangle of its own, in an order that depends on the number of rows and blocks only;
// the triangles of the blocks are merged pairwise. Results are the same in every run on the same GPU.

typedef long long i64;

#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS)

namespace {

constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;

// The order is that of package gputsqr.
enum kind : unsigned { I8, I16, I32, I64, U8, U16, U32, U64, F32, F64 };

struct column {
	const void *data;
	unsigned kind, spare;
};

__device__ __forceinline__ double number(const column &c, i64 row) {
	switch (c.kind) {
	case I8: return ((const signed char *)c.data)[row];
	case I16: return ((const short *)c.data)[row];
	case I32: return ((const int *)c.data)[row];
	case I64: return (double)((const i64 *)c.data)[row];
	case U8: return ((const unsigned char *)c.data)[row];
	case U16: return ((const unsigned short *)c.data)[row];
	case U32: return ((const unsigned *)c.data)[row];
	case U64: return (double)((const unsigned long long *)c.data)[row];
	case F32: return ((const float *)c.data)[row];
	default: return ((const double *)c.data)[row];
	}
}

// Returns the sum of a warp's numbers in all lanes.
__device__ __forceinline__ double warpSum(double v) {
	for (int o = 16; o > 0; o >>= 1)
		v += __shfl_xor_sync(0xffffffffu, v, o);
	return v;
}

// Adds the rows of a tile to a triangle r and overwrites the tile. Both are stored column by column, the tile with a
// distance of stride. In an upper tile the elements below the diagonal are zero. A warp updates a column at a time;
// column j of the tile is only read in step j, so that one barrier per step suffices.
__device__ void eliminate(double *r, double *tile, int d, int rows, int stride, bool upper) {
	const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	for (int j = 0; j < d; j++) {
		const int n = upper && j + 1 < rows ? j + 1 : rows;
		const double *x = tile + (i64)j * stride;
		double squares = 0;
		for (int i = lane; i < n; i += 32)
			squares += x[i] * x[i];
		squares = warpSum(squares);
		const double a = r[(i64)j * d + j];
		const double norm = -copysign(sqrt(a * a + squares), a);
		if (squares != 0) { // the same in all threads; NaN proceeds
			const double tau = (norm - a) / norm, by = 1 / (a - norm);
			for (int k = j + 1 + warp; k < d; k += WARPS) {
				double *y = tile + (i64)k * stride;
				double *top = r + (i64)k * d + j;
				const double above = *top;
				double sum = 0;
				for (int i = lane; i < n; i += 32)
					sum += x[i] * y[i];
				const double w = tau * (above + warpSum(sum) * by);
				if (lane == 0)
					*top = above - w;
				const double wx = w * by;
				for (int i = lane; i < n; i += 32)
					y[i] -= wx * x[i];
			}
		}
		__syncthreads();
		if (threadIdx.x == 0 && squares != 0) // all threads have read it
			r[(i64)j * d + j] = norm;
	}
	__syncthreads();
}

// Returns the sum of a block's numbers in thread 0, in a fixed order.
__device__ double blockSum(double v) {
	__shared__ double parts[WARPS];
	v = warpSum(v);
	if ((threadIdx.x & 31) == 0)
		parts[threadIdx.x >> 5] = v;
	__syncthreads();
	if (threadIdx.x == 0)
		for (int i = 1; i < WARPS; i++)
			v += parts[i];
	return v;
}

} // namespace

// Sums of the columns: blockIdx.y is the column, each block has one sum.
KERNEL tsqr_sums(const column *cols, i64 n, double *out) {
	const column c = cols[blockIdx.y];
	double sum = 0;
	for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row < n; row += (i64)gridDim.x * THREADS)
		sum += number(c, row);
	sum = blockSum(sum);
	if (threadIdx.x == 0)
		out[(i64)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// Adds the rows minus mean to the triangles, one of each block. The tile of a block has rows rows; it is in shared memory if
// work is null, followed by the triangle if inside is set.
KERNEL tsqr_rows(const column *cols, i64 n, int d, const double *mean, int rows, int inside, double *triangles, double *work) {
	extern __shared__ double shared[];
	double *own = triangles + (i64)blockIdx.x * d * d;
	double *tile = work ? work + (i64)blockIdx.x * rows * d : shared;
	double *r = inside ? shared + (i64)rows * d : own;
	if (inside)
		for (int i = threadIdx.x; i < d * d; i += THREADS)
			r[i] = own[i];
	__syncthreads();
	const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
	for (i64 base = (i64)blockIdx.x * rows; base < n; base += (i64)gridDim.x * rows) {
		const int m = n - base < rows ? (int)(n - base) : rows;
		for (int j = warp; j < d; j += WARPS) {
			const column c = cols[j];
			const double middle = mean[j];
			for (int i = lane; i < m; i += 32)
				tile[(i64)j * rows + i] = number(c, base + i) - middle;
		}
		__syncthreads();
		eliminate(r, tile, d, m, rows, false);
	}
	if (inside)
		for (int i = threadIdx.x; i < d * d; i += THREADS)
			own[i] = r[i];
}

// Merges the triangle that follows each triangle at a multiple of 2*step, at a distance of step, into it.
KERNEL tsqr_merge(double *triangles, int d, int step) {
	double *r = triangles + (i64)blockIdx.x * 2 * step * d * d;
	eliminate(r, r + (i64)step * d * d, d, d, d, true);
}

// Sets bad[column] if the column has a value that is not finite.
KERNEL tsqr_bad(const column *cols, i64 n, int *bad) {
	const column c = cols[blockIdx.y];
	bool found = false;
	for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row < n; row += (i64)gridDim.x * THREADS)
		found = found || !isfinite(number(c, row));
	if (found)
		bad[blockIdx.y] = 1;
}

// Sets column k of out to the products of the rows minus mean with weights[k*d...], plus add[k]: float if narrow is set.
KERNEL tsqr_apply(const column *cols, i64 n, int d, int k, const double *mean, const double *weights, const double *add, void *const *out, int narrow) {
	constexpr int GROUP = 8;
	for (i64 row = (i64)blockIdx.x * THREADS + threadIdx.x; row < n; row += (i64)gridDim.x * THREADS)
		for (int from = 0; from < k; from += GROUP) {
			const int m = k - from < GROUP ? k - from : GROUP;
			double sum[GROUP];
#pragma unroll
			for (int q = 0; q < GROUP; q++)
				sum[q] = q < m ? add[from + q] : 0;
			for (int j = 0; j < d; j++) {
				const double x = number(cols[j], row) - mean[j];
#pragma unroll
				for (int q = 0; q < GROUP; q++)
					if (q < m)
						sum[q] += x * weights[(i64)(from + q) * d + j];
			}
#pragma unroll
			for (int q = 0; q < GROUP; q++)
				if (q < m) {
					if (narrow)
						((float *)out[from + q])[row] = (float)sum[q];
					else
						((double *)out[from + q])[row] = sum[q];
				}
		}
}
