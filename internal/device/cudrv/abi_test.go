//go:build cgo

package cudrv

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

//go:embed abi.h
var abiHeader string

// cudaHeaders returns the <cuda.h> files of this machine: of CUDA itself, of the distribution,
// and of the PyPI package in a project-local environment.
func cudaHeaders(t *testing.T) []string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{
		"/usr/local/cuda*/include/cuda.h", "/usr/include/cuda.h", "/opt/cuda/include/cuda.h",
		root + "/.local/*/lib/python3*/site-packages/nvidia/*/include/cuda.h",
		root + "/.local/*/*/lib/python3*/site-packages/nvidia/*/include/cuda.h",
	}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if dir := os.Getenv(v); dir != "" {
			patterns = append(patterns, dir+"/include/cuda.h")
		}
	}
	var found []string
	for _, p := range patterns {
		m, _ := filepath.Glob(p)
		found = append(found, m...)
	}
	return found
}

func compiler(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "CC").Output()
	if err == nil && strings.TrimSpace(string(out)) != "" {
		return strings.TrimSpace(string(out))
	}
	return "cc" // a test binary that runs without the go tool
}

// constants reads the numbers of abi.h and the names that they have in <cuda.h>.
func constants(t *testing.T) map[string]string {
	t.Helper()
	text := abiHeader
	m := map[string]string{}
	for _, f := range regexp.MustCompile(`(?m)^\t(CUDRV_\w+) = \d+, +// (CU\w+)$`).FindAllStringSubmatch(text, -1) {
		m[f[1]] = f[2]
	}
	if n := strings.Count(text, " = "); len(m) != n {
		t.Fatalf("%d constants have their origin named in abi.h, %d are there", len(m), n)
	}
	return m
}

// TestABI compares all that abi.h declares with the real header.
func TestABI(t *testing.T) {
	headers := cudaHeaders(t)
	if len(headers) == 0 {
		t.Fatal("no cuda.h, want one of the Python peers or of CUDA: run scripts/setup test, or set CUDA_HOME")
	}
	var src strings.Builder
	fmt.Fprintf(&src, "#include <cuda.h>\n#define CUDRV_WITH_CUDA_H\n%s\n", abiHeader)
	for ours, theirs := range constants(t) {
		fmt.Fprintf(&src, "_Static_assert((int)%s == (int)%s, %q);\n", ours, theirs, theirs)
	}
	for r, name := range names {
		if r >= 0 {
			fmt.Fprintf(&src, "_Static_assert(%d == %s, %q);\n", r, name, name)
		}
	}
	src.WriteString(`
_Static_assert(sizeof(CUdeviceptr) == 8, "CUdeviceptr");
_Static_assert(sizeof(CUdevice) == sizeof(int), "CUdevice");
_Static_assert(sizeof(CUresult) == sizeof(int), "CUresult");
_Static_assert(sizeof(CUuuid) == 16, "CUuuid");
_Static_assert(sizeof(CUipcMemHandle) == 64 && _Alignof(CUipcMemHandle) == 1, "CUipcMemHandle");
_Static_assert(sizeof(CUipcEventHandle) == 64 && _Alignof(CUipcEventHandle) == 1, "CUipcEventHandle");
_Static_assert(sizeof(CUDA_MEMCPY2D) == sizeof(struct cudrv_memcpy2d_st), "CUDA_MEMCPY2D");
#define FIELD(ours, theirs) \
	_Static_assert(offsetof(struct cudrv_memcpy2d_st, ours) == offsetof(CUDA_MEMCPY2D, theirs), #theirs);
FIELD(src_type, srcMemoryType) FIELD(src_host, srcHost) FIELD(src_device, srcDevice) FIELD(src_pitch, srcPitch)
FIELD(dst_type, dstMemoryType) FIELD(dst_host, dstHost) FIELD(dst_device, dstDevice) FIELD(dst_pitch, dstPitch)
FIELD(width, WidthInBytes) FIELD(height, Height)
#define PROTOTYPE(required, symbol, ...) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult (*)(__VA_ARGS__)), #symbol);
CUDRV_FUNCTIONS(PROTOTYPE)
`)
	file := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(file, []byte(src.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		cmd := exec.Command(compiler(t), "-std=gnu11", "-fsyntax-only", "-I", filepath.Dir(h), file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", h, err, out)
		}
	}
}

// TestABINamesOrigins: a constant whose origin is not named cannot be checked by TestABI.
func TestABINamesOrigins(t *testing.T) {
	if m := constants(t); m["CUDRV_EVENT_DISABLE_TIMING"] != "CU_EVENT_DISABLE_TIMING" {
		t.Errorf("%v", m)
	}
}
