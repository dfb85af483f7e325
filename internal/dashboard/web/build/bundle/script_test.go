package bundle

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTypes checks the types of the sources.
func TestTypes(t *testing.T) {
	tsc := filepath.Join(dir, "../../../.local/web/node_modules/.bin/tsc")
	if out, err := exec.CommandContext(t.Context(), tsc, "--noEmit", "-p", filepath.Join(dir,
		"src")).CombinedOutput(); err != nil {
		t.Errorf("%v; run scripts/setup web if there is no tsc\n%s", err, out)
	}
}

// TestScripts runs the tests of the sources in Node.js.
func TestScripts(t *testing.T) {
	script, err := Script(dir, "test/all.ts")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "test.mjs")
	if err := os.WriteFile(name, script, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := regexp.MustCompile(`(?m)^(\d+) tests, (\d+) failed$`).FindSubmatch(out)
	if m == nil || string(m[1]) == "0" || string(m[2]) != "0" {
		t.Errorf("got\n%swant tests, 0 failed", out)
	}
}
