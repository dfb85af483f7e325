// Package svgplot draws benchmark results as SVG: lines over common axes (Plot), horizontal bars (Bars), or several of
// them in one picture (Stack). It writes plain shapes and text on a white background and has no dependencies.
package svgplot

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// Plot is a picture of lines. All fields but Series are optional.
type Plot struct {
	// Title is the heading, XLabel and YLabel are the labels of the axes.
	Title, XLabel, YLabel string
	// LogX and LogY make an axis logarithmic; values that are not positive are left out.
	LogX, LogY bool
	// FormatX and FormatY format the numbers at the axes (default: short decimals).
	FormatX, FormatY func(float64) string
	// Series are the lines, in drawing order.
	Series []Series
}

// Series is one line.
type Series struct {
	Name   string
	Points []Point
}

// Point is one measurement.
type Point struct{ X, Y float64 }

// Add adds a point to the series with a name, which is created if necessary. The points of a series are sorted by X; of
// two points with the same X the first is kept.
func (p *Plot) Add(name string, q Point) {
	i := slices.IndexFunc(p.Series, func(s Series) bool { return s.Name == name })
	if i < 0 {
		i = len(p.Series)
		p.Series = append(p.Series, Series{Name: name})
	}
	points := &p.Series[i].Points
	at, known := slices.BinarySearchFunc(*points, q, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	if !known {
		*points = slices.Insert(*points, at, q)
	}
}

const (
	width, height            = 760, 440
	left, right, top, bottom = 90, 190, 50, 60
)

// colors can be distinguished with any color vision (Okabe and Ito).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"}

func color(i int) string { return colors[i%len(colors)] }

// axis maps values to pixels.
type axis struct {
	lo, hi   float64 // range of the scale: logarithms on a logarithmic axis
	from, to float64 // pixels
	log      bool
	ticks    []float64
}

func (a *axis) at(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	if a.hi == a.lo {
		return (a.from + a.to) / 2
	}
	return a.from + (v-a.lo)/(a.hi-a.lo)*(a.to-a.from)
}

func (a *axis) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.log || v > 0)
}

func newAxis(values []float64, log bool, from, to float64) *axis {
	a := &axis{lo: math.Inf(1), hi: math.Inf(-1), from: from, to: to, log: log}
	for _, v := range values {
		if !a.shows(v) {
			continue
		}
		if log {
			v = math.Log10(v)
		}
		a.lo, a.hi = min(a.lo, v), max(a.hi, v)
	}
	if a.lo > a.hi {
		a.lo, a.hi = 0, 1
	}
	if log {
		a.lo, a.hi = math.Floor(a.lo+1e-9), math.Ceil(a.hi-1e-9)
		if a.lo == a.hi {
			a.hi++
		}
		for e := a.lo; e <= a.hi; e++ {
			a.ticks = append(a.ticks, math.Pow(10, e))
		}
		return a
	}
	a.lo = min(a.lo, 0)
	if a.hi == a.lo {
		a.hi = a.lo + 1
	}
	step := math.Pow(10, math.Floor(math.Log10(a.hi-a.lo)))
	if (a.hi-a.lo)/step < 4 {
		step /= 2
	}
	a.hi = math.Ceil(a.hi/step) * step
	a.lo = math.Floor(a.lo/step) * step
	for v := a.lo; v <= a.hi+step/2; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// text escapes text for XML.
func text(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer does not fail
	return b.String()
}

// WriteTo writes the picture.
func (p Plot) WriteTo(w io.Writer) (int64, error) { return Stack{p}.WriteTo(w) }

func (p Plot) height() int { return max(height, top+22*len(p.Series)+bottom) }

func (p Plot) draw(b *bytes.Buffer) {
	heading(b, p.Title)
	var xs, ys []float64
	for _, s := range p.Series {
		for _, q := range s.Points {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
	}
	x := newAxis(xs, p.LogX, left, width-right)
	y := newAxis(ys, p.LogY, height-bottom, top)
	p.axes(b, x, y)
	for i, s := range p.Series {
		p.series(b, i, s, x, y)
	}
}

func (p Plot) axes(b *bytes.Buffer, x, y *axis) {
	fx, fy := p.FormatX, p.FormatY
	if fx == nil {
		fx = short
	}
	if fy == nil {
		fy = short
	}
	for _, t := range y.ticks {
		at := y.at(t)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`, left, at, width-right, at)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, at+4, text(fy(t)))
	}
	// Ticks at the points are more useful along x than round numbers.
	ticks := map[float64]bool{}
	for _, s := range p.Series {
		for _, q := range s.Points {
			if x.shows(q.X) {
				ticks[q.X] = true
			}
		}
	}
	if p.LogX {
		x.lo, x.hi = math.Inf(1), math.Inf(-1)
		for t := range ticks {
			x.lo, x.hi = min(x.lo, math.Log10(t)), max(x.hi, math.Log10(t))
		}
	}
	for _, t := range sorted(ticks) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#333333"/>`, x.at(t), height-bottom, x.at(t),
			height-bottom+5)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x.at(t), height-bottom+20,
			text(fx(t)))
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#333333"/>`+"\n", left, top, height-bottom, width-right)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", (left+width-right)/2, height-16,
		text(p.XLabel))
	fmt.Fprintf(b, `<text transform="translate(22 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n",
		(top+height-bottom)/2, text(p.YLabel))
}

func (p Plot) series(b *bytes.Buffer, i int, s Series, x, y *axis) {
	stroke := color(i)
	path := ""
	for _, q := range s.Points {
		if !x.shows(q.X) || !y.shows(q.Y) {
			continue
		}
		verb := "L"
		if path == "" {
			verb = "M"
		}
		path += fmt.Sprintf("%s%.1f %.1f", verb, x.at(q.X), y.at(q.Y))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, x.at(q.X), y.at(q.Y), stroke)
	}
	if path != "" {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path, stroke)
	}
	at := top + 10 + 22*i
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="3"/>`, width-right+16, at,
		width-right+40, at, stroke)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", width-right+48, at+5, text(s.Name))
}
