package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// prune removes the columns that are not needed, as early as possible. The result has the needed columns in the order
// of n, and may have others.
func prune(n Node, need map[string]bool) Node {
	switch n := n.(type) {
	case *Project:
		return pruneProject(n, need)
	case *Filter:
		return n.with([]Node{prune(n.In, plus(need, expr.Columns(n.Cond)...))})
	case *Aggregate:
		return pruneAggregate(n, need)
	case *Join:
		return pruneJoin(n, need)
	case *Sort:
		below := plus(need)
		for _, k := range n.Keys {
			below[k.Col] = true
		}
		return n.with([]Node{exactly(prune(n.In, below), below)})
	case *Shuffle:
		below := plus(need, n.Keys...)
		return n.with([]Node{exactly(prune(n.In, below), below)})
	case *Window:
		return pruneWindow(n, need)
	case *Union:
		// All inputs must have the same columns, so that each is projected.
		out := make([]Node, len(n.In))
		for i, x := range n.In {
			out[i] = exactly(prune(x, need), need)
		}
		return &Union{In: out}
	case *Describe:
		return n.with([]Node{prune(n.In, names(n.In.Schema()))})
	case *Scan:
		return n.columns(need)
	case *Source:
		return exactly(n, need)
	}
	return rewrite(n, func(x Node) Node { return prune(x, need) })
}

// plus returns a set with more names.
func plus(set map[string]bool, more ...string) map[string]bool {
	out := make(map[string]bool, len(set)+len(more))
	for name := range set {
		out[name] = true
	}
	for _, name := range more {
		out[name] = true
	}
	return out
}

// names returns the set of the names of columns.
func names(s *arrow.Schema) map[string]bool {
	out := make(map[string]bool, s.NumFields())
	for _, f := range s.Fields() {
		out[f.Name] = true
	}
	return out
}

// exactly returns a node with the needed columns only, and at least one, which counts the rows.
func exactly(n Node, need map[string]bool) Node {
	var cols []Named
	var fields []arrow.Field
	for _, f := range n.Schema().Fields() {
		if need[f.Name] {
			cols, fields = append(cols, Named{f.Name, column(f.Name)}), append(fields, f)
		}
	}
	if len(cols) == n.Schema().NumFields() {
		return n
	}
	if len(cols) == 0 {
		f := n.Schema().Field(narrowest(n.Schema()))
		cols, fields = []Named{{f.Name, column(f.Name)}}, []arrow.Field{f}
	}
	return &Project{In: n, Cols: cols, schema: arrow.NewSchema(fields, nil)}
}

// narrowest returns the column whose values need the least memory.
func narrowest(s *arrow.Schema) int {
	best, width := 0, 1<<20
	for i, f := range s.Fields() {
		w := 1 << 10
		if t, ok := f.Type.(arrow.FixedWidthDataType); ok {
			w = t.BitWidth()
		}
		if w < width {
			best, width = i, w
		}
	}
	return best
}

func pruneProject(n *Project, need map[string]bool) Node {
	var cols []Named
	var fields []arrow.Field
	for i, c := range n.Cols {
		if need[c.Name] {
			cols, fields = append(cols, c), append(fields, n.schema.Field(i))
		}
	}
	if len(cols) == 0 {
		cols, fields = n.Cols[:1], n.schema.Fields()[:1]
	}
	below := map[string]bool{}
	for _, c := range cols {
		for _, name := range expr.Columns(c.Expr) {
			below[name] = true
		}
	}
	return &Project{In: prune(n.In, below), Cols: cols, schema: arrow.NewSchema(fields, nil)}
}

func pruneAggregate(n *Aggregate, need map[string]bool) Node {
	var aggs []Agg
	fields := append([]arrow.Field(nil), n.schema.Fields()[:len(n.Keys)]...)
	below := plus(nil, n.Keys...)
	for i, a := range n.Aggs {
		if !need[a.Name] && (len(n.Keys) > 0 || i > 0 || anyNeeded(n.Aggs, need)) {
			continue
		}
		aggs, fields = append(aggs, a), append(fields, n.schema.Field(len(n.Keys)+i))
		if a.Col != "" {
			below[a.Col] = true
		}
	}
	return &Aggregate{In: prune(n.In, below), Keys: n.Keys, Aggs: aggs, schema: arrow.NewSchema(fields, nil),
		distinct: n.distinct}
}

func anyNeeded(aggs []Agg, need map[string]bool) bool {
	for _, a := range aggs {
		if need[a.Name] {
			return true
		}
	}
	return false
}

func pruneJoin(n *Join, need map[string]bool) Node {
	both := plus(need, n.LeftKeys...)
	for _, k := range n.RightKeys {
		both[k] = true
	}
	if n.Cond != nil {
		for _, c := range expr.Columns(*n.Cond) {
			both[c] = true
		}
	}
	out := *n
	out.Left, out.Right, out.Out = exactly(prune(n.Left, both), both), exactly(prune(n.Right, both), both), need
	return newJoin(out)
}

func pruneWindow(n *Window, need map[string]bool) Node {
	below := plus(need, n.Partition...)
	for _, k := range n.Order {
		below[k.Col] = true
	}
	var funcs []WindowFunc
	for _, f := range n.Funcs {
		delete(below, f.Name)
	}
	for _, f := range n.Funcs {
		if need[f.Name] {
			funcs = append(funcs, f)
			if f.Col != "" {
				below[f.Col] = true
			}
		}
	}
	in := exactly(prune(n.In, below), below)
	if len(funcs) == 0 {
		return in
	}
	return newWindow(in, n.Partition, n.Order, funcs, n.schema)
}

// simplify joins projections that follow each other, and removes those that change nothing.
func simplify(n Node) Node {
	n = rewrite(n, simplify)
	p, ok := n.(*Project)
	if !ok {
		return n
	}
	if below, ok := p.In.(*Project); ok && cheap(p, below) {
		values := map[string]expr.Expr{}
		for _, c := range below.Cols {
			values[c.Name] = c.Expr
		}
		cols := make([]Named, len(p.Cols))
		for i, c := range p.Cols {
			cols[i] = Named{c.Name, expr.Substitute(c.Expr, values)}
		}
		return simplify(&Project{In: below.In, Cols: cols, schema: p.schema})
	}
	in := p.In.Schema()
	if len(p.Cols) != in.NumFields() {
		return n
	}
	for i, c := range p.Cols {
		if name, ok := columnName(c.Expr); !ok || name != c.Name || in.Field(i).Name != c.Name {
			return n
		}
	}
	return p.In
}

// cheap reports whether joining two projections computes nothing twice.
func cheap(p, below *Project) bool {
	used := map[string]int{}
	for _, c := range p.Cols {
		expr.Walk(c.Expr, func(e expr.Expr) {
			if e.Op == expr.OpColumn {
				used[e.Name]++
			}
		})
	}
	for _, c := range below.Cols {
		if _, ok := columnName(c.Expr); !ok && used[c.Name] > 1 {
			return false
		}
	}
	return true
}
