// Package preview formats record batches as text tables for terminals.
package preview

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Limits of a table.
const (
	maxColumns = 24
	maxWidth   = 32 // characters of a value
)

// Format returns the rows of a batch as a table: names, types and values, numbers aligned to the right.
func Format(b arrow.RecordBatch) string {
	n := min(int(b.NumCols()), maxColumns)
	columns := make([]column, n)
	for i := range columns {
		columns[i] = newColumn(b.Schema().Field(i), b.Column(i))
	}
	var out strings.Builder
	rule(&out, columns, "┌", "┬", "┐")
	line(&out, columns, func(c column) string { return c.name })
	line(&out, columns, func(c column) string { return c.kind })
	rule(&out, columns, "├", "┼", "┤")
	for r := range int(b.NumRows()) {
		line(&out, columns, func(c column) string { return c.values[r] })
	}
	rule(&out, columns, "└", "┴", "┘")
	fmt.Fprintf(&out, "%d %s", b.NumRows(), plural(b.NumRows(), "row"))
	if more := int(b.NumCols()) - n; more > 0 {
		fmt.Fprintf(&out, ", %d more %s", more, plural(int64(more), "column"))
	}
	out.WriteByte('\n')
	return out.String()
}

func plural(n int64, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// column is a column as text.
type column struct {
	name, kind string
	values     []string
	width      int
	right      bool
}

func newColumn(f arrow.Field, a arrow.Array) column {
	c := column{name: clean(f.Name), kind: clean(f.Type.String()), values: make([]string, a.Len()),
		right: isNumber(f.Type)}
	c.width = max(utf8.RuneCountInString(c.name), utf8.RuneCountInString(c.kind))
	for i := range c.values {
		c.values[i] = Value(a, i)
		c.width = max(c.width, utf8.RuneCountInString(c.values[i]))
	}
	return c
}

func isNumber(t arrow.DataType) bool {
	return arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID())
}

// Value returns a value as text in one line, shortened if it is long. Control characters are replaced.
func Value(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "null"
	}
	if t, ok := a.(*array.Timestamp); ok {
		if zone, err := t.DataType().(*arrow.TimestampType).GetToTimeFunc(); err == nil {
			return zone(t.Value(i)).Format("2006-01-02 15:04:05.999999999")
		}
	}
	return clean(a.ValueStr(i))
}

// clean replaces control characters and shortens text.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, s)
	if utf8.RuneCountInString(s) <= maxWidth {
		return s
	}
	return string([]rune(s)[:maxWidth-1]) + "…"
}

func rule(out *strings.Builder, columns []column, left, middle, right string) {
	out.WriteString(left)
	for i, c := range columns {
		if i > 0 {
			out.WriteString(middle)
		}
		out.WriteString(strings.Repeat("─", c.width+2))
	}
	out.WriteString(right + "\n")
}

func line(out *strings.Builder, columns []column, text func(column) string) {
	out.WriteString("│")
	for i, c := range columns {
		if i > 0 {
			out.WriteString("│")
		}
		s := text(c)
		pad := strings.Repeat(" ", c.width-utf8.RuneCountInString(s))
		if c.right {
			out.WriteString(" " + pad + s + " ")
		} else {
			out.WriteString(" " + s + pad + " ")
		}
	}
	out.WriteString("│\n")
}
