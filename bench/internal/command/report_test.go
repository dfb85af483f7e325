package command

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/bench/internal/report"
	"go.millstream.dev/internal/bench/benchfmt"
)

// A page is written from a record, is current then, and no longer after a change.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	in, page := filepath.Join(dir, "benchmarks"), filepath.Join(dir, "page.md")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"README.md": "# Benchmarks\n", "order.txt": "a b c\n", "a.md": "## A\n",
		"b.md": "## B\n", "c.md": "## C\n"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, bench := range map[string]string{"a": "comm", "b": "allreduce", "c": "kmeans"} {
		var figures []benchfmt.Figure
		for size := int64(1 << 10); size <= 1<<14; size *= 4 {
			figures = append(figures, benchfmt.Figure{Bench: bench, Case: "k=4", Setting: "tcp", Size: size, Unit: "us",
				Ours: float64(size), Peer: "other", Theirs: 2 * float64(size), Better: benchfmt.Lower})
		}
		if err := report.New([]string{bench}, "best", figures).Write(filepath.Join(in, name+".json")); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) error {
		cmd := Command()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(append([]string{"report", in, page}, args...))
		return cmd.ExecuteContext(context.Background())
	}
	if err := run("--check"); err == nil || !strings.Contains(err.Error(), "make bench-report") {
		t.Errorf("check before the page exists: got %v, want an error that names the command", err)
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if err := run("--check"); err != nil {
		t.Errorf("check of a new page: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		image, err := os.ReadFile(filepath.Join(dir, "plots", name+".svg"))
		if err != nil || !strings.HasPrefix(string(image), "<svg") {
			t.Errorf("plot %s: got %.40q, %v, want an SVG image", name, image, err)
		}
	}
	if err := os.WriteFile(filepath.Join(in, "a.md"), []byte("## Other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run("--check"); err == nil || !strings.Contains(err.Error(), "page.md") {
		t.Errorf("check after a change: got %v, want an error that names the page", err)
	}
}

// The benchmarks page is the one that its records make.
func TestPageIsCurrent(t *testing.T) {
	const docs = "../../../docs"
	page, err := report.Make(filepath.Join(docs, "benchmarks"), "plots", plotOf)
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Plots) < 10 {
		t.Errorf("plots: got %d, want at least 10", len(page.Plots))
	}
	if err := checkPage(filepath.Join(docs, "benchmarks.md"), page); err != nil {
		t.Error(err)
	}
}
