package report

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"go.millstream.dev/bench/internal/svgplot"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/series"
)

// seriesFile has one run in a line, oldest first; make bench-series (internal/tools/benchseries) appends to it.
const seriesFile = "series.jsonl"

// seriesOf returns the runs of a folder's series. A folder without one has none.
func seriesOf(dir string) ([]series.Run, error) {
	runs, err := series.Read(filepath.Join(dir, seriesFile))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return runs, nil
}

// writeSeries writes the section of the series: for each machine a plot of the ratios to peers over the runs.
func (p *Page) writeSeries(out *bytes.Buffer, runs []series.Run, plots string) error {
	if len(runs) == 0 {
		return nil
	}
	out.WriteString("\n## Series\n\nTimes faster than the peer in the same run, by run (`make bench-series`); below 1 " +
		"Millstream is slower. `make bench-compare` reports changes beyond the noise of earlier runs.\n")
	var machines []string
	byMachine := map[string][]series.Run{}
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
func seriesPlot(runs []series.Run) *svgplot.Plot {
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
func seriesName(f series.Figure) string {
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
