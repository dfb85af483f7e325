package dask

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// The comparison of two runs of a suite counts only tests that reached a scheduler, and wants a reason for each
// test that passes on Dask's alone.
func TestSuiteCompares(t *testing.T) {
	dir := t.TempDir()
	write := func(run string, entries ...map[string]any) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, "dask-"+run), 0o777); err != nil {
			t.Fatal(err)
		}
		var lines []byte
		for _, e := range entries {
			line, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := os.WriteFile(filepath.Join(dir, "dask-"+run, "1.jsonl"), lines, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	entry := func(id, outcome string, tasks int) map[string]any {
		return map[string]any{"id": id, "outcome": outcome, "tasks": tasks, "cluster": false, "seconds": 1,
			"text": "E   because"}
	}
	write("dask", entry("a::same", "passed", 3), entry("a::local", "passed", 0), entry("a::known", "passed", 2),
		entry("a::new", "passed", 2), entry("a::better", "failed", 2), entry("a::hung", "passed", 2))
	write("ours-python", entry("a::same", "passed", 3), entry("a::local", "failed", 0), entry("a::known", "failed", 2),
		entry("a::new", "failed", 2), entry("a::better", "passed", 2), map[string]any{"start": "a::hung"},
		entry("a::hung", "crashed", 0), map[string]any{"start": "a::stopped"})
	reasons := filepath.Join(dir, "reasons.toml")
	if err := os.WriteFile(reasons, []byte("[[difference]]\ntest = \"::known$\"\nreason = \"it is "+
		"late\"\n[[difference]]\ntest = \"::new$\"\nmodes = [\"ours-go\"]\nreason = \"another mode\"\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	r := rig.New(t)
	cmd := exec.CommandContext(t.Context(), r.Interpreter, filepath.Join(rig.Root(), "tests", "dask", "suite",
		"run.py"), "compare", "--out", dir, "--reasons", reasons, "--mode", "ours-python")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("unexplained differences were let pass:\n%s", out)
	}
	for _, want := range []string{
		"6 tests were run on both schedulers, 5 reached them (9 tasks on ours)",
		"passed with the Dask scheduler  4", "passed with ours                2",
		"pass with Dask and not with ours: 3; vice versa: 1",
		"reason: it is late", "failed   a::new\n           reason: UNEXPLAINED", "crashed  a::hung\n           " +
			"reason: UNEXPLAINED",
		"unexplained differences: 2",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "a::local") {
		t.Errorf("a test that reached no scheduler is compared:\n%s", out)
	}
}
