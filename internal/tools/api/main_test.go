package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n", "m.go": "package m\n\ntype T int\n\nfunc (T) M() {}\nfunc (T) n() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	err := run(&out, root, true, "", 10)
	if err == nil || !strings.Contains(err.Error(), "api/millstream.txt; run make api") {
		t.Errorf("got error %v of a check without a listing, want one that names file and fix", err)
	}
	if _, err := os.Stat(filepath.Join(root, "api")); !os.IsNotExist(err) {
		t.Errorf("a check wrote the listing: %v", err)
	}
	if err := run(&out, root, false, "", 10); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 packages", "  2\n", "..T"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, out.String())
		}
	}
	got, err := os.ReadFile(filepath.Join(root, "api", "millstream.txt"))
	if want := "method (T) M()\ntype T int\n"; err != nil || string(got) != want {
		t.Errorf("got listing %q, %v; want %q", got, err, want)
	}
	if err := run(&out, root, true, "", 10); err != nil {
		t.Errorf("got error %v of a check right after writing, want none", err)
	}
	// The listing of a release is compared from then on.
	if err := run(&out, root, false, "v0.1.0", 10); err != nil {
		t.Fatal(err)
	}
	change := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("CHANGELOG.md", "# Changes\n\n## Unreleased\n")
	change("m.go", "package m\n\ntype T int\n")
	if err := run(&out, root, false, "", 10); err != nil {
		t.Fatal(err)
	}
	err = run(&out, root, true, "", 10)
	if err == nil || !strings.Contains(err.Error(), "api/v0.1.0/millstream.txt: removed or changed: method (T) M()") {
		t.Errorf("got error %v of a removed method, want one that names it", err)
	}
	change("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n### Removed\n\n- `T.M`: not needed.\n")
	if err := run(&out, root, true, "", 10); err != nil {
		t.Errorf("got error %v of a removed method that CHANGELOG.md names, want none", err)
	}
}
