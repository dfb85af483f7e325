// Package cuda is the part of the CUDA driver interface that moves memory needs: devices,
// contexts, streams, events, allocation, copies, kernels and sharing between processes. It gives
// its memory out as buffers of package mem.
//
// The driver library, libcuda.so.1, is opened at first use; nothing of CUDA is needed to build.
// On a machine without a GPU, and in a binary built without cgo, every call returns an error
// that says what is missing and wraps [ErrUnavailable]; ask [Available] first. The variable
// MILLSTREAM_CUDA_LIBRARY names another library file.
//
// # Contexts
//
// A device is named by its ordinal, as CUDA_VISIBLE_DEVICES numbers them. Each has one primary
// context in a process, which this package shares with other CUDA libraries. It is made by the
// first call that needs it (an allocation, a stream, an event), never by looking at devices or
// pointers, and stays until the process ends. CUDA's current context belongs to an OS thread
// and goroutines change threads, so each call sets it for itself; callers need not care.
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
// For many buffers put a pool on top, so that transports register and other processes map one
// region instead of many:
//
//	pool, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{SlabBytes: 1 << 30})
//
// Work on a stream goes on after the call. The buffer that is written carries the event, and
// everything that uses the buffer next waits for it: other streams on the device, package ucx
// before it sends, the CPU with WaitReady:
//
//	s, err := cuda.NewStream(0, cuda.StreamConfig{})
//	...
//	host, err := cuda.NewPinnedResource(0).Alloc(ctx, b.Len())
//	...
//	if _, err := s.Copy(host, b); err != nil { // returns at once
//		log.Fatal(err)
//	}
//	b.Release() // the copy holds its own reference
//	if err := host.WaitReady(ctx); err != nil {
//		log.Fatal(err)
//	}
//	use(host.Bytes())
//
// A kernel comes from PTX or a cubin: that of nvcc -ptx, or of Compile, which compiles CUDA
// C++ at run time. [Stream.Launch] waits on the device for what its buffers are written by, holds
// them until it is done, and leaves its event with those that it writes:
//
//	code, err := cuda.Compile(ctx, `extern "C" __global__ void twice(float *y, const float *x, int n) {
//		int i = blockIdx.x * blockDim.x + threadIdx.x;
//		if (i < n) y[i] = 2 * x[i];
//	}`, cuda.CompileOptions{})
//	...
//	m, err := cuda.LoadModule(0, code.Image) // once: it takes milliseconds
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
// Another process of the same host gets at device memory by a handle, which it may be sent in
// any way:
//
//	h, err := cuda.ExportMem(b)       // here
//	b, err := cuda.OpenMem(-1, h)     // there
//
// # Waiting
//
// No call synchronises a device or a stream. Waiting asks an event again and again, so it ends
// with its context; the work itself cannot be cancelled and keeps its buffers until it is done.
package cuda
