// Package nvrtc compiles CUDA C++ at run time: NVRTC, the compiler that is a library. No GPU and
// no CUDA toolkit is needed, only libnvrtc, which is opened at first use; `pip install
// nvidia-cuda-nvrtc` brings it.
//
//	code, err := nvrtc.Compile(ctx, `extern "C" __global__ void twice(float *x, int n) {
//		int i = blockIdx.x * blockDim.x + threadIdx.x;
//		if (i < n) x[i] *= 2;
//	}`, nvrtc.Options{Arch: "compute_70"})
//	if err != nil {
//		log.Fatal(err) // with the compiler's own words
//	}
//	m, err := cuda.LoadModule(0, code.Image)
//
// The code is PTX for a virtual architecture (compute_…), which every later GPU and a driver at
// least as new as the library can load, or a cubin for a real one (sm_…).
package nvrtc
