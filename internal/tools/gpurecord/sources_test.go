package gpurecord

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"go.millstream.dev/internal/tools/testfuncs"
)

// TestSources: which changes of a tree change the hashes of which packages.
func TestSources(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tree := map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		// p imports q, which embeds; its tests import r; s has nothing to do with it.
		"p/p.go":                "package p\n\nimport _ \"example.org/m/q\"\n",
		"p/p_test.go":           "package p\n",
		"p/x_test.go":           "package p_test\n\nimport _ \"example.org/m/r\"\n",
		"p/testdata/deep/a.txt": "a",
		"p/notes.txt":           "",
		"q/q.go":                "package q\n\nimport _ \"embed\"\n\n//go:embed code/*.ptx\nvar code string\n",
		"q/q_nocgo.go":          "//go:build !cgo\n\npackage q\n",
		"q/q_test.go":           "package q\n",
		"q/k.cu":                "// kernel",
		"q/code/k.ptx":          "// code",
		"q/testdata/q.txt":      "",
		"r/r.go":                "package r\n",
		"s/s.go":                "package s\n",
		"s/s_test.go":           "package s\n",
	}
	for name, text := range tree {
		write(name, text)
	}
	packages := []string{"example.org/m/p", "example.org/m/s"}
	hashes := func() map[string]string {
		t.Helper()
		h, err := Sources(t.Context(), root, packages)
		if err != nil {
			t.Fatal(err)
		}
		if len(h) != 2 || len(h[packages[0]]) != 64 || len(h[packages[1]]) != 64 || h[packages[0]] == h[packages[1]] {
			t.Fatalf("hashes %v, want two", h)
		}
		return h
	}
	first := hashes()
	for name, text := range tree {
		if name == "go.mod" {
			continue
		}
		write(name, text+"\n// changed\n")
		if now := hashes(); filepath.Ext(name) == ".go" && !maps.Equal(now, first) {
			t.Errorf("%s: a comment changed the hashes", name)
		}
		write(name, text+"\nvar changed int // changed\n")
		now := hashes()
		wantP := map[string]bool{"p/notes.txt": false, "q/q_test.go": false, "q/testdata/q.txt": false, "s/s.go": false,
			"s/s_test.go": false}
		want, ok := wantP[name]
		if changed := now[packages[0]] != first[packages[0]]; changed != (want || !ok) {
			t.Errorf("%s: p changed = %t, want %t", name, changed, want || !ok)
		}
		if changed := now[packages[1]] != first[packages[1]]; changed != (filepath.Dir(name) == "s") {
			t.Errorf("%s: s changed = %t", name, changed)
		}
		write(name, text)
	}
	if again := hashes(); !maps.Equal(again, first) {
		t.Errorf("hashes of the same tree: %v and %v", first, again)
	}
	t.Setenv("CGO_ENABLED", "0")
	if again := hashes(); !maps.Equal(again, first) {
		t.Errorf("without cgo: %v, want %v", again, first)
	}
}

func TestStale(t *testing.T) {
	a := testfuncs.Func{Package: "m/p", Name: "TestGPUA"}
	b := testfuncs.Func{Package: "m/p", Name: "TestGPUB"}
	c := testfuncs.Func{Package: "m/q", Name: "TestGPUC"}
	tests := []testfuncs.Func{a, b, c}
	now := map[string]string{"m/p": "1", "m/q": "2"}
	for _, k := range []struct {
		name   string
		record *Record
		want   []testfuncs.Func
	}{
		{"no record", nil, tests},
		{"without hashes", full(), tests},
		{"current", &Record{Sources: now}, []testfuncs.Func{}},
		{"one package changed", &Record{Sources: map[string]string{"m/p": "0", "m/q": "2"}}, []testfuncs.Func{a, b}},
		{"one package new", &Record{Sources: map[string]string{"m/p": "1"}}, []testfuncs.Func{c}},
	} {
		if got := k.record.Stale(tests, now); !reflect.DeepEqual(got, k.want) {
			t.Errorf("%s: stale %v, want %v", k.name, got, k.want)
		}
	}
	if got := (&Record{}).Stale(tests, map[string]string{}); len(got) != 3 {
		t.Errorf("neither has hashes: stale %v, want all", got)
	}
	want := []string{"m/p: TestGPUA TestGPUB", "m/q: TestGPUC"}
	if got := Lines(tests); !reflect.DeepEqual(got, want) {
		t.Errorf("Lines = %q, want %q", got, want)
	}
}
