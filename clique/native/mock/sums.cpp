// The smallest complete algorithm: each rank sums the columns of its partitions, the sums are reduced to rank 0, and
// rank 0 emits one row of totals. With the parameter "all" every rank emits it.
//
//     c++ -shared -fPIC -O2 -I <folder of millstream_native.h> -o libsums.so sums.cpp
#include "millstream_native.h"

#include <cstring>
#include <vector>

extern "C" {

extern const unsigned int millstream_native_abi;
const unsigned int millstream_native_abi = MS_NATIVE_ABI;

int sums(const ms_call *call) {
	if (call->abi != MS_NATIVE_ABI || call->size < sizeof(ms_call))
		return MS_INVALID;
	// Ranks may have no partitions, so the number of columns is agreed on first.
	uint64_t columns = call->npartitions ? call->partitions[0].ncolumns : 0;
	int err = call->ops->all_reduce(call->comm, &columns, &columns, 1, MS_UINT64, MS_MAX);
	if (err)
		return err;

	// 1. local sums
	std::vector<double> local(columns, 0), total(columns, 0);
	for (uint64_t p = 0; p < call->npartitions; p++) {
		const ms_partition &part = call->partitions[p];
		if (part.ncolumns != columns)
			return call->fail(call->comm, "partitions have different numbers of columns");
		for (uint64_t c = 0; c < columns; c++) {
			const ms_column &col = part.columns[c];
			if (col.kind != MS_FLOAT64 || col.memory == MS_DEVICE)
				return call->fail(call->comm, "sums needs float64 columns in host memory");
			const double *x = static_cast<const double *>(col.data);
			for (uint64_t i = 0; i < col.count; i++)
				local[c] += x[i];
		}
	}

	// 2. reduce
	bool all = call->parameter_bytes == 3 && !std::memcmp(call->parameters, "all", 3);
	if (all)
		err = call->ops->all_reduce(call->comm, local.data(), total.data(), columns, MS_FLOAT64, MS_SUM);
	else
		err = call->ops->reduce(call->comm, local.data(), total.data(), columns, MS_FLOAT64, MS_SUM, 0);
	if (err)
		return err;

	// 3. results
	if (!all && call->rank != 0)
		return MS_OK;
	for (uint64_t c = 0; c < columns; c++) {
		ms_column out = {&total[c], 1, MS_FLOAT64, MS_HOST, -1, 0};
		if ((err = call->emit(call->comm, &out)))
			return err;
	}
	return MS_OK;
}

} // extern "C"
