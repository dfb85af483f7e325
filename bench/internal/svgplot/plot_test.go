package svgplot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"go.millstream.dev/bench/internal/svgplot"
)

func draw(t *testing.T, p io.WriterTo) string {
	t.Helper()
	var b strings.Builder
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	// A picture that no browser reads is no picture.
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		if _, err := d.Token(); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%v in\n%s", err, b.String())
			}
			return b.String()
		}
	}
}

func TestPlot(t *testing.T) {
	svg := draw(t, svgplot.Plot{Title: "a < b & c", XLabel: "bytes", YLabel: "µs", LogX: true, LogY: true,
		Series: []svgplot.Series{
			{Name: "ours", Points: []svgplot.Point{{X: 4096, Y: 10}, {X: 65536, Y: 100}}},
			{Name: "<theirs>", Points: []svgplot.Point{{X: 4096, Y: 20}, {X: 65536, Y: 250}}},
		}})
	for _, want := range []string{"a &lt; b &amp; c", "&lt;theirs&gt;", ">4096<", "µs"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if n := strings.Count(svg, "<circle"); n != 4 {
		t.Errorf("%d points, want 4", n)
	}
}

func TestPlotOfLittle(t *testing.T) {
	for name, p := range map[string]svgplot.Plot{
		"nothing":   {},
		"one point": {Series: []svgplot.Series{{Name: "a", Points: []svgplot.Point{{X: 1, Y: 1}}}}},
		"no number": {LogY: true,
			Series: []svgplot.Series{{Points: []svgplot.Point{{X: 1, Y: 0}, {X: 2, Y: math.NaN()},
				{X: 3, Y: math.Inf(1)}}}}},
		"equal on log": {LogX: true, LogY: true, Series: []svgplot.Series{{Points: []svgplot.Point{{X: 10, Y: 10},
			{X: 10, Y: 10}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if svg := draw(t, p); strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
				t.Error(svg)
			}
		})
	}
}

func TestStack(t *testing.T) {
	svg := draw(t, svgplot.Stack{
		svgplot.Bars{Title: "x < y", Label: "s", Groups: []svgplot.Group{
			{Name: "a & b", Bars: []svgplot.Bar{{Side: "<ours>", Value: 1}, {Side: "theirs", Value: 4}}},
			{Name: "none", Bars: []svgplot.Bar{{Side: "theirs", Value: math.NaN()}, {Side: "<ours>", Value: 0}}},
		}},
		svgplot.Bars{},
		svgplot.Plot{Title: "lines"},
	})
	for text, want := range map[string]int{"x &lt; y": 1, "a &amp; b": 1, "&lt;ours&gt;": 1, ">theirs<": 1, "NaN": 0,
		`width="400.0"`: 1, `width="100.0"`: 1, `width="0.0"`: 2, "<g transform": 3, ">lines<": 1} {
		if got := strings.Count(svg, text); got != want {
			t.Errorf("%d times %q, want %d, in\n%s", got, text, want, svg)
		}
	}
}

func ExamplePlot() {
	p := svgplot.Plot{Title: "Latency", XLabel: "bytes", YLabel: "µs", LogX: true,
		Series: []svgplot.Series{{Name: "tcp", Points: []svgplot.Point{{X: 8, Y: 5.6}, {X: 1024, Y: 6.1}}}}}
	if _, err := p.WriteTo(io.Discard); err != nil {
		os.Exit(1)
	}
	// Output:
}
