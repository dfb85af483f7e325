package benchfmt

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// even is how far a ratio may be from 1 to be called equal: the spread of repeated runs on a quiet machine.
const even = 0.02

// Table is a [Sink] that writes an aligned table on Close, with one block per case, in the order in which the cases
// were added.
type Table struct {
	w       io.Writer
	figures []Figure
}

// NewTable returns a Table for w.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Add adds a figure.
func (t *Table) Add(f Figure) error {
	if err := f.Validate(); err != nil {
		return err
	}
	t.figures = append(t.figures, f)
	return nil
}

// Close writes the table. It may be called twice.
func (t *Table) Close() error {
	figures := t.figures
	t.figures = nil
	var out strings.Builder
	for i, c := range cases(figures) {
		if i > 0 {
			out.WriteByte('\n')
		}
		writeBlock(&out, c)
	}
	_, err := io.WriteString(t.w, out.String())
	return err
}

// cases groups figures with the same heading, in the order of first occurrence.
func cases(figures []Figure) [][]Figure {
	var groups [][]Figure
	for _, f := range figures {
		i := slices.IndexFunc(groups, func(g []Figure) bool {
			return g[0].Bench == f.Bench && g[0].Case == f.Case && g[0].Unit == f.Unit
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

func writeBlock(out *strings.Builder, figures []Figure) {
	head := figures[0]
	fmt.Fprintf(out, "%s %s   %s, %s is better\n", head.Bench, head.Case, head.Unit, head.Better)
	with := func(has func(Figure) bool) bool { return slices.ContainsFunc(figures, has) }
	columns := []tableColumn{
		{Column{Name: "setting"}, func(f Figure) string { return f.Setting }, true},
		{Column{Name: "transport"}, func(f Figure) string {
			return f.Transport
		}, with(func(f Figure) bool { return f.Transport != "" })},
		{Column{Name: "mode"}, func(f Figure) string {
			return f.Mode
		}, with(func(f Figure) bool { return f.Mode != "" })},
		{Column{Name: "memory"}, func(f Figure) string {
			return f.Mem
		}, with(func(f Figure) bool { return f.Mem != "" })},
		{Column{Name: "endpoint"}, func(f Figure) string {
			return f.Endpoint
		}, with(func(f Figure) bool { return f.Endpoint != "" })},
		{Column{Name: "size", Right: true}, func(f Figure) string {
			return FormatSize(f.Size)
		}, with(func(f Figure) bool { return f.Size != 0 || f.Tasks == 0 })},
		{Column{Name: "tasks", Right: true}, func(f Figure) string {
			return strconv.FormatInt(f.Tasks, 10)
		}, with(func(f Figure) bool { return f.Tasks != 0 })},
		{Column{Name: "ours", Right: true}, func(f Figure) string { return FormatValue(f.Ours) }, true},
		{Column{Name: "median", Right: true}, func(f Figure) string {
			return median(f.OursMedian)
		}, with(func(f Figure) bool { return f.OursMedian != 0 })},
	}
	withPeer := with(func(f Figure) bool { return f.Peer != "" })
	theirs := func(text func(Figure) string) func(Figure) string {
		return func(f Figure) string {
			if f.Peer == "" {
				return ""
			}
			return text(f)
		}
	}
	ratio := func(text func(Figure, float64) string) func(Figure) string {
		return func(f Figure) string {
			if r, ok := f.Ratio(); ok {
				return text(f, r)
			}
			return ""
		}
	}
	columns = append(columns,
		tableColumn{Column{Name: "peer"}, func(f Figure) string { return f.Peer }, withPeer},
		tableColumn{Column{Name: "theirs", Right: true}, theirs(func(f Figure) string { return FormatValue(f.Theirs) }),
			withPeer},
		tableColumn{Column{Name: "median", Right: true}, theirs(func(f Figure) string {
			return median(f.TheirsMedian)
		}), with(func(f Figure) bool { return f.TheirsMedian != 0 })},
		tableColumn{Column{Name: "ratio", Right: true}, ratio(func(_ Figure, r float64) string {
			return strconv.FormatFloat(r, 'f', 2, 64)
		}), withPeer},
		tableColumn{Column{}, ratio(mark), withPeer},
		tableColumn{Column{Name: "bar"}, Figure.barText, with(func(f Figure) bool { return f.Bar != nil })})
	columns = slices.DeleteFunc(columns, func(c tableColumn) bool { return !c.shown })
	heads := make([]Column, len(columns))
	for i, c := range columns {
		heads[i] = c.Column
	}
	rows := make([][]string, 0, len(figures))
	for _, f := range figures {
		row := make([]string, len(columns))
		for i, c := range columns {
			row[i] = c.cell(f)
		}
		rows = append(rows, row)
	}
	WriteColumns(out, "  ", heads, rows)
}

// tableColumn is a column of figures.
type tableColumn struct {
	Column
	cell  func(Figure) string
	shown bool
}

func median(v float64) string {
	if v == 0 {
		return ""
	}
	return FormatValue(v)
}

// trimValue is FormatValue without trailing zeros: 50, 0.05.
func trimValue(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// mark returns whether Millstream is better or worse, in terms of the unit.
func mark(f Figure, ratio float64) string {
	switch {
	case f.Bar != nil && f.Bar.Ratio:
		return "" // the bar rates the ratio
	case math.Abs(ratio-1) <= even:
		return "="
	case f.Wins():
		return "✓ better"
	default:
		return "✗ worse"
	}
}

// FormatValue formats a measurement with four significant digits and no exponent: 0.4012, 12.35, 512300.
func FormatValue(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := significantJS - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits < 0 {
		scale := math.Pow(10, float64(-digits))
		return strconv.FormatFloat(math.Round(v/scale)*scale, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Column is one column of [WriteColumns].
type Column struct {
	Name string
	// Right aligns the cells to the right, for numbers.
	Right bool
}

// WriteColumns writes a heading and rows as aligned text. Widths are counted in characters. A row may be shorter than
// the heading; trailing spaces are omitted.
func WriteColumns(out io.Writer, indent string, columns []Column, rows [][]string) {
	heading := make([]string, len(columns))
	width := make([]int, len(columns))
	for i, c := range columns {
		heading[i] = c.Name
		width[i] = utf8.RuneCountInString(c.Name)
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{heading}, rows...) {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if columns[i].Right {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		fmt.Fprintln(out, strings.TrimRight(line.String(), " "))
	}
}
