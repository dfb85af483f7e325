package cuda

import (
	"context"
	"errors"

	"go.millstream.dev/cuda/internal/nvrtc"
)

// CompileOptions specifies how a source is compiled. The zero value is PTX for compute_70.
type CompileOptions struct {
	// Name is the name of the source in messages. Default "kernel.cu".
	Name string
	// Arch is the target architecture: a virtual one (compute_70) produces PTX, a real one (sm_90) a cubin. Default
	// compute_70, which every GPU from Volta on can run.
	Arch string
	// Flags are further options of the compiler, such as "--std=c++17" or "-DN=4".
	Flags []string
	// Headers are the files for #include, by name. The file system is not searched.
	Headers map[string]string
}

// Code is compiled CUDA C++ for LoadModule.
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

// Compile compiles CUDA C++ with the NVRTC library. It needs no GPU and no CUDA toolkit, only libnvrtc, which is loaded
// at first use (`pip install nvidia-cuda-nvrtc` installs it): see CompilerLibrary. Kernels that Module.Function is to
// find by their own name must be extern "C". A compilation takes milliseconds to seconds and cannot be interrupted: ctx
// is checked before it.
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

// CompilerLibrary loads libnvrtc, once per process, and returns its path and version ("12.4"). It uses
// MILLSTREAM_NVRTC_LIBRARY if set; otherwise it searches for one already loaded in the process, in LD_LIBRARY_PATH and
// the system's directories, in CUDA_HOME and CUDA_PATH, and in Python environments.
func CompilerLibrary() (path, version string, err error) {
	lib, err := nvrtc.Library()
	if err != nil {
		return "", "", err
	}
	return lib.Path, lib.Version.String(), nil
}
