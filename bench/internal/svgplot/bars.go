package svgplot

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Bars is a plot of horizontal bars in groups, with a linear scale from zero. All fields but Groups are optional.
type Bars struct {
	// Title is the heading, Label the unit of the values.
	Title, Label string
	// Groups are drawn from top to bottom.
	Groups []Group
}

// Group is a comparison with one bar for each side.
type Group struct {
	Name string
	Bars []Bar
}

// Bar is the value of a side, such as a program.
type Bar struct {
	Side  string
	Value float64
}

const (
	barHeight, groupGap = 18, 12
	barLeft, barRight   = 250, 110 // space for names and values
)

func (p Bars) height() int {
	h := top + 24 // the unit
	for _, g := range p.Groups {
		h += len(g.Bars)*barHeight + groupGap
	}
	return h + 24*len(p.sides())
}

// sides returns the sides in the order of first occurrence, which determines their colors.
func (p Bars) sides() []string {
	var sides []string
	for _, g := range p.Groups {
		for _, bar := range g.Bars {
			if !slices.Contains(sides, bar.Side) {
				sides = append(sides, bar.Side)
			}
		}
	}
	return sides
}

func (p Bars) draw(b *bytes.Buffer) {
	heading(b, p.Title)
	largest := 0.0
	for _, g := range p.Groups {
		for _, bar := range g.Bars {
			if drawn(bar.Value) {
				largest = max(largest, bar.Value)
			}
		}
	}
	sides := p.sides()
	y := top
	for _, g := range p.Groups {
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", barLeft-8,
			y+len(g.Bars)*barHeight/2+4, text(g.Name))
		for _, bar := range g.Bars {
			length, value := 0.0, "–"
			if drawn(bar.Value) {
				value = short(bar.Value)
				if largest > 0 {
					length = bar.Value / largest * (width - barLeft - barRight)
				}
			}
			fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, barLeft, y, length, barHeight-3,
				color(slices.Index(sides, bar.Side)))
			fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", barLeft+length+6, y+barHeight-6, text(value))
			y += barHeight
		}
		y += groupGap
	}
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", barLeft, y+10, text(p.Label))
	for i, side := range sides {
		at := y + 24 + 22*i
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="24" height="12" fill="%s"/>`, barLeft, at, color(i))
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", barLeft+32, at+11, text(side))
	}
}

// drawn reports whether a value has a bar.
func drawn(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
