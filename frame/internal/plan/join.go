package plan

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// JoinKind specifies which rows a join returns.
type JoinKind int

// The kinds of joins.
const (
	// Inner returns the pairs of rows that match.
	Inner JoinKind = iota
	// Left also returns the rows on the left without a match.
	Left
	// Full also returns the rows of both sides without a match.
	Full
	// Semi returns the rows on the left that have a match.
	Semi
	// Anti returns the rows on the left that have none.
	Anti
	// Cross returns all pairs of rows.
	Cross
)

var joinNames = [...]string{"Inner", "Left", "Full", "Semi", "Anti", "Cross"}

// String returns the name of the kind.
func (k JoinKind) String() string { return joinNames[k] }

// leftOnly reports whether the result has the columns of the left side only.
func (k JoinKind) leftOnly() bool { return k == Semi || k == Anti }

// Join combines the rows of two inputs whose keys are equal. The names of all columns are distinct: the columns of the
// result are those on the left and then those on the right.
type Join struct {
	Left, Right         Node
	Kind                JoinKind
	LeftKeys, RightKeys []string
	// Cond is a further condition of a match, on the columns of both sides; nil without one.
	Cond *expr.Expr
	// NullAware makes Anti that of NOT IN: a null on the right excludes all rows, one on the left its row.
	NullAware bool
	// Out are the columns that the next operators need; nil if all.
	Out    map[string]bool
	schema *arrow.Schema
}

// newJoin returns a join with its schema.
func newJoin(j Join) *Join {
	n, kind := &j, j.Kind
	l, r, out := n.Left, n.Right, n.Out
	fields := slices.Clone(l.Schema().Fields())
	if kind == Full {
		fields = nullable(fields)
	}
	if !kind.leftOnly() {
		right := r.Schema().Fields()
		if kind == Left || kind == Full {
			right = nullable(right)
		}
		fields = append(fields, right...)
	}
	if all := fields; out != nil {
		fields = slices.DeleteFunc(slices.Clone(all), func(f arrow.Field) bool { return !out[f.Name] })
		if len(fields) == 0 { // one counts the rows
			fields = all[:1]
		}
	}
	n.schema = arrow.NewSchema(fields, nil)
	return n
}

// nullable returns fields that may have nulls.
func nullable(fields []arrow.Field) []arrow.Field {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Nullable = true
	}
	return out
}

// Both returns the columns of both inputs, which conditions refer to.
func (n *Join) Both() *arrow.Schema {
	return arrow.NewSchema(append(slices.Clone(n.Left.Schema().Fields()), n.Right.Schema().Fields()...), nil)
}

// Schema returns the columns of both sides, or those of the left.
func (n *Join) Schema() *arrow.Schema { return n.schema }

// Inputs returns left and right.
func (n *Join) Inputs() []Node { return []Node{n.Left, n.Right} }

// Label returns kind and keys.
func (n *Join) Label() string {
	text := n.Kind.String() + " join"
	if len(n.LeftKeys) > 0 {
		parts := make([]string, len(n.LeftKeys))
		for i, l := range n.LeftKeys {
			parts[i] = l + " = " + n.RightKeys[i]
		}
		text += " on " + list(parts)
	}
	if n.Cond != nil {
		text += " where " + n.Cond.String()
	}
	return text
}

func (n *Join) with(in []Node) Node {
	out := *n
	out.Left, out.Right = in[0], in[1]
	return newJoin(out)
}
