package command

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/bench/internal/svgplot"
	"go.millstream.dev/internal/bench/benchfmt"
)

// lineSizes is the number of sizes from which a case is drawn as lines over the size, else as bars.
const lineSizes = 3

// defaultPlot draws one panel for each case and unit, in the order of measurement.
func defaultPlot(figures []benchfmt.Figure) io.WriterTo {
	type key struct{ name, unit string }
	var order []key
	cases := map[key][]benchfmt.Figure{}
	for _, f := range figures {
		k := key{f.Bench + " " + f.Case, f.Unit}
		if _, known := cases[k]; !known {
			order = append(order, k)
		}
		cases[k] = append(cases[k], f)
	}
	var s svgplot.Stack
	for _, k := range order {
		list := cases[k]
		label := k.unit + ", " + string(list[0].Better) + " is better"
		sizes := map[int64]bool{}
		for _, f := range list {
			sizes[f.Size] = true
		}
		if len(sizes) >= lineSizes {
			s = append(s, lines(k.name, label, list))
		} else {
			s = append(s, bars(k.name, label, list))
		}
	}
	return s
}

// lines draws values over sizes: a line for each side and configuration.
func lines(title, label string, figures []benchfmt.Figure) svgplot.Plot {
	p := svgplot.Plot{Title: title, XLabel: "size", YLabel: label, LogX: true, LogY: true,
		FormatX: func(v float64) string { return benchfmt.FormatSize(int64(v)) }}
	for _, f := range figures {
		p.Add(ourName+" "+way(f), svgplot.Point{X: float64(f.Size), Y: f.Ours}) // twice with two peers
		if f.Peer != "" {
			p.Add(f.Peer+" "+way(f), svgplot.Point{X: float64(f.Size), Y: f.Theirs})
		}
	}
	return p
}

// ourName is the name of Millstream in plots.
const ourName = "millstream"

// bars draws a group of bars for each configuration of a case.
func bars(title, label string, figures []benchfmt.Figure) svgplot.Bars {
	p := svgplot.Bars{Title: title, Label: label}
	at := map[string]int{}
	add := func(name, side string, value float64) {
		i, known := at[name]
		if !known {
			i = len(p.Groups)
			at[name] = i
			p.Groups = append(p.Groups, svgplot.Group{Name: name})
		}
		g := &p.Groups[i]
		if !slices.ContainsFunc(g.Bars, func(b svgplot.Bar) bool { return b.Side == side }) {
			g.Bars = append(g.Bars, svgplot.Bar{Side: side, Value: value})
		}
	}
	for _, f := range figures {
		name := way(f)
		if f.Size > 0 {
			name += " " + benchfmt.FormatSize(f.Size)
		}
		if f.Tasks > 0 {
			name += " " + strconv.FormatInt(f.Tasks, 10) + " tasks"
		}
		add(name, ourName, f.Ours)
		if f.Peer != "" {
			add(name, f.Peer, f.Theirs)
		}
	}
	return p
}

// way returns the configuration of a figure, without the size.
func way(f benchfmt.Figure) string {
	parts := slices.DeleteFunc([]string{f.Setting, f.Mode, f.Mem, f.Endpoint}, func(s string) bool { return s == "" })
	return strings.Join(parts, " ")
}
