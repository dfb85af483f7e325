package report_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/cli"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
)

// runReport runs `millstream report`.
func runReport(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := cli.Command()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"report"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestReport(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "history"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := scheduler.Start(t.Context(), scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"},
		Dashboard: "127.0.0.1:0", DashboardHistory: filepath.Join(dir, "history"),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(dir, "run.html")
	out, err := runReport(t, s.Address(), "-o", file, "--since", "1h")
	if err != nil || !strings.Contains(out, "run.html written") {
		t.Errorf("report: got %q, error %v", out, err)
	}
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), `id="data"`) ||
		!strings.Contains(string(page), "<title>Report of "+s.Address()) {
		t.Errorf("file: got %.300s, error %v, want a page with data", page, err)
	}
	out, err = runReport(t, s.Address(), "-o", "-")
	if err != nil || !strings.HasPrefix(out, "<!doctype html>") {
		t.Errorf("standard output: got %.100q, error %v, want a page", out, err)
	}
	tr := filepath.Join(dir, "run.json")
	if out, err = runReport(t, s.Address(), "--trace", tr); err != nil || !strings.Contains(out, "run.json written") {
		t.Errorf("trace: got %q, error %v", out, err)
	}
	if out, err = runReport(t, "--import", tr, "-o", "-"); err != nil || !strings.Contains(out, "Report of run.json") {
		t.Errorf("report of a trace: got %.100q, error %v, want a page", out, err)
	}
	arrow := filepath.Join(dir, "run.arrow")
	if out, err = runReport(t, s.Address(), "--arrow", arrow); err != nil ||
		!strings.Contains(out, "run.arrow written") {
		t.Errorf("arrow: got %q, error %v", out, err)
	}
	if out, err = runReport(t, "--import", arrow, "-o", "-"); err != nil ||
		!strings.Contains(out, "Report of run.arrow") {
		t.Errorf("report of an Arrow stream: got %.100q, error %v, want a page", out, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err = runReport(t, "--history", filepath.Join(dir, "history"), "-o", "-"); err != nil ||
		!strings.Contains(out, "<title>Report of history") {
		t.Errorf("report of a history: got %.100q, error %v, want a page", out, err)
	}
}

func TestReportErrors(t *testing.T) {
	leak.Check(t)
	off, err := scheduler.Start(t.Context(), scheduler.Config{Listen: []string{"tcp://127.0.0.1:0"},
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer off.Close()
	for want, args := range map[string][]string{
		"exclude a scheduler":        {"tcp://127.0.0.1:1", "--history", "x"},
		"--history excludes":         {"--import", "x", "--history", "x"},
		"--trace excludes":           {"--trace", "x", "--arrow", "x"},
		"--import":                   {"--import", filepath.Join(t.TempDir(), "none")},
		"--import /dev/null":         {"--import", "/dev/null"},
		"no such file":               {"--history", filepath.Join(t.TempDir(), "none")},
		"pass one scheduler":         {"a", "b"},
		"scheduler has no dashboard": {off.Address(), "-o", "-"},
	} {
		if out, err := runReport(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, error %v, want %q", args, out, err, want)
		}
	}
}
