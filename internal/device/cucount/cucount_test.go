package cucount

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func compile(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc %v: %v\n%s", args, err, out)
	}
}

// Calls are counted however the function was found, arguments and results go through, and what
// is not asked for is left alone. A library of the same names stands for the driver.
func TestCounts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	library, err := Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	compile(t, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", filepath.Join(dir, "libcuda.so.1"),
		"testdata/libcuda.c")
	caller := filepath.Join(dir, "caller")
	compile(t, "-o", caller, "testdata/caller.c", filepath.Join(dir, "libcuda.so.1"), "-ldl")
	cmd := exec.CommandContext(ctx, caller)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	cmd.Env = append(cmd.Env, Env(cmd.Env, library, dir)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, err := OpenPID(dir, cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := Counts{"cuIpcOpenMemHandle_v2": 4, "cuMemImportFromShareableHandle": 1, "cuInit": 1, "cuMany": 1,
		"cuMemAlloc_v2": 5}
	if d := got.Since(nil); !maps.Equal(d, want) {
		t.Errorf("counted %v, want %v", d, want)
	}
	if got.Mappings() != 5 || got.Total() != 12 {
		t.Errorf("mappings %d, total %d", got.Mappings(), got.Total())
	}
	if d := got.Since(got); len(d) != 0 {
		t.Errorf("since itself: %v", d)
	}
	if _, known := got["cuNothing"]; known {
		t.Error("a function that does not exist has a counter")
	}
}

// A table that came to its end, or is damaged, is read without surprise.
func TestParse(t *testing.T) {
	data := slices.Repeat([]byte{0xff}, fileBytes)
	if c := parse(data); len(c) != 0 {
		t.Errorf("%v", c)
	}
}

func TestErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Setenv(DirVariable, "")
	if _, err := Open(); err == nil || !strings.Contains(err.Error(), DirVariable) {
		t.Errorf("%v", err)
	}
	if _, err := OpenPID(t.TempDir(), 1); err == nil || !strings.Contains(err.Error(), "process 1 does not count") {
		t.Errorf("%v", err)
	}
	for compiler, want := range map[string]string{"/nowhere/cc": "install a C compiler",
		"false": "false: exit status 1"} {
		t.Setenv("CC", compiler)
		if _, err := Build(ctx, t.TempDir()); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("CC=%s: %v", compiler, err)
		}
	}
	env := Env([]string{"LD_PRELOAD=/a.so", "X=y"}, "/b.so", "/d")
	if !slices.Equal(env, []string{"LD_PRELOAD=/b.so:/a.so", DirVariable + "=/d"}) {
		t.Errorf("%v", env)
	}
}
