package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Libraries that use CUDA are found by what they are linked with, and by name; data, the driver
// itself and this program are not.
func TestUsers(t *testing.T) {
	dir := t.TempDir()
	build := func(name string, args ...string) string {
		file := filepath.Join(dir, name)
		source := filepath.Join(dir, "empty.c")
		if err := os.WriteFile(source, []byte("int cuCount(void);\nint "+strings.NewReplacer(".", "_", "-", "_", " ",
			"_").Replace(name)+"(void) { return 1; }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cc", append([]string{"-shared", "-fPIC", "-Wl,--no-as-needed", "-Wl,-soname," +
			name, "-o", file, source}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return file
	}
	driver := build("libcuda.so.1")
	linked := build("libuct_cuda.so.0", driver)
	blank := build("lib with blanks.so", driver)
	plain := build("libplain.so")
	runtime := build("libcudart.so.13")
	over := build("libover.so", runtime)
	broken := filepath.Join(dir, "libbroken.so")
	if err := os.WriteFile(broken, []byte("not ELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	var maps strings.Builder
	for i, file := range []string{driver, linked, blank, plain, runtime, over, broken, "/missing.so", linked} {
		fmt.Fprintf(&maps, "%x000-%x000 r-xp 00000000 08:01 42 %30s\n", i+1, i+2, file)
	}
	fmt.Fprintf(&maps, "1000-2000 r--p 00000000 08:01 42 /data/libcudnn.so.9\n")
	fmt.Fprintf(&maps, "1000-2000 r-xp 00000000 08:01 42 /somewhere/libtorch_cuda.so\n")
	fmt.Fprintf(&maps, "1000-2000 r-xp 00000000 08:01 42 /bin/self\n7000-8000 rw-p 0 00:00 0\n9000-a000 r-xp "+
		"00000000 00:00 0 [vdso]\nshort\n")
	want := []string{"/somewhere/libtorch_cuda.so", blank, linked, over, runtime}
	slices.Sort(want)
	if got := users(maps.String(), "/bin/self", os.DirFS("/")); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, file := range cudaUsers() { // of this process: readable, whatever it is
		if !filepath.IsAbs(file) {
			t.Errorf("%q", file)
		}
	}
}

// Contexts on other devices are told with who may have made them, that on the own one is not.
func TestWrongContexts(t *testing.T) {
	devices := []Device{{Ordinal: 0, Name: "A", UUID: "GPU-0"}, {Ordinal: 1, Name: "B", UUID: "GPU-1"},
		{Ordinal: 2, Name: "C", UUID: "GPU-2"}}
	has := func(there ...int) func(int) (bool, error) {
		return func(i int) (bool, error) { return slices.Contains(there, i), nil }
	}
	asked := 0
	libraries := []string{"/x/libone.so"}
	who := func() []string { asked++; return libraries }
	if wrong, err := wrongContexts(0, devices, has(0), who); err != nil || len(wrong) != 0 || asked != 0 {
		t.Errorf("%v, %v, asked %d times", wrong, err, asked)
	}
	wrong, err := wrongContexts(0, devices, has(0, 1, 2), who)
	if err != nil || len(wrong) != 2 || wrong[0].Device.UUID != "GPU-1" || wrong[1].Device.UUID != "GPU-2" ||
		asked != 1 {
		t.Fatalf("%v, %v", wrong, err)
	}
	if text := wrong[0].String(); !strings.Contains(text, "device 1: B (GPU-1") ||
		!strings.Contains(text, "created by /x/libone.so") || !strings.Contains(text, "CUDA_VISIBLE_DEVICES") {
		t.Error(text)
	}
	libraries = []string{"/x/a.so", "/x/b.so"}
	wrong, _ = wrongContexts(2, devices, has(1), who)
	if text := wrong[0].String(); !strings.Contains(text, "created by one of /x/a.so, /x/b.so") {
		t.Error(text)
	}
	libraries = nil
	wrong, _ = wrongContexts(2, devices, has(1), who)
	if text := wrong[0].String(); !strings.Contains(text, "no library in the process is linked with CUDA") {
		t.Error(text)
	}
	broken := errors.New("broken")
	if _, err := wrongContexts(0, devices, func(int) (bool, error) {
		return false, broken
	}, who); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
