package nvrtc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/cuda/internal/nvrtcapi"
)

// Options specify how a source is compiled. The zero value is PTX for compute_70.
type Options struct {
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

// Code is compiled code for cuda.LoadModule.
type Code struct {
	// Image is PTX text, without its zero byte, or a cubin.
	Image []byte
	// PTX reports whether Image is PTX.
	PTX bool
	// Log holds the warnings of the compiler.
	Log string
}

// Error is returned for a source that does not compile, with the messages of the compiler.
type Error struct {
	Name   string // of the source
	Result string // such as NVRTC_ERROR_COMPILATION
	Log    string
}

// Error returns the name, the result and the messages of the compiler.
func (e *Error) Error() string {
	s := fmt.Sprintf("nvrtc: %s: %s", e.Name, e.Result)
	if log := strings.TrimSpace(e.Log); log != "" {
		s += ":\n" + log
	}
	return s
}

// Compile compiles one source. Kernels that Module.Function is to find by their own name must be extern "C". A
// compilation takes milliseconds to seconds and cannot be interrupted: ctx is checked before it.
func Compile(ctx context.Context, source string, o Options) (*Code, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := Library(); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = "kernel.cu"
	}
	if o.Arch == "" {
		o.Arch = "compute_70"
	}
	virtual := strings.HasPrefix(o.Arch, "compute_")
	if !virtual && !strings.HasPrefix(o.Arch, "sm_") {
		return nil, fmt.Errorf("nvrtc: %s: unknown architecture %q: use compute_NN for PTX or sm_NN for a cubin",
			o.Name, o.Arch)
	}
	var names, bodies []string
	for name := range o.Headers {
		names = append(names, name)
	}
	slices.Sort(names) // deterministic output
	for _, name := range names {
		bodies = append(bodies, o.Headers[name])
	}
	for i, text := range slices.Concat([]string{source, o.Name}, names, bodies, o.Flags) {
		if strings.IndexByte(text, 0) >= 0 {
			return nil, fmt.Errorf("nvrtc: %s: text %d of source, headers and flags has a zero byte", o.Name, i)
		}
	}
	flags := append([]string{"--gpu-architecture=" + o.Arch}, o.Flags...)
	image, log, r := nvrtcapi.Compile(source, o.Name, names, bodies, flags, !virtual)
	switch r {
	case 0:
	case nvrtcapi.NoSymbol:
		return nil, fmt.Errorf("nvrtc: %s: %s cannot produce a cubin: compile to PTX (compute_…), or use NVRTC 11.1 or newer",
			o.Name, nvrtcapi.Path())
	case nvrtcapi.NoMemory:
		return nil, fmt.Errorf("nvrtc: %s: out of memory", o.Name)
	default:
		return nil, &Error{Name: o.Name, Result: r.Text(), Log: log}
	}
	if virtual && len(image) > 0 && image[len(image)-1] == 0 {
		image = image[:len(image)-1]
	}
	return &Code{Image: image, PTX: virtual, Log: strings.TrimSpace(log)}, nil
}
