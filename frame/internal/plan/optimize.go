package plan

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Optimize returns a plan with the same result that needs less work: constants are computed, conditions are moved to
// the inputs, joins take equalities of a condition as keys, and columns that are not used are not read.
func Optimize(n Node) Node {
	n = fold(n)
	n = push(n, nil)
	n = topRows(n)
	all := map[string]bool{}
	for _, f := range n.Schema().Fields() {
		all[f.Name] = true
	}
	return simplify(prune(n, all))
}

// rewrite replaces the inputs of a node.
func rewrite(n Node, f func(Node) Node) Node {
	in := n.Inputs()
	if len(in) == 0 {
		return n
	}
	out := make([]Node, len(in))
	same := true
	for i, x := range in {
		out[i] = f(x)
		same = same && out[i] == x
	}
	if same {
		return n
	}
	return n.with(out)
}

// Replace returns a plan in which f replaces operators, from the top. The inputs of those for which f returns nil are
// replaced in turn. The columns of an operator and of its replacement are the same.
func Replace(n Node, f func(Node) Node) Node {
	if out := f(n); out != nil {
		return out
	}
	return rewrite(n, func(in Node) Node { return Replace(in, f) })
}

// fold computes the constant parts of expressions, and removes conditions that are always true.
func fold(n Node) Node {
	n = rewrite(n, fold)
	switch n := n.(type) {
	case *Filter:
		e := expr.Fold(n.Cond)
		if isTrue(e) {
			return n.In
		}
		return &Filter{In: n.In, Cond: e}
	case *Project:
		out := *n
		out.Cols = slices.Clone(n.Cols)
		for i := range out.Cols {
			// A constant may have another type, which would change the schema.
			e := expr.Fold(out.Cols[i].Expr)
			if t, err := typeOf(e, n.In.Schema()); err == nil && arrow.TypeEqual(t, n.schema.Field(i).Type) {
				out.Cols[i].Expr = e
			}
		}
		return &out
	}
	return n
}

func isTrue(e expr.Expr) bool { return e.Op == expr.OpLiteral && e.Value == true }

// filtered returns the rows of a node for which all conditions are true.
func filtered(n Node, conds []expr.Expr) Node {
	if len(conds) == 0 {
		return n
	}
	return &Filter{In: n, Cond: expr.All(conds...)}
}

// push moves conditions, which are those on the result of n, towards the inputs.
func push(n Node, conds []expr.Expr) Node {
	switch n := n.(type) {
	case *Filter:
		return push(n.In, append(slices.Clone(conds), expr.Conjuncts(n.Cond)...))
	case *Project:
		values := make(map[string]expr.Expr, len(n.Cols))
		for _, c := range n.Cols {
			values[c.Name] = c.Expr
		}
		below := make([]expr.Expr, len(conds))
		for i, c := range conds {
			below[i] = expr.Substitute(c, values)
		}
		return n.with([]Node{push(n.In, below)})
	case *Aggregate:
		below, above := split(conds, func(c expr.Expr) bool { return len(n.Keys) > 0 && within(c, n.Keys) })
		return filtered(n.with([]Node{push(n.In, below)}), above)
	case *Window:
		below, above := split(conds, func(c expr.Expr) bool { return within(c, n.Partition) })
		return filtered(n.with([]Node{push(n.In, below)}), above)
	case *Shuffle:
		return n.with([]Node{push(n.In, conds)})
	case *Sort:
		if n.Limit < 0 {
			return n.with([]Node{push(n.In, conds)})
		}
	case *Union:
		out := make([]Node, len(n.In))
		for i, x := range n.In {
			out[i] = push(x, conds)
		}
		return &Union{In: out}
	case *Join:
		return pushJoin(n, conds)
	case *Scan:
		return n.filter(conds)
	}
	return filtered(rewrite(n, func(x Node) Node { return push(x, nil) }), conds)
}

// split divides conditions.
func split(conds []expr.Expr, first func(expr.Expr) bool) (yes, no []expr.Expr) {
	for _, c := range conds {
		if first(c) {
			yes = append(yes, c)
		} else {
			no = append(no, c)
		}
	}
	return yes, no
}

// within reports whether an expression has columns, all of them among names.
func within(e expr.Expr, names []string) bool {
	cols := expr.Columns(e)
	for _, c := range cols {
		if !slices.Contains(names, c) {
			return false
		}
	}
	return len(cols) > 0
}

// pushJoin moves conditions to the sides of a join. A condition on the left is true for a row of the result if it is
// for its row on the left, except for rows that the join has filled with nulls.
func pushJoin(n *Join, conds []expr.Expr) Node {
	l, r := n.Left.Schema(), n.Right.Schema()
	kind, lk, rk := n.Kind, n.LeftKeys, n.RightKeys
	var own []expr.Expr // of the join itself
	if n.Cond != nil {
		own = expr.Conjuncts(*n.Cond)
	}
	var left, right, above []expr.Expr
	for _, c := range conds {
		switch {
		case kind != Full && uses(c, l):
			left = append(left, c)
		case (kind == Inner || kind == Cross) && uses(c, r):
			right = append(right, c)
		case kind == Inner || kind == Cross:
			own, kind = append(own, c), Inner
		default:
			above = append(above, c)
		}
	}
	// Conditions of the join on one side: a row on the left without a match is still returned by outer joins.
	var rest []expr.Expr
	for _, c := range own {
		switch x, y, ok := equality(c, l, r); {
		case uses(c, r) && kind != Full && !n.NullAware:
			right = append(right, c)
		case uses(c, l) && (kind == Inner || kind == Semi):
			left = append(left, c)
		case ok && joinable(x, y, l, r):
			a, _ := columnName(x)
			b, _ := columnName(y)
			lk, rk = append(slices.Clone(lk), a), append(slices.Clone(rk), b)
		default:
			rest = append(rest, c)
		}
	}
	if kind == Inner && len(lk) == 0 && len(rest) == 0 {
		kind = Cross
	}
	if kind == Cross && (len(lk) > 0 || len(rest) > 0) {
		kind = Inner
	}
	out := *n
	out.Left, out.Right, out.Kind = push(n.Left, left), push(n.Right, right), kind
	out.LeftKeys, out.RightKeys, out.Cond = lk, rk, conjunction(rest)
	return filtered(newJoin(out), above)
}

// topRows replaces a limit of sorted rows by a sort that keeps only these, and moves limits below projections.
func topRows(n Node) Node {
	if l, ok := n.(*Limit); ok {
		switch in := l.In.(type) {
		case *Project:
			return topRows(in.with([]Node{l.with([]Node{in.In})}))
		case *Sort:
			if most := l.N + l.Offset; l.N < NoLimit && (in.Limit < 0 || most < in.Limit) {
				s := &Sort{In: in.In, Keys: in.Keys, Limit: most}
				if l.Offset == 0 {
					return topRows(s)
				}
				return rewrite(l.with([]Node{s}), topRows)
			}
		}
	}
	return rewrite(n, topRows)
}
