package firstday

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// goBlocks returns the ```go blocks of a document that are whole files.
func goBlocks(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split("\n"+string(text), "\n```go\n")[1:] {
		block, _, closed := strings.Cut(part, "\n```")
		if !closed {
			t.Errorf("%s: a block of Go has no end", path)
		}
		if strings.HasPrefix(block, "package ") {
			blocks = append(blocks, block+"\n")
		}
	}
	return blocks
}

// Every whole Go file in the documents compiles in a module of a user.
func TestDocumentsCompile(t *testing.T) {
	leak.Check(t)
	dir, err := newModule("documents")
	if err != nil {
		t.Fatal(err)
	}
	root, n := repository(), 0
	pages := []string{filepath.Join(root, "README.md")}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if filepath.Base(page) == "cookbook.md" {
			continue // TestCookbook
		}
		for _, block := range goBlocks(t, page) {
			n++
			name := fmt.Sprintf("%s%d", strings.TrimSuffix(filepath.Base(page), ".md"), n)
			file := "main.go"
			if strings.Contains(block, "testing.T") {
				file = "main_test.go"
			}
			write(t, filepath.Join(dir, strings.ToLower(name), file), block)
		}
	}
	if n < 8 {
		t.Errorf("got %d whole programs in the documents, want at least 8", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "vet", "-mod=mod", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the programs of the documents do not compile: %v\n%s", err, out)
	}
}

// cookbook is a program with all recipes of the cookbook, each in a package of its own.
var cookbook = sync.OnceValues(func() (string, error) { return filepath.Join(work, "cookbook.bin"), nil })

// Every recipe of the cookbook runs and prints what its last comment says.
func TestCookbook(t *testing.T) {
	leak.Check(t)
	blocks := goBlocks(t, filepath.Join(repository(), "docs", "guide", "cookbook.md"))
	if len(blocks) < 6 {
		t.Fatalf("got %d recipes, want at least 6", len(blocks))
	}
	dir, err := newModule("cookbook")
	if err != nil {
		t.Fatal(err)
	}
	main := strings.Replace(blocks[0], "run(ctx, c)", "recipes[os.Args[1]](ctx, c)", 1)
	main = strings.Replace(main, `"log"`, "\"log\"\n\t\"os\"", 1)
	imports, table := "", "\nvar recipes = map[string]func(context.Context, *millstream.Client) error{\n"
	var outputs []string
	for i, block := range blocks[1:] {
		name := fmt.Sprintf("recipe%d", i+1)
		_, output, ok := strings.Cut(block, "\n// Output: ")
		if !ok {
			t.Fatalf("%s has no output:\n%s", name, block)
		}
		outputs = append(outputs, strings.TrimSpace(output))
		block = strings.Replace(block, "package main", "package "+name, 1)
		block = strings.Replace(block, "func run(", "// Run is the recipe.\nfunc Run(", 1)
		// One program has all functions: their names must differ.
		block = strings.ReplaceAll(block, `Func("`, `Func("`+name+".")
		block = strings.ReplaceAll(block, `Func2("`, `Func2("`+name+".")
		write(t, filepath.Join(dir, name, "recipe.go"), block)
		imports += "\t\"example.com/cookbook/" + name + "\"\n"
		table += fmt.Sprintf("\t%q: %s.Run,\n", name, name)
	}
	main = strings.Replace(main, "import (\n", "import (\n"+imports, 1) + table + "}\n"
	write(t, filepath.Join(dir, "main.go"), main)
	path, _ := cookbook()
	if err := goBuild(dir, "-mod=mod", "-o", path, "."); err != nil {
		t.Fatal(err)
	}
	for i, want := range outputs {
		name := fmt.Sprintf("recipe%d", i+1)
		t.Run(name, func(t *testing.T) {
			got := run(t, cookbook, name)
			if got.code != 0 || strings.TrimSpace(got.stdout) != want {
				t.Errorf("got %q and exit code %d, want %q and 0", got.text, got.code, want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Every program of the tutorial runs and prints the text block that follows it.
func TestTutorial(t *testing.T) {
	leak.Check(t)
	text, err := os.ReadFile(filepath.Join(repository(), "docs", "guide", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := newModule("tutorial")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "\n```go\n")[1:]
	if len(parts) < 5 {
		t.Fatalf("got %d programs, want at least 5", len(parts))
	}
	for i, part := range parts {
		program, rest, _ := strings.Cut(part, "\n```")
		_, output, ok := strings.Cut(rest, "\n```text\n")
		want, _, closed := strings.Cut(output, "\n```")
		if !ok || !closed {
			t.Fatalf("program %d has no output:\n%s", i+1, program)
		}
		name := fmt.Sprintf("step%d", i+1)
		t.Run(name, func(t *testing.T) {
			write(t, filepath.Join(dir, name, "main.go"), program+"\n")
			path := filepath.Join(work, "tutorial-"+name)
			if err := goBuild(dir, "-mod=mod", "-o", path, "./"+name); err != nil {
				t.Fatal(err)
			}
			got := run(t, func() (string, error) { return path, nil })
			if got.code != 0 || strings.TrimSpace(got.stdout) != want {
				t.Errorf("got %q and exit code %d, want %q and 0", got.text, got.code, want)
			}
		})
	}
}
