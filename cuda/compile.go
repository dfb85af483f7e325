package cuda

import (
	"context"
	"errors"

	"go.millstream.dev/cuda/internal/nvrtc"
)

// CompileOptions specifies how a source is compiled. The zero value is PTX for compute_70.
type CompileOptions struct {
	// Name is what messages call the source. Default "kernel.cu".
	Name string
	// Arch is what to compile for: a virtual architecture (compute_70) gives PTX, a real one
	// (sm_90) a cubin. Default compute_70, which every GPU from Volta on can run.
	Arch string
	// Flags are further options of the compiler, such as "--std=c++17" or "-DN=4".
	Flags []string
	// Headers are what #include finds, by name. There is no file system behind it.
	Headers map[string]string
}

// Code is compiled CUDA C++, which LoadModule takes.
type Code struct {
	// Image is PTX text, without its zero byte, or a cubin.
	Image []byte
	// PTX reports whether Image is PTX.
	PTX bool
	// Log holds the warnings of the compiler.
	Log string
}

// CompileError is returned by Compile for a source that does not compile.
type CompileError struct {
	Name   string // of the source
	Result string // such as NVRTC_ERROR_COMPILATION
	Log    string // messages of the compiler
}

// Error returns the name, the result and the messages of the compiler.
func (e *CompileError) Error() string { return (*nvrtc.Error)(e).Error() }

// ErrNoCompiler is returned by Compile and CompilerLibrary when NVRTC cannot be used in this process.
var ErrNoCompiler = nvrtc.ErrUnavailable

// Compile compiles CUDA C++ with NVRTC, the compiler that is a library. No GPU and no CUDA toolkit is needed, only
// libnvrtc, which is opened at first use (`pip install nvidia-cuda-nvrtc` brings it): see CompilerLibrary. Kernels that
// Module.Function shall find by their own name are extern "C". A compilation takes milliseconds to seconds and cannot
// be interrupted: ctx is checked before it.
//
// The code is PTX for a virtual architecture (compute_…), which every later GPU and a driver at least as new as the
// library can load, or a cubin for a real one (sm_…).
func Compile(ctx context.Context, source string, o CompileOptions) (*Code, error) {
	code, err := nvrtc.Compile(ctx, source, nvrtc.Options(o))
	var bad *nvrtc.Error
	if errors.As(err, &bad) {
		return nil, (*CompileError)(bad)
	}
	return (*Code)(code), err
}

// CompilerLibrary opens libnvrtc, once per process, and returns its path and version ("12.4"). It looks at
// MILLSTREAM_NVRTC_LIBRARY, which is final; then for one that is in the process already, in LD_LIBRARY_PATH and the
// system's places, in CUDA_HOME and CUDA_PATH, and in Python environments.
func CompilerLibrary() (path, version string, err error) {
	lib, err := nvrtc.Library()
	if err != nil {
		return "", "", err
	}
	return lib.Path, lib.Version.String(), nil
}
