package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRootAndModule(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{"go.mod": "// why\nmodule example.org/x // note\n\ngo 1.26\n",
		"a/b/c.go": "package b\n"})
	got, err := Root(filepath.Join(root, "a", "b"))
	if err != nil || got != root {
		t.Fatalf("Root = %q, %v; want %q", got, err, root)
	}
	mod, err := Module(root)
	if err != nil || mod != "example.org/x" {
		t.Fatalf("Module = %q, %v", mod, err)
	}
}

func TestRootOutsideAnyModule(t *testing.T) {
	const dir = "/proc/sys"
	if root, err := Root(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Root(%s) = %q, %v; want an error that names it", dir, root, err)
	}
}

func TestModuleErrors(t *testing.T) {
	root := t.TempDir()
	if _, err := Module(root); err == nil {
		t.Error("no go.mod: want an error")
	}
	write(t, root, map[string]string{"go.mod": "go 1.26\n"})
	if _, err := Module(root); err == nil {
		t.Error("no module line: want an error")
	}
}

func TestFiles(t *testing.T) {
	content := map[string]string{
		"go.mod": "module m\n", "a.go": "package m\n", ".gitignore": "/bin/\n/.local/\n/dist/\n__pycache__/\n",
		"bin/tool": "x", ".local/venv/x.py": "x", "dist/y": "y", ".ci/run": "z", "py/__pycache__/a.pyc": "p",
		"py/a.py": "a",
	}
	want := []string{".ci/run", ".gitignore", "a.go", "go.mod", "py/a.py"}
	t.Run("archive", func(t *testing.T) {
		root := t.TempDir()
		write(t, root, content)
		got, err := Files(root)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Files = %q, %v; want %q", got, err, want)
		}
	})
	t.Run("git", func(t *testing.T) {
		root := t.TempDir()
		write(t, root, content)
		git := func(args ...string) {
			t.Helper()
			if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v: %s", args, err, out)
			}
		}
		git("init", "-q")
		write(t, root, map[string]string{"gone.go": "package m\n"})
		git("add", "gone.go", "a.go")
		if err := os.Remove(filepath.Join(root, "gone.go")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(root, "link")); err != nil {
			t.Fatal(err)
		}
		got, err := Files(root)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Files = %q, %v; want %q", got, err, want)
		}
	})
}

func TestGoFiles(t *testing.T) {
	got := GoFiles([]string{"a.go", "a.c", "p/testdata/b.go", "p/_x/c.go", "p/.h/d.go", "p/e_test.go", "nested/go.mod",
		"nested/f.go", "vendor/g.go"})
	if want := []string{"a.go", "p/e_test.go"}; !slices.Equal(got, want) {
		t.Errorf("GoFiles = %q, want %q", got, want)
	}
	got = GoFiles([]string{"a.go", "b/go.mod", "b/c.go", "d/go.mod", "d/e.go"}, "b")
	if want := []string{"a.go", "b/c.go"}; !slices.Equal(got, want) {
		t.Errorf("GoFiles with module b = %q, want %q", got, want)
	}
}

func TestWorkspace(t *testing.T) {
	root := t.TempDir()
	if got, err := Workspace(root); err != nil || got != nil {
		t.Errorf("Workspace without go.work = %q, %v", got, err)
	}
	write(t, root, map[string]string{"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./b // why\n\t\"./c/d/\"\n)\n\nuse ./e\n"})
	got, err := Workspace(root)
	if want := []string{"b", "c/d", "e"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Workspace = %q, %v; want %q", got, err, want)
	}
}
