package command

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/bench/benchfmt"
)

// picture writes a plot of figures to a file as --svg does and returns it, checked to be well-formed.
func picture(t *testing.T, figures ...benchfmt.Figure) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plot.svg")
	if err := writeSVG(path, defaultPlot(figures)); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return string(svg)
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

// wants checks how often texts occur in a picture.
func wants(t *testing.T, svg string, counts map[string]int) {
	t.Helper()
	for text, want := range counts {
		if got := strings.Count(svg, text); got != want {
			t.Errorf("%d times %q, want %d, in\n%s", got, text, want, svg)
		}
	}
}

// A case with many sizes has a line for each side and mode, also against two peers.
func TestDefaultPlotLines(t *testing.T) {
	var figures []benchfmt.Figure
	for _, size := range []int64{1 << 20, 8, 4096} {
		for _, peer := range []string{"ucx_perftest", "ucx-py"} {
			figures = append(figures, benchfmt.Figure{Bench: "ucx", Case: "tag-lat", Setting: "shm", Mode: "spin",
				Size: size, Unit: "us", Ours: float64(size), Peer: peer, Theirs: 2, Better: benchfmt.Lower})
		}
	}
	svg := picture(t, figures...)
	wants(t, svg, map[string]int{"<circle": 9, ">ucx tag-lat<": 1, "us, lower is better": 1, ">1 MiB<": 1,
		">millstream shm spin<": 1, ">ucx_perftest shm spin<": 1, ">ucx-py shm spin<": 1})
	// The line of our side is in the order of sizes, whatever that of the measurements was.
	path := svg[strings.Index(svg, `<path d="M`):]
	if _, rest, ok := strings.Cut(path[1:], `<path d="M`); ok {
		path = `<path d="M` + rest // the first path is the axes
	}
	if !strings.HasPrefix(path, `<path d="M90.0 `) {
		t.Errorf("the first line does not begin at the left: %.40s", path)
	}
}

// Cases and units have panels of their own; few sizes are bars.
func TestDefaultPlotBars(t *testing.T) {
	svg := picture(t,
		benchfmt.Figure{Bench: "tasks", Case: "map-noop", Setting: "2 x 1 tls", Tasks: 1000, Unit: "tasks/s", Ours: 100,
			Peer: "dask", Theirs: 25, Better: benchfmt.Higher},
		benchfmt.Figure{Bench: "tasks", Case: "map-noop", Setting: "4 x 1 tls", Tasks: 1000, Unit: "tasks/s", Ours: 50,
			Better: benchfmt.Higher},
		benchfmt.Figure{Bench: "tasks", Case: "fetch", Setting: "a < b", Size: 64 << 20, Unit: "us", Ours: 3,
			Better: benchfmt.Lower})
	wants(t, svg, map[string]int{"tasks map-noop": 1, "tasks fetch": 1, "2 x 1 tls 1000 tasks": 1, "a &lt; b 64 MiB": 1,
		">dask<": 1, ">millstream<": 2, "<circle": 0,
		`width="400.0"`: 2, `width="100.0"`: 1, `width="200.0"`: 1}) // to scale within each panel
}

// Nothing measured is an empty picture, not an error.
func TestDefaultPlotEmpty(t *testing.T) {
	wants(t, picture(t), map[string]int{"<svg": 1, "<g": 0})
}
