package surface

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var sources = map[string]string{
	"go.mod":  "module example.org/m\n\ngo 1.26\n",
	"root.go": "package m\n\nimport \"example.org/m/internal/deep\"\n\ntype Alias = deep.Thing\n",
	"a/a.go": `package a

import (
	"context"

	"example.org/m/internal/deep"
)

const (
	First Kind = iota
	Second
	third
)

const Limit = 8

var ErrX, errY error

type Kind int

func (k Kind) String() string { return "" }

type base struct{ Inner int }

func (base) Promoted(n int) {}

type Box[T any] struct {
	base
	*deep.Thing
	Value T
	small T
}

func (b *Box[T]) Get(
	ctx context.Context,
	key string,
) (T, error) {
	return b.Value, nil
}

type Reader interface {
	Read(p []byte) (int, error)
	hidden()
}

type hidden struct{}

func (hidden) Shown() {}

func Map[K comparable, V any](m map[K]V) {}
func private()                           {}
`,
	"a/a_cgo.go":   "//go:build cgo\n\npackage a\n\nfunc Twin() int { return 1 }\n",
	"a/a_nocgo.go": "//go:build !cgo\n\npackage a\n\nfunc Twin() int { return 0 }\nfunc OnlyWithoutCgo() {}\n",
	"a/a_test.go":  "package a\n\nfunc InTest() {}\n",
	"internal/deep/deep.go": "package deep\n\ntype Thing struct{ Depth int }\n\nfunc (*Thing) Dive() {}\nfunc " +
		"(*Thing) up() {}\n",
	"tests/t/t.go":  "package t\n\nfunc T() {}\n",
	"cmd/m/main.go": "package main\n\nfunc Main() {}\n",
	"tool/main.go":  "package main\n\nfunc Main() {}\n",
	"side/side.go":  "package side\n\nvar files []string\n\nfunc init() { files = nil }\n",
	"bench/go.mod":  "module example.org/m/bench\n",
	"bench/b.go":    "package bench\n\nfunc B() {}\n",
}

func module1(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range sources {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRead(t *testing.T) {
	a, err := Read(module1(t))
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Dir: ".", Names: 1, Lines: []string{
			"promoted field Alias.Depth int",
			"promoted method Alias.Dive()",
			"type Alias = deep.Thing",
		}},
		{Dir: "a", Names: 11, Lines: []string{
			"const First Kind",
			"const Limit = 8",
			"const Second Kind",
			"field Box.*deep.Thing (embedded)",
			"field Box.Value T",
			"func Map[K comparable, V any](m map[K]V)",
			"func Twin() int",
			"interface method Reader.Read(p []byte) (int, error)",
			"method (*Box[T]) Get(ctx context.Context, key string) (T, error)",
			"method (Kind) String() string",
			"promoted field Box.Depth int",
			"promoted field Box.Inner int",
			"promoted method Box.Dive()",
			"promoted method Box.Promoted(n int)",
			"type Box[T any] struct",
			"type Kind int",
			"type Reader interface",
			"var ErrX error",
		}},
	}
	if len(a.Packages) != len(want) {
		t.Fatalf("got packages %+v, want %d", a.Packages, len(want))
	}
	for i, w := range want {
		got := a.Packages[i]
		if got.Dir != w.Dir || got.Names != w.Names || !slices.Equal(got.Lines, w.Lines) {
			t.Errorf("package %s: got %d names\n%s\nwant %s, %d names\n%s", got.Dir, got.Names,
				strings.Join(got.Lines, "\n"), w.Dir, w.Names, strings.Join(w.Lines, "\n"))
		}
	}
	if a.Names() != 12 {
		t.Errorf("got %d names in total, want 12", a.Names())
	}
	if got, want := a.MethodSets[0], (MethodSet{"internal/deep", "Thing", 1, 2}); got != want {
		t.Errorf("got largest method set %+v, want %+v", got, want)
	}
}

func TestStaleAndWrite(t *testing.T) {
	root := module1(t)
	stale := func() string {
		t.Helper()
		a, err := Read(root)
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Stale(root)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(s, " ")
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	update := func() {
		t.Helper()
		a, err := Read(root)
		if err == nil {
			err = a.Write(root)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s := stale(); s != "" {
			t.Errorf("stale after Write: %s", s)
		}
	}
	if got, want := stale(), "api/a.txt api/millstream.txt"; got != want {
		t.Errorf("got stale %q without a listing, want %q", got, want)
	}
	update()
	write("a/more.go", "package a\n\nfunc More() {}\n")
	write("api/gone.txt", "func Gone()\n")
	if got, want := stale(), "api/a.txt api/gone.txt"; got != want {
		t.Errorf("got stale %q, want %q", got, want)
	}
	update()
	if _, err := os.Stat(filepath.Join(root, "api/gone.txt")); !os.IsNotExist(err) {
		t.Errorf("the listing of a package that is gone was kept: %v", err)
	}
	write("a/more.go", "package a\n\nfunc More() { println() }\n")
	if got := stale(); got != "" {
		t.Errorf("got stale %q after a change of a body, want none", got)
	}
}

func TestReadRejectsSyntaxErrors(t *testing.T) {
	root := module1(t)
	if err := os.WriteFile(filepath.Join(root, "a/bad.go"), []byte("package a\n\nfunc {\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(root); err == nil || !strings.Contains(err.Error(), "a/bad.go") {
		t.Errorf("got error %v, want one that names a/bad.go", err)
	}
}
