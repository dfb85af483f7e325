package kmeansbench

import (
	"strconv"
	"strings"

	"go.millstream.dev/bench/internal/svgplot"
	"go.millstream.dev/internal/bench/benchfmt"
)

// Plot draws seconds over the number of groups, a line for each side and type.
func Plot(figures []benchfmt.Figure) svgplot.Plot {
	p := svgplot.Plot{Title: "k-means", XLabel: "groups", YLabel: "seconds", LogX: true, LogY: true}
	for _, f := range figures {
		k, err := strconv.Atoi(strings.TrimPrefix(f.Case, "k="))
		if err != nil {
			continue
		}
		if f.Mode == GPUMode {
			p.Add("millstream GPU "+f.Setting, svgplot.Point{X: float64(k), Y: f.Ours})
			continue // the host has its own line
		}
		p.Add("millstream "+f.Setting, svgplot.Point{X: float64(k), Y: f.Ours})
		if f.Peer != "" {
			p.Add(f.Peer+" "+f.Setting, svgplot.Point{X: float64(k), Y: f.Theirs})
		}
	}
	return p
}
