package sqlplan

import (
	"math"
	"slices"

	"go.millstream.dev/frame/internal/sqltext"
)

// relation is a part of a join: a table, a derived table, an outer join or, while joins are ordered, a tree of those.
type relation struct {
	node Node
	// base is the number of rows without conditions.
	base    float64
	columns refs
}

func newRelation(n Node) *relation {
	return &relation{node: n, base: n.Rows(), columns: setOf(n.Columns())}
}

// edge is an equality between two relations.
type edge struct {
	cond        *sqltext.Binary
	left, right refs
	// leftBase and rightBase are the sizes of the tables of the two sides.
	leftBase, rightBase float64
	// values is the estimated number of values of the columns.
	values float64
}

// joinOrder is the state of the ordering of joins.
type joinOrder struct {
	parts []*relation
	edges []*edge
	// conds are conditions on several relations that are no edges.
	conds []Expr
}

// order joins relations so that intermediate results are small. The conditions are on columns of the relations.
func order(parts []*relation, conds []Expr) Node {
	o := &joinOrder{parts: slices.Clone(parts)}
	var constant []Expr
	for _, c := range conds {
		switch r := refsOf(c); {
		case len(r) == 0:
			constant = append(constant, c)
		default:
			o.condition(c, r)
		}
	}
	o.values()
	for len(o.parts) > 1 {
		i, j := o.choose()
		joined := o.join(o.parts[i], o.parts[j])
		o.parts = slices.Delete(o.parts, j, j+1)
		o.parts[i] = joined
	}
	return filter(o.parts[0].node, constant...)
}

// condition puts a condition on a relation or among edges and conditions.
func (o *joinOrder) condition(c Expr, r refs) {
	for _, p := range o.parts {
		if r.in(p.columns) {
			p2 := *p
			p2.node = filter(p.node, c)
			o.parts[slices.Index(o.parts, p)] = &p2
			return
		}
		if e := implied(c, p.columns); e != nil {
			p2 := *p
			p2.node = filter(p.node, e)
			o.parts[slices.Index(o.parts, p)] = &p2
		}
	}
	b, ok := c.(*sqltext.Binary)
	if ok && b.Op == "=" {
		e := &edge{cond: b, left: refsOf(b.L), right: refsOf(b.R)}
		l, r := o.owner(e.left), o.owner(e.right)
		if l != nil && r != nil {
			e.leftBase, e.rightBase = l.base, r.base
			o.edges = append(o.edges, e)
			return
		}
	}
	o.conds = append(o.conds, c)
}

// owner returns the relation that has all columns, nil if there is none.
func (o *joinOrder) owner(r refs) *relation {
	if len(r) == 0 {
		return nil
	}
	for _, p := range o.parts {
		if r.in(p.columns) {
			return p
		}
	}
	return nil
}

// values estimates the number of values of the columns of edges. Edges that share a side compare the same values, of
// which the smallest table bounds the number.
func (o *joinOrder) values() {
	class := map[string]string{}
	var find func(string) string
	find = func(s string) string {
		if class[s] == "" || class[s] == s {
			return s
		}
		return find(class[s])
	}
	text := sqltext.Format
	for _, e := range o.edges {
		class[find(text(e.cond.L))] = find(text(e.cond.R))
	}
	least := map[string]float64{}
	for _, e := range o.edges {
		c, n := find(text(e.cond.L)), math.Min(e.leftBase, e.rightBase)
		if old, ok := least[c]; ok {
			n = math.Min(n, old)
		}
		least[c] = n
	}
	for _, e := range o.edges {
		e.values = math.Max(1, least[find(text(e.cond.L))])
	}
}

// between returns the edges between two relations, with the sides in their order.
func (o *joinOrder) between(l, r *relation) []*edge {
	var out []*edge
	for _, e := range o.edges {
		switch {
		case e.left.in(l.columns) && e.right.in(r.columns):
			out = append(out, e)
		case e.left.in(r.columns) && e.right.in(l.columns):
			out = append(out, &edge{cond: &sqltext.Binary{Pos: e.cond.Pos, Op: "=", L: e.cond.R, R: e.cond.L},
				left: e.right, right: e.left, leftBase: e.rightBase, rightBase: e.leftBase, values: e.values})
		}
	}
	return out
}

// estimate returns the estimated size of a join by edges.
func estimate(l, r *relation, edges []*edge) float64 {
	values, most := 1.0, [2]float64{}
	for _, e := range edges {
		values *= e.values
		most[0], most[1] = math.Max(most[0], e.leftBase), math.Max(most[1], e.rightBase)
	}
	// Several columns together have at most as many values as the smaller table has rows.
	if len(edges) > 1 {
		values = math.Min(values, math.Max(1, math.Min(most[0], most[1])))
	}
	return math.Max(1, l.node.Rows()*r.node.Rows()/values)
}

// choose returns the pair of relations to join next.
func (o *joinOrder) choose() (int, int) {
	best, at := math.Inf(1), [2]int{}
	pick := func(i, j int, cost float64) {
		if cost < best {
			best, at = cost, [2]int{i, j}
		}
	}
	for i, l := range o.parts {
		for j := i + 1; j < len(o.parts); j++ {
			if edges := o.between(l, o.parts[j]); len(edges) > 0 {
				// Of equal results the one with the smaller inputs is first.
				n := estimate(l, o.parts[j], edges)
				pick(i, j, n+1e-6*(l.node.Rows()+o.parts[j].node.Rows()))
			}
		}
	}
	if !math.IsInf(best, 1) {
		return at[0], at[1]
	}
	for i, l := range o.parts {
		for j := i + 1; j < len(o.parts); j++ {
			pick(i, j, l.node.Rows()*o.parts[j].node.Rows())
		}
	}
	return at[0], at[1]
}

// join joins two relations by all conditions between them. The larger one is on the left: hash tables are built of the
// right side.
func (o *joinOrder) join(l, r *relation) *relation {
	if l.node.Rows() < r.node.Rows() {
		l, r = r, l
	}
	edges := o.between(l, r)
	j := &Join{Kind: sqltext.Inner, Left: l.node, Right: r.node, rows: estimate(l, r, edges)}
	for _, e := range edges {
		j.Keys = append(j.Keys, Key{e.cond.L, e.cond.R})
	}
	columns := refs{}
	columns.add(l.columns)
	columns.add(r.columns)
	var now []Expr
	o.conds = slices.DeleteFunc(o.conds, func(c Expr) bool {
		if !refsOf(c).in(columns) {
			return false
		}
		now = append(now, c)
		return true
	})
	o.edges = slices.DeleteFunc(o.edges, func(e *edge) bool { return e.left.in(columns) && e.right.in(columns) })
	if j.Cond = all(now); j.Cond != nil {
		j.rows = math.Max(1, j.rows*selectivity(j.Cond))
	} else if len(j.Keys) == 0 {
		j.Kind = sqltext.Cross
	}
	return &relation{node: j, base: math.Max(l.base, r.base), columns: columns}
}
