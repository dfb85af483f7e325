// Package native runs algorithms of shared libraries on the ranks of a clique: C, C++ or
// anything that can export a C function. millstream_native.h is what they are written against;
// mock/sums.cpp is a whole one.
//
//	lib, err := native.Open("/opt/algorithms/libsums.so")
//	sums, err := lib.Algorithm("sums")
//
//	var total = clique.Func("total", func(ctx context.Context, r *clique.Rank, part []float64) ([]float64, error) {
//		in := native.Partition{native.ColumnOf(part)}
//		out, err := sums.Run(ctx, r, native.Call{Partitions: []native.Partition{in}})
//		…
//	})
//
// An algorithm runs in a thread of its own. Its collectives are those of the clique: when a
// rank dies, or the context ends, they return an error and the algorithm is expected to return.
// Nothing can stop one that computes without calling them. A C++ exception that leaves it, like
// any crash, ends the worker's process; the cluster and the clique survive that.
//
// # Device memory
//
// Partitions in device memory come with a stream, whose work may read them at once, and with the
// ncclComm_t of the ranks where the clique has NCCL. Collectives take device memory as they take
// the host's. mock/sums_device.cu is a whole algorithm of that sort.
//
// # Which libraries
//
// A program opens what it likes. The function that every `millstream worker` has, Run, opens
// libraries by bare name from the folders of MILLSTREAM_NATIVE_PATH only: who may submit tasks
// to a worker cannot thereby load any file into it.
package native

import _ "embed"

// Header is millstream_native.h, for programs that compile algorithms.
//
//go:embed millstream_native.h
var Header string

// MockSource is mock/sums.cpp, the smallest whole algorithm: local sums, a reduce, a result.
//
//go:embed mock/sums.cpp
var MockSource string

// DeviceMockSource is mock/sums_device.cu, the same on device memory, for nvcc.
//
//go:embed mock/sums_device.cu
var DeviceMockSource string
