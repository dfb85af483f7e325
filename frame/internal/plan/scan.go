package plan

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/scan"
)

// Scan reads files.
type Scan struct {
	Path   string
	Source *scan.Source
	// Cols are the columns that are read.
	Cols []string
	// Conds are conditions that rows fulfill: parts of files without such rows need not be read.
	Conds  []expr.Expr
	schema *arrow.Schema
}

// NewScan returns an operator that reads all columns.
func NewScan(path string, src *scan.Source) (*Scan, error) {
	if err := distinctNames(src.Schema.Fields()); err != nil {
		return nil, err
	}
	n := &Scan{Path: path, Source: src, schema: src.Schema}
	for _, f := range src.Schema.Fields() {
		n.Cols = append(n.Cols, f.Name)
	}
	return n, nil
}

// Schema returns the columns that are read.
func (n *Scan) Schema() *arrow.Schema { return n.schema }

// Inputs returns nothing.
func (n *Scan) Inputs() []Node { return nil }

// Label returns path, columns and conditions.
func (n *Scan) Label() string {
	text := fmt.Sprintf("Scan %s %s, %d partition", n.Source.Format, n.Path, len(n.Source.Splits))
	if len(n.Source.Splits) != 1 {
		text += "s"
	}
	if all := n.Source.Schema.NumFields(); len(n.Cols) < all {
		text += fmt.Sprintf(", columns %s of %d", list(n.Cols), all)
	}
	if len(n.Conds) > 0 {
		text += ", parts where " + expr.All(n.Conds...).String()
	}
	return text
}

func (n *Scan) with([]Node) Node { return n }

// filter returns the rows that fulfill conditions.
func (n *Scan) filter(conds []expr.Expr) Node {
	out := *n
	out.Conds = append(slices.Clone(n.Conds), conds...)
	return filtered(&out, conds)
}

// columns returns an operator that reads the needed columns, and at least one, which counts the rows.
func (n *Scan) columns(need map[string]bool) Node {
	out := *n
	out.Cols = nil
	var fields []arrow.Field
	for _, f := range n.schema.Fields() {
		if need[f.Name] {
			out.Cols, fields = append(out.Cols, f.Name), append(fields, f)
		}
	}
	if len(fields) == 0 {
		f := n.schema.Field(narrowest(n.schema))
		out.Cols, fields = []string{f.Name}, []arrow.Field{f}
	}
	out.schema = arrow.NewSchema(fields, nil)
	return &out
}
