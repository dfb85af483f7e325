package collbench

import (
	"fmt"

	"go.millstream.dev/bench/internal/svgplot"
	"go.millstream.dev/internal/bench/benchfmt"
)

// Plot draws the time of an all-reduce over its size, a line for each setting and peer. The title has the number of
// ranks unless it is 0.
func Plot(figures []benchfmt.Figure, ranks int) svgplot.Plot {
	title := "All-reduce of float32"
	if ranks > 0 {
		title += fmt.Sprintf(", %d processes", ranks)
	}
	p := svgplot.Plot{Title: title, XLabel: "size",
		YLabel: "time in µs", LogX: true, LogY: true,
		FormatX: func(v float64) string { return benchfmt.FormatSize(int64(v)) }}
	add := func(name string, size int64, us float64) {
		if us > 0 {
			p.Add(name, svgplot.Point{X: float64(size), Y: us})
		}
	}
	for _, f := range figures {
		add("Millstream "+f.Setting, f.Size, f.Ours)
	}
	for _, f := range figures {
		name := f.Peer
		if f.Mode != "" {
			name += " " + f.Mode
		}
		add(name, f.Size, f.Theirs)
	}
	return p
}
