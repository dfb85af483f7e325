package bundle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dir is the folder of src and dist.
const dir = "../.."

// TestDist requires that dist was built from src.
func TestDist(t *testing.T) {
	files, err := Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	stale, err := Stale(dir, files)
	if err != nil {
		t.Fatal(err)
	}
	if len(stale) > 0 {
		t.Errorf("got stale files %v in dist, want none; run make dashboard", stale)
	}
	if got := size(files); got > MaxBytes || got < 10000 {
		t.Errorf("got a page of %d bytes, want 10,000 to %d", got, MaxBytes)
	}
}

// copied returns a folder with a copy of the sources.
func copied(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(filepath.Join(to, "src"), os.DirFS(filepath.Join(dir, "src"))); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestStale(t *testing.T) {
	d := copied(t)
	files, err := Build(d)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		stale, err := Stale(d, files)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(stale, " "); got != want {
			t.Errorf("got stale files %q, want %q", got, want)
		}
	}
	check("app.css app.js index.html")
	if _, err := Write(d, files); err != nil {
		t.Fatal(err)
	}
	check("")
	for _, name := range []string{"app.js", "other.js"} {
		if err := os.WriteFile(filepath.Join(d, "dist", name), []byte("0"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check("other.js app.js")
}

func TestBuildError(t *testing.T) {
	d := copied(t)
	if err := os.WriteFile(filepath.Join(d, "src", "main.ts"), []byte("const x = ;"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(d); err == nil || !strings.Contains(err.Error(), "main.ts:1") {
		t.Errorf("got error %v, want one that names main.ts:1", err)
	}
	large := "export const x = '" + strings.Repeat("x", MaxBytes) + "'; console.log(x);"
	if err := os.WriteFile(filepath.Join(d, "src", "main.ts"), []byte(large), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(d); err == nil || !strings.Contains(err.Error(), "bytes, more than") {
		t.Errorf("got error %v, want one about the size", err)
	}
}
