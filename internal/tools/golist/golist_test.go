package golist

import (
	"go/importer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"a.go":   "package m\n\nimport \"errors\"\n\n// Err is an error.\nvar Err = errors.New(\"m: no\")\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	packages, err := Run(dir, []string{"."}, "Dir,Export,GoFiles", "-export", "-deps")
	if err != nil {
		t.Fatal(err)
	}
	m := packages["m"]
	if m == nil || m.Dir == "" || len(m.GoFiles) != 1 || m.GoFiles[0] != "a.go" || packages["errors"] == nil {
		t.Fatalf("got %+v of %d packages, want m with a.go, and errors", m, len(packages))
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", Exports(packages))
	p, err := imports.Import("m")
	if err != nil || p.Scope().Lookup("Err") == nil {
		t.Errorf("import of m: got %v, %v, want a package with Err", p, err)
	}
	if _, err := imports.Import("net/http"); err == nil || !strings.Contains(err.Error(), "no export data") {
		t.Errorf("import of a package that was not listed: got %v", err)
	}
	if _, err := Run(dir, []string{"./absent"}, "Dir"); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("list of a folder that does not exist: got %v", err)
	}
}
