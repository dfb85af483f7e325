//go:build cgo

package ncclapi

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unsafe"
)

//go:embed abi.h
var abiHeader string

// The struct that Go writes and C reads.
func TestOpLayout(t *testing.T) {
	if unsafe.Sizeof(Op{}) != opSize || opSize != 40 {
		t.Errorf("Op is %d bytes in Go, %d in C", unsafe.Sizeof(Op{}), opSize)
	}
}

func TestTexts(t *testing.T) {
	for r := NotLoaded; r <= InProgress; r++ {
		if r != Success && strings.HasPrefix(r.Text(), "result ") {
			t.Errorf("result %d has no words", r)
		}
	}
	if Result(99).Text() == "" {
		t.Error("a result of the future has no words")
	}
}

// headers returns the <nccl.h> files of this machine, and where <cuda_runtime.h> lies for it.
func headers() (nccl, cuda []string) {
	glob := func(patterns ...string) (found []string) {
		for _, p := range patterns {
			m, _ := filepath.Glob(p)
			found = append(found, m...)
		}
		return found
	}
	return glob("/usr/include/nccl.h", "/usr/local/lib/python3*/*-packages/nvidia/nccl/include/nccl.h",
			"/opt/*/lib/python3*/site-packages/nvidia/nccl/include/nccl.h",
			"/usr/lib/python3*/*-packages/nvidia/nccl/include/nccl.h"),
		glob("/usr/local/cuda*/include")
}

// TestGPUABI compares all that abi.h declares with the real headers, which machines with a GPU
// and CUDA's toolkit have.
func TestGPUABI(t *testing.T) {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil {
		t.Skip("no GPU: /dev/nvidiactl is not there")
	}
	found, includes := headers()
	if len(found) == 0 || len(includes) == 0 {
		t.Fatalf("no nccl.h or no CUDA toolkit beside the GPU (%q, %q): install libnccl-dev", found, includes)
	}
	var source strings.Builder
	source.WriteString("#include <nccl.h>\n#define NCCLAPI_WITH_NCCL_H\n#include \"abi.h\"\n")
	n := 0
	for _, m := range regexp.MustCompile(`(?m)^\t(NCCLAPI_\w+) = [^,]+,\s+// (\w+)(?:, as an int)?$`).FindAllStringSubmatch(abiHeader, -1) {
		left := m[1]
		if m[1] == "NCCLAPI_CONFIG_MAGIC" {
			continue // looked for below
		}
		fmt.Fprintf(&source, "_Static_assert((long)%s == (long)(%s), \"%s\");\n", left, m[2], left)
		n++
	}
	if n < 11 {
		t.Fatalf("%d constants of abi.h name their origin", n)
	}
	for _, member := range []string{"size", "magic", "version", "blocking", "cgaClusterSize", "minCTAs", "maxCTAs",
		"netName", "splitShare"} {
		fmt.Fprintf(&source, "_Static_assert(offsetof(struct ncclapi_config, %[1]s) == offsetof(ncclConfig_t, %[1]s) "+
			"&& sizeof(((struct ncclapi_config *)0)->%[1]s) == sizeof(((ncclConfig_t *)0)->%[1]s), \"%[1]s\");\n",
			member)
	}
	source.WriteString("_Static_assert(sizeof(ncclUniqueId) == 128, \"id\");\n#define SAME(required, symbol, ...) " +
		"static ncclapi_result (*check_##symbol)(__VA_ARGS__) __attribute__((unused)) = " +
		"symbol;\nNCCLAPI_FUNCTIONS(SAME)\n")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("abi.h", abiHeader)
	file := write("check.c", source.String())
	for _, h := range found {
		out, err := exec.Command("cc", "-std=gnu11", "-Werror", "-c", "-I", filepath.Dir(h), "-I", includes[0], "-I",
			dir, "-o", filepath.Join(dir, "check.o"), file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", h, err, out)
		}
		// The number stands in an initializer, which no assertion can look into.
		text, err := os.ReadFile(h)
		if err != nil || !strings.Contains(string(text), "0xcafebeef") {
			t.Errorf("%s: no magic number 0xcafebeef (%v)", h, err)
		}
	}
}
