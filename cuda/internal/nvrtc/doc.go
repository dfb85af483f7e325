// Package nvrtc finds NVRTC, the run-time compiler of CUDA C++, and compiles with it. Package cuda exports its API.
package nvrtc
