// sums.cpp on the GPU: each rank sums the columns of its partitions, which are in device memory, with a kernel on the
// stream of the call; the sums are reduced in place, and every rank emits one row of totals, in device memory.
//
//     nvcc -shared -Xcompiler -fPIC -O2 -cudart shared -I <folder of millstream_native.h> -o libsums_device.so sums_device.cu
#include "millstream_native.h"

#include <cuda_runtime.h>

static __global__ void add_up(const double *x, uint64_t n, double *sum) {
	__shared__ double part[256];
	double mine = 0;
	for (uint64_t i = threadIdx.x; i < n; i += blockDim.x)
		mine += x[i];
	part[threadIdx.x] = mine;
	__syncthreads();
	for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		*sum += part[0];
}

// sum_up runs the algorithm with memory for the sums.
static int sum_up(const ms_call *call, uint64_t columns, double *sums) {
	cudaStream_t stream = static_cast<cudaStream_t>(call->stream);
	cudaMemsetAsync(sums, 0, columns * sizeof(double), stream);
	for (uint64_t p = 0; p < call->npartitions; p++) {
		const ms_partition &part = call->partitions[p];
		if (part.ncolumns != columns)
			return call->fail(call->comm, "partitions have different numbers of columns");
		for (uint64_t c = 0; c < columns; c++) {
			const ms_column &col = part.columns[c];
			if (col.kind != MS_FLOAT64 || col.memory != MS_DEVICE || col.device != call->device)
				return call->fail(call->comm, "sums_device needs float64 columns in the device memory of the rank");
			add_up<<<1, 256, 0, stream>>>(static_cast<const double *>(col.data), col.count, sums + c);
		}
	}
	if (cudaGetLastError() != cudaSuccess)
		return call->fail(call->comm, "kernel launch failed");
	int err = call->ops->all_reduce(call->comm, sums, sums, columns, MS_FLOAT64, MS_SUM);
	for (uint64_t c = 0; c < columns && !err; c++) {
		ms_column out = {sums + c, 1, MS_FLOAT64, MS_DEVICE, call->device, 0};
		err = call->emit(call->comm, &out);
	}
	return err;
}

extern "C" {

extern const unsigned int millstream_native_abi;
const unsigned int millstream_native_abi = MS_NATIVE_ABI;

int sums_device(const ms_call *call) {
	if (call->abi != MS_NATIVE_ABI || call->size < sizeof(ms_call))
		return MS_INVALID;
	uint64_t columns = call->npartitions ? call->partitions[0].ncolumns : 0;
	int err = call->ops->all_reduce(call->comm, &columns, &columns, 1, MS_UINT64, MS_MAX);
	if (err || !columns)
		return err;
	if (call->device < 0 || !call->stream)
		return call->fail(call->comm, "sums_device needs a GPU");
	double *sums;
	if (cudaMalloc(&sums, columns * sizeof(double)) != cudaSuccess)
		return call->fail(call->comm, "no device memory for the sums");
	err = sum_up(call, columns, sums);
	cudaFree(sums);
	return err;
}

} // extern "C"
