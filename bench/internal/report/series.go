package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.millstream.dev/bench/internal/svgplot"
	"go.millstream.dev/internal/bench/benchfmt"
)

// seriesFile has one run in a line, oldest first; make bench-series (internal/tools/benchseries) appends to it.
const seriesFile = "series.jsonl"

// maxRun is the largest line of a series, in bytes.
const maxRun = 16 << 20

// seriesRun is a line of a series.
type seriesRun struct {
	Machine string         `json:"machine"`
	Date    string         `json:"date"`
	Commit  string         `json:"commit"`
	Figures []seriesFigure `json:"figures"`
}

// seriesFigure is a measurement next to that of a peer in the same run.
type seriesFigure struct {
	Case      string  `json:"case"`
	Setting   string  `json:"setting"`
	Transport string  `json:"transport"`
	Mode      string  `json:"mode"`
	Endpoint  string  `json:"endpoint"`
	Size      int64   `json:"size"`
	Peer      string  `json:"peer"`
	Ratio     float64 `json:"ratio"` // ours divided by theirs
	Better    string  `json:"better"`
}

// seriesOf returns the runs of a folder's series. A folder without one has none.
func seriesOf(dir string) ([]seriesRun, error) {
	text, err := os.ReadFile(filepath.Join(dir, seriesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []seriesRun
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxRun)
	for n := 1; lines.Scan(); n++ {
		var r seriesRun
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("report: %s:%d: %w; remove the line", seriesFile, n, err)
		}
		runs = append(runs, r)
	}
	return runs, lines.Err()
}

// writeSeries writes the section of the series: for each machine a plot of the ratios to peers over the runs.
func (p *Page) writeSeries(out *bytes.Buffer, runs []seriesRun, plots string) error {
	if len(runs) == 0 {
		return nil
	}
	out.WriteString("\n## Series\n\nTimes faster than the peer in the same run, by run (`make bench-series`); below 1 " +
		"Millstream is slower. `make bench-compare` reports changes beyond the noise of earlier runs.\n")
	var machines []string
	byMachine := map[string][]seriesRun{}
	for _, r := range runs {
		if byMachine[r.Machine] == nil {
			machines = append(machines, r.Machine)
		}
		byMachine[r.Machine] = append(byMachine[r.Machine], r)
	}
	for i, machine := range machines {
		list := byMachine[machine]
		name := "series.svg"
		if i > 0 {
			name = fmt.Sprintf("series-%d.svg", i+1)
		}
		var image bytes.Buffer
		if _, err := seriesPlot(list).WriteTo(&image); err != nil {
			return fmt.Errorf("report: plot of %s: %w", seriesFile, err)
		}
		p.Plots[name] = image.Bytes()
		first, last := list[0], list[len(list)-1]
		fmt.Fprintf(out, "\n![Ratios by run](%s/%s)\n\n%s: %d runs, %s (commit %s) to %s (commit %s).\n", plots, name,
			machine, len(list), first.Date, first.Commit, last.Date, last.Commit)
	}
	return nil
}

// seriesPlot draws a line for each figure that has a peer.
func seriesPlot(runs []seriesRun) *svgplot.Plot {
	plot := &svgplot.Plot{XLabel: "run", YLabel: "times faster", LogY: true}
	for n, r := range runs {
		for _, f := range r.Figures {
			if f.Ratio <= 0 {
				continue
			}
			ratio := f.Ratio
			if f.Better == "lower" {
				ratio = 1 / ratio
			}
			plot.Add(seriesName(f), svgplot.Point{X: float64(n + 1), Y: ratio})
		}
	}
	return plot
}

// seriesName identifies a figure in all runs.
func seriesName(f seriesFigure) string {
	words := []string{f.Case}
	for _, w := range []string{f.Setting, f.Transport, f.Mode, f.Endpoint} {
		if w != "" {
			words = append(words, w)
		}
	}
	if f.Size > 0 {
		words = append(words, benchfmt.FormatSize(f.Size))
	}
	return strings.Join(words, " ") + " / " + f.Peer
}
