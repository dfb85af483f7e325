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
	at := map[string]int{}
	add := func(name string, x, y float64) {
		i, ok := at[name]
		if !ok {
			i = len(p.Series)
			at[name] = i
			p.Series = append(p.Series, svgplot.Series{Name: name})
		}
		p.Series[i].Points = append(p.Series[i].Points, svgplot.Point{X: x, Y: y})
	}
	for _, f := range figures {
		k, err := strconv.Atoi(strings.TrimPrefix(f.Case, "k="))
		if err != nil {
			continue
		}
		if f.Mode == GPUMode {
			add("millstream GPU "+f.Setting, float64(k), f.Ours)
			continue // the host has a line of its own
		}
		add("millstream "+f.Setting, float64(k), f.Ours)
		if f.Peer != "" {
			add(f.Peer+" "+f.Setting, float64(k), f.Theirs)
		}
	}
	return p
}
