package deps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRules holds the rules against the module.
func TestRules(t *testing.T) {
	var roots []string
	for _, r := range rules {
		roots = append(roots, r.roots...)
	}
	slices.Sort(roots)
	g, err := load("../..", slices.Compact(roots))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			found, err := g.breaches(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				t.Error(f)
			}
		})
	}
}

// module writes a module of packages with one file each and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module example.test/m\n\ngo 1.24\n"
	for name, text := range files {
		name = filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestBreaches has rules that packages break, and the chains that are reported.
func TestBreaches(t *testing.T) {
	folder := module(t, map[string]string{
		"a/a.go":   "package a\n\nimport (\n\t_ \"example.test/m/b\"\n\t_ \"fmt\"\n)\n",
		"b/b.go":   "package b\n\nimport _ \"example.test/m/c\"\n",
		"c/c.go":   "package c\n\nimport (\n\t_ \"example.test/m/c/d\"\n\t_ \"os\"\n)\n",
		"c/d/d.go": "package d\n\nimport clock \"time\"\n\nvar At, Long = clock.Now(), clock.Second\n",
	})
	g, err := load(folder, []string{"./a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		rule rule
		want []string
	}{
		{"nothing", rule{}, nil},
		{"another", rule{without: []string{"./x", "./c/d/...", "net"}, only: []string{"./b", "./c", "./c/d"}}, nil},
		{"package", rule{without: []string{"./c"}}, []string{"a -> b -> c: is not allowed: why"}},
		{"subtree", rule{without: []string{"./c/..."}}, []string{"a -> b -> c -> c/d: is not allowed: why"}},
		{"only", rule{only: []string{"./b", "./c"}},
			[]string{"a -> b -> c -> c/d: only ./b, ./c and the standard library are allowed: why"}},
		{"standard library", rule{without: []string{"os"}}, []string{"a -> fmt -> os: is not allowed: why"}},
		{"direct", rule{direct: []string{"os", "io"}}, []string{"a -> b -> c -> os: is not allowed here: why"}},
		{"time", rule{timeless: true}, []string{"a -> b -> c -> c/d: uses time.Now (d.go:5): why"}},
	} {
		c.rule.roots, c.rule.why = []string{"./a"}, "why"
		if got, err := g.breaches(c.rule); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if _, err := g.breaches(rule{roots: []string{"./missing"}}); err == nil {
		t.Error("a rule about a package that is not there: got nil, want an error")
	}
}

func TestLoadFails(t *testing.T) {
	_, err := load(module(t, map[string]string{}), []string{"./missing"})
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a package that is not there: got %v, want its name", err)
	}
}
