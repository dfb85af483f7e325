package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Guess returns an estimate of the rows and bytes of the result of an operator, -1 if they are unknown. size returns
// the size of a table.
func Guess(n Node, size func(Table) (rows, bytes int64, ok bool)) (rows, bytes int64) {
	switch n := n.(type) {
	case *Source:
		if rows, bytes, ok := size(n.Table); ok {
			return rows, bytes
		}
		return -1, -1
	case *Scan:
		return n.Source.Rows, n.bytes()
	}
	in := make([]float64, len(n.Inputs()))
	widths := make([]float64, len(in))
	for i, x := range n.Inputs() {
		r, b := Guess(x, size)
		if r < 0 && b < 0 {
			return -1, -1
		}
		w := width(x.Schema())
		if r < 0 {
			r = int64(float64(b) / w)
		} else if r > 0 && b > 0 {
			w = float64(b) / float64(r)
		}
		in[i], widths[i] = float64(r), w
	}
	out := guessRows(n, in)
	// Columns that are copied keep their measured width.
	w := width(n.Schema())
	if x := n.Inputs(); len(x) == 1 && width(x[0].Schema()) > 0 {
		w *= widths[0] / width(x[0].Schema())
	} else if len(x) == 2 {
		if all := width(x[0].Schema()) + width(x[1].Schema()); all > 0 {
			w *= (widths[0] + widths[1]) / all
		}
	}
	return int64(out), int64(out * w)
}

// guessRows returns the rows of the result for those of the inputs.
func guessRows(n Node, in []float64) float64 {
	switch n := n.(type) {
	case *Filter:
		out := in[0]
		for _, c := range expr.Conjuncts(n.Cond) {
			out *= selectivity(c)
		}
		return out
	case *Aggregate:
		if len(n.Keys) == 0 {
			return 1
		}
		return min(in[0], max(100, in[0]/10))
	case *Join:
		switch n.Kind {
		case Semi, Anti:
			return in[0] / 2
		case Cross:
			return in[0] * in[1]
		case Left:
			return in[0]
		case Full:
			return in[0] + in[1]
		}
		return max(in[0], in[1])
	case *Sort:
		if n.Limit >= 0 {
			return min(in[0], float64(n.Limit))
		}
	case *Limit:
		return min(max(0, in[0]-float64(n.Offset)), float64(n.N))
	case *Sample:
		return in[0] * n.Fraction
	case *Union:
		var all float64
		for _, r := range in {
			all += r
		}
		return all
	case *Describe:
		return float64(len(n.Summary.Columns))
	}
	return in[0]
}

// selectivity returns the fraction of rows for which a condition is supposed to be true.
func selectivity(e expr.Expr) float64 {
	switch e.Op {
	case expr.OpEq, expr.OpIsNull:
		return 0.1
	case expr.OpNotNull, expr.OpNe:
		return 0.9
	case expr.OpOr:
		out := 0.0
		for _, a := range e.Args {
			out += selectivity(a)
		}
		return min(1, out)
	case expr.OpIn:
		return min(0.5, 0.1*float64(len(e.Args)-1))
	}
	return 0.3
}

// width returns the supposed size of a row in bytes.
func width(s *arrow.Schema) float64 {
	var bits float64
	for _, f := range s.Fields() {
		bits += bitsOf(f.Type)
	}
	return max(1, bits/8)
}

func bitsOf(t arrow.DataType) float64 {
	if w, ok := t.(arrow.FixedWidthDataType); ok {
		return float64(w.BitWidth())
	}
	return 16 * 8
}

// bytes returns the size of the columns that a scan reads.
func (n *Scan) bytes() int64 {
	src := n.Source
	if src.Bytes < 0 || len(n.Cols) == src.Schema.NumFields() {
		return src.Bytes
	}
	var read, all float64
	for i, f := range src.Schema.Fields() {
		w := bitsOf(f.Type)
		if i < len(src.ColumnBytes) {
			w = float64(src.ColumnBytes[i])
		}
		if all += w; len(n.schema.FieldIndices(f.Name)) > 0 {
			read += w
		}
	}
	if all == 0 {
		return src.Bytes
	}
	return int64(float64(src.Bytes) * read / all)
}
