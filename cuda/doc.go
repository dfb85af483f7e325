// Package cuda provides the parts of the CUDA driver API that are needed to move memory: devices, contexts, streams,
// events, allocation, copies, kernels and sharing between processes. Its memory is allocated as buffers of package mem.
//
// The driver library, libcuda.so.1, is loaded at first use; building needs no part of CUDA. On a machine without a GPU,
// and in a binary built without cgo, every call returns an error that says what is missing and wraps [ErrUnavailable];
// check [Available] first. The environment variable MILLSTREAM_CUDA_LIBRARY specifies another library file.
//
// # Contexts
//
// A device is identified by its ordinal, as numbered by CUDA_VISIBLE_DEVICES. Each has one primary context in a
// process, which this package shares with other CUDA libraries. It is created by the first call that needs it (an
// allocation, a stream, an event), never by queries of devices or pointers, and lasts until the process ends. CUDA's
// current context belongs to an OS thread and goroutines change threads, so each call sets it; callers need not do so.
//
// # Tutorial
//
// Allocate on device 0, copy there and back:
//
//	if err := cuda.Available(); err != nil {
//		log.Fatal(err)
//	}
//	b, err := cuda.NewDeviceResource(0).Alloc(ctx, 1<<20)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer b.Release()
//	if err := cuda.CopyFromHost(ctx, b, data); err != nil {
//		log.Fatal(err)
//	}
//	err = cuda.CopyToHost(ctx, result, b)
//
// For many buffers use a pool on top, so that transports register and other processes map one region instead of many:
//
//	pool, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{SlabBytes: 1 << 30})
//
// Work on a stream continues after the call. The buffer that is written carries the event, and everything that uses the
// buffer next waits for it: other streams on the device, package ucx before it sends, the CPU with WaitReady:
//
//	s, err := cuda.NewStream(0, cuda.StreamConfig{})
//	...
//	host, err := cuda.NewPinnedResource(0).Alloc(ctx, b.Len())
//	...
//	if _, err := s.Copy(host, b); err != nil { // returns immediately
//		log.Fatal(err)
//	}
//	b.Release() // the copy holds its own reference
//	if err := host.WaitReady(ctx); err != nil {
//		log.Fatal(err)
//	}
//	use(host.Bytes())
//
// A kernel is loaded from PTX or a cubin: of nvcc -ptx, or of Compile, which compiles CUDA C++ at run time.
// [Stream.Launch] waits on the device for pending writes to its buffers, holds them until it is done, and sets its
// event on those that it writes:
//
//	code, err := cuda.Compile(ctx, `extern "C" __global__ void twice(float *y, const float *x, int n) {
//		int i = blockIdx.x * blockDim.x + threadIdx.x;
//		if (i < n) y[i] = 2 * x[i];
//	}`, cuda.CompileOptions{})
//	...
//	m, err := cuda.LoadModule(0, code.Image) // once: loading takes milliseconds
//	...
//	twice, err := m.Function("twice")
//	...
//	grid := cuda.LaunchConfig{Grid: cuda.Dim{X: (n + 255) / 256}, Block: cuda.Dim{X: 256}}
//	if _, err := s.Launch(twice, grid, cuda.Out(y), cuda.In(x), cuda.Val(int32(n))); err != nil {
//		log.Fatal(err)
//	}
//
// To write to a buffer with another library, use [Stream.Enqueue].
//
// Another process of the same host accesses device memory by a handle, which can be sent by any means:
//
//	h, err := cuda.ExportMem(b)       // in the exporting process
//	b, err := cuda.OpenMem(-1, h)     // in the other process
//
// # Waiting
//
// No call synchronizes a device or a stream. Waiting polls an event, so it ends with its context; the work itself
// cannot be canceled and keeps its buffers until it is done.
package cuda
