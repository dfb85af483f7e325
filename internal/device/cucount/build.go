package cucount

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed native/cucount.c
var source []byte

// ErrUnsupported is returned if calls cannot be counted: no C compiler, or another processor.
var ErrUnsupported = errors.New("calls of the CUDA driver cannot be counted")

// Build compiles the counting library into a directory and returns its path. The compiler is $CC, default cc.
func Build(ctx context.Context, dir string) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", fmt.Errorf("%w on %s: the library is written for x86-64", ErrUnsupported, runtime.GOARCH)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	words := strings.Fields(compiler) // such as "ccache gcc"
	if _, err := exec.LookPath(words[0]); err != nil {
		return "", fmt.Errorf("%w: %w: install a C compiler (apt-get install gcc libc6-dev), or set CC",
			ErrUnsupported, err)
	}
	file, library := filepath.Join(dir, "cucount.c"), filepath.Join(dir, "libcucount.so")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return "", err
	}
	// -O2 is needed: dlsym must leave by a tail call.
	args := append(words[1:], "-O2", "-shared", "-fPIC", "-o", library, file, "-ldl", "-lpthread")
	if out, err := exec.CommandContext(ctx, words[0], args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s: %w: %s", ErrUnsupported, compiler, err, strings.TrimSpace(string(out)))
	}
	return library, nil
}

// DirVariable is the variable with the directory of the files of counting processes.
const DirVariable = "CUCOUNT_DIR"

// Env returns environ with the variables that make a process count. Libraries that it preloads already are kept.
func Env(environ []string, library, dir string) []string {
	preload := library
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "LD_PRELOAD="); ok && v != "" {
			preload = library + ":" + v
		}
	}
	return []string{"LD_PRELOAD=" + preload, DirVariable + "=" + dir}
}
