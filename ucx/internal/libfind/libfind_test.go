package libfind

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// library makes an empty libucp in a folder, with modules of transports.
func library(t *testing.T, modules ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ucx"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := []string{BareName}
	for _, m := range modules {
		files = append(files, "ucx/libuct_"+m+".so.0")
	}
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, BareName)
}

func TestCandidates(t *testing.T) {
	first, second := library(t), library(t)
	alias := filepath.Join(t.TempDir(), BareName)
	if err := os.Symlink(first, alias); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LD_LIBRARY_PATH", filepath.Dir(first)+"::"+filepath.Dir(alias)+":"+filepath.Dir(second)+":/nowhere")
	got := Candidates()
	if got[len(got)-1] != BareName {
		t.Errorf("last of %q: want %s", got, BareName)
	}
	own := slices.DeleteFunc(got, func(p string) bool { return p != first && p != alias && p != second })
	if want := []string{first, second}; !slices.Equal(own, want) {
		t.Errorf("of LD_LIBRARY_PATH: got %q, want %q", own, want)
	}
}

func TestHasModule(t *testing.T) {
	lib := library(t, "cuda")
	alias := filepath.Join(t.TempDir(), "libucp.so")
	if err := os.Symlink(lib, alias); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path, module string
		want         bool
	}{{lib, "cuda", true}, {alias, "cuda", true}, {lib, "ib", false}, {"/nowhere/" + BareName, "cuda", false}} {
		if got := HasModule(tc.path, tc.module); got != tc.want {
			t.Errorf("HasModule(%s, %s) = %t, want %t", tc.path, tc.module, got, tc.want)
		}
	}
	if !SamePath(lib, alias) || SamePath(lib, library(t)) || SamePath("/nowhere/a", "/nowhere/b") {
		t.Error("SamePath: want true for a link to one file, false for two files and for files that are not there")
	}
}

func TestLater(t *testing.T) {
	a, b := library(t), library(t)
	if got, want := Later(a, []string{b, BareName}), []string{b + ": later in the search order"}; !slices.Equal(got,
		want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if boolOrder(true, false) >= 0 || boolOrder(false, true) <= 0 || boolOrder(true, true) != 0 {
		t.Error("boolOrder: want true before false")
	}
}
