package report

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/bench/benchfmt"
)

const seriesText = `{"machine":"A","date":"2026-01-01","commit":"a1","figures":[{"case":"rtt","setting":"tcp","peer":"dask","ratio":0.5,"better":"lower"}]}
{"machine":"B","date":"2026-01-02","commit":"b1","figures":[{"case":"large","size":1048576,"peer":"dask","ratio":3,"better":"higher"}]}
{"machine":"A","date":"2026-01-03","commit":"a2","figures":[{"case":"rtt","setting":"tcp","peer":"dask","ratio":0.25,"better":"lower"},{"case":"alone"}]}
`

func TestSeries(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"README.md": "# Benchmarks\n", "order.txt": "", seriesFile: seriesText} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plot := func([]benchfmt.Figure) io.WriterTo { return text("") }
	page, err := Make(dir, "plots", plot)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n## Series\n", "(plots/series.svg)",
		"A: 2 runs, 2026-01-01 (commit a1) to 2026-01-03 (commit a2).",
		"(plots/series-2.svg)", "B: 1 runs, 2026-01-02"} {
		if !strings.Contains(string(page.Text), want) {
			t.Errorf("page without %q:\n%s", want, page.Text)
		}
	}
	if got := page.Plots["series.svg"]; !bytes.Contains(got, []byte("rtt tcp / dask")) ||
		bytes.Contains(got, []byte("alone")) {
		t.Errorf("got plot\n%s", got)
	}
	if got := page.Plots["series-2.svg"]; !bytes.Contains(got, []byte("large 1 MiB / dask")) {
		t.Errorf("got plot\n%s", got)
	}
	runs, err := seriesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	lines := seriesPlot(runs).Series
	if len(lines) != 2 || lines[0].Points[0].Y != 2 || lines[0].Points[1].Y != 4 || lines[1].Points[0].Y != 3 {
		t.Errorf("got lines %+v, want 2 and 4, and 3 times faster", lines)
	}
	if err := os.WriteFile(filepath.Join(dir, seriesFile), []byte(seriesText+"{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(dir, "plots", plot); err == nil || !strings.Contains(err.Error(), "series.jsonl:4") {
		t.Errorf("got error %v of a damaged line, want one with its number", err)
	}
	if runs, err := seriesOf(t.TempDir()); len(runs) > 0 || err != nil {
		t.Errorf("folder without a series: got %v, %v", runs, err)
	}
}
