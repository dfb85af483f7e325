// Package nvrtc finds NVRTC, the CUDA C++ compiler that is a library, and compiles with it. Package cuda shows it.
package nvrtc
