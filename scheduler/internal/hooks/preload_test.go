package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPreloads checks that files are sent with their content, modules and URLs by name.
func TestPreloads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pre.py")
	if err := os.WriteFile(file, []byte("x = 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := start(t, 0, 0)
	if err := r.Preload(t.Context()); err != nil || len(r.ops) != 0 {
		t.Errorf("without modules: got error %v, calls %v, want none", err, r.ops)
	}
	r.Preloads, r.PreloadArgv = []string{"module", file, "https://example.com/pre.py"}, []string{"--x"}
	body, frames, err := r.preloads()
	if err != nil || len(frames) != 1 || string(frames[0]) != "x = 1" {
		t.Fatalf("got frames %q, error %v, want the file", frames, err)
	}
	names, _ := body.Get("names")
	if got, want := fmt.Sprint(names), "[[module <nil>] [pre.py 0] [https://example.com/pre.py <nil>]]"; got != want {
		t.Errorf("names: got %s, want %s", got, want)
	}
	r.Preloads = []string{file + "/none.py"}
	if _, _, err := r.preloads(); err == nil {
		t.Error("missing file: got no error")
	}
}

// TestPreloadSize checks that a file that is too large is rejected.
func TestPreloadSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.py")
	if err := os.WriteFile(file, make([]byte, maxPreload+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readFile(file); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("got error %v, want too large", err)
	}
	if err := os.Truncate(file, maxPreload); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(file); err != nil || len(b) != maxPreload {
		t.Errorf("got %d bytes, error %v, want %d", len(b), err, maxPreload)
	}
}
