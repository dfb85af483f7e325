package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	var names []string
	for _, s := range settings("# comment\n2025.4.1\n2025.12.0\n\n") {
		names = append(names, s.String()+" "+s.skip())
	}
	want := "tcp-2025.4.1 ^TestReleases$|^TestScheduler,tcp-2025.12.0 ^TestReleases$,tls ^TestReleases$,ucxx " +
		"^TestReleases$"
	if got := strings.Join(names, ","); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

const printed = `=== RUN   TestSchedulerSubmit
--- PASS: TestSchedulerSubmit (1.00s)
    --- FAIL: TestSchedulerSubmit/part (0.00s)
--- FAIL: TestWorkerJoins (2.00s)
--- PASS: TestWorkerLeaves (2.00s)
--- PASS: TestRig (2.00s)
`

func TestTable(t *testing.T) {
	r := setting{"tcp", "2025.7.0"}.row(printed)
	if !r.failed() || r.summary() != "3 passed, 1 failed" {
		t.Errorf("failed %v, %s", r.failed(), r.summary())
	}
	if again := (setting{"tcp", "2025.7.0"}).row(printed + "--- PASS: TestWorkerJoins (3.00s)\n"); again.failed() ||
		again.summary() != "4 passed, 0 failed" {
		t.Errorf("after another try: %s", again.summary())
	}
	old := setting{"tcp", "2025.4.1"}.row("--- PASS: TestClientConnects (1.00s)\n")
	if old.failed() {
		t.Error("a run in which all passed has failed")
	}
	if nothing := (setting{"tls", ""}).row("panic"); !nothing.failed() {
		t.Error("a run without results has not failed")
	}
	got := tableOf([]row{r, old})
	for _, want := range []string{
		"| 2025.7.0 | tcp | 1 passed | 1 of 2 failed | none run |\n",
		"| 2025.4.1 | tcp | not served | none run | 1 passed |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	path := filepath.Join(t.TempDir(), "x.md")
	if err := os.WriteFile(path, []byte("a\n"+begin+"old\n"+end+"\nb\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, got); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "a\n"+begin+got+end+"\nb\n" {
		t.Errorf("the document is\n%s", text)
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, got); err == nil {
		t.Error("a document without a place took the table")
	}
}

// Settings that were run before are not run again: the table comes from what they printed.
func TestAgain(t *testing.T) {
	t.Chdir("../../..")
	list, err := os.ReadFile("tests/interop/dask-versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	o := options{logs: t.TempDir(), again: true}
	for _, s := range settings(string(list)) {
		text := "--- PASS: TestWorkerJoins (1.00s)\n"
		if s.protocol == "ucxx" {
			text = printed
		}
		if err := o.saveLog(s, text); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := o.run(t.Context(), &out); err == nil || err.Error() != "1 of 8 settings failed" {
		t.Errorf("it ends with %v", err)
	}
	for _, want := range []string{
		"| 2025.7.0 | tcp | none run | 1 passed | none run |\n",
		"| that of the peers | ucxx | 1 passed | 1 of 2 failed | none run |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	o.only = "tls"
	if err := o.run(t.Context(), &out); err != nil {
		t.Error(err)
	}
	if _, ok := (options{logs: o.logs}).loadLog(setting{"tls", ""}); ok {
		t.Error("a log was used without -again")
	}
}
