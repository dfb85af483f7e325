//go:build cgo

package nvrtcapi

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed abi.h
var abiHeader string

// headers returns the <nvrtc.h> files of this machine: of the release that scripts/setup unpacks into .local/nvrtc, of
// CUDA itself, and of Python packages in a project-local environment.
func headers(t *testing.T) []string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pattern := range []string{
		root + "/.local/nvrtc/include/nvrtc.h", "/usr/local/cuda*/include/nvrtc.h",
		root + "/.local/*/lib/python3*/site-packages/nvidia/*/include/nvrtc.h",
	} {
		m, _ := filepath.Glob(pattern)
		found = append(found, m...)
	}
	if len(found) == 0 {
		t.Fatal("no nvrtc.h, want .local/nvrtc/include/nvrtc.h: run scripts/setup test")
	}
	return found
}

// TestABI compares the prototypes of abi.h with the real headers.
func TestABI(t *testing.T) {
	src := "#include <nvrtc.h>\n#define NVRTCAPI_WITH_NVRTC_H\n" + abiHeader + `
_Static_assert(sizeof(nvrtcResult) == sizeof(int) && NVRTC_SUCCESS == 0, "nvrtcResult");
#define PROTOTYPE(required, symbol, ...) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), nvrtcResult (*)(__VA_ARGS__)), #symbol);
NVRTCAPI_FUNCTIONS(PROTOTYPE)
`
	file := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, h := range headers(t) {
		cmd := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "-I", filepath.Dir(h), file)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", h, err, out)
		}
	}
}

func TestNothingLoaded(t *testing.T) {
	if err := Load(filepath.Join(t.TempDir(), "libnone.so"), false); err == nil {
		t.Error("a library that does not exist was loaded")
	}
	if err := Load("libm.so.6", false); err == nil {
		t.Error("libm was taken for NVRTC")
	}
	if _, _, r := Compile("", "x.cu", nil, nil, nil, false); r != NotLoaded {
		t.Errorf("Compile: %d", r)
	}
	if major, minor := Version(); major != 0 || minor != 0 || Path() != "" {
		t.Errorf("%d.%d of %q", major, minor, Path())
	}
}
