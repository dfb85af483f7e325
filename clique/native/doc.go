// Package native runs algorithms of shared libraries on the ranks of a clique. They are written in C, C++ or any
// language that can export a C function, against millstream_native.h; mock/sums.cpp is a complete example.
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
// An algorithm runs in its own thread. Its collectives are those of the clique: when a rank is lost, or the context
// ends, they return an error and the algorithm should return. An algorithm that computes without calling them cannot be
// stopped. A C++ exception that leaves it, like any crash, ends the process of the worker; the cluster and the clique
// survive that.
//
// # Device memory
//
// Partitions in device memory come with a stream, on which they are ready, and with the ncclComm_t of the ranks if the
// clique uses NCCL. Collectives accept device memory like host memory. mock/sums_device.cu is a complete example.
//
// # Search path
//
// A program can open any library. The registered function behind Submit, which every `millstream worker` has, opens
// libraries by bare name from the folders of MILLSTREAM_NATIVE_PATH only, so that a client that may submit tasks cannot
// load an arbitrary file into a worker.
package native

import _ "embed"

// Header is the text of millstream_native.h, for programs that compile algorithms.
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
