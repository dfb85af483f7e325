package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// reduce removes rows from the input of a grouped subquery whose groups no row of the outer query looks up: it joins
// them with the outer table that has the keys, if conditions leave few rows of that.
func (p *pending) reduce(parts []*relation) {
	const few = 0.3
	for i := range p.steps {
		s := &p.steps[i]
		g, ok := s.right.(*Group)
		if !ok || len(s.keys) == 0 || len(s.keys) != len(g.Keys) {
			continue
		}
		outer := refs{}
		for _, k := range s.keys {
			outer.add(refsOf(k.Left))
		}
		for _, part := range parts {
			if !outer.in(part.columns) || part.node.Rows() > few*part.base {
				continue
			}
			j := &Join{Kind: sqltext.Semi, Right: part.node}
			for n, k := range s.keys {
				j.Keys = append(j.Keys, Key{g.Keys[n].Expr, k.Left})
			}
			less := *g
			less.In = semiBelow(g.In, j)
			less.rows = groups(less.In, len(g.Keys))
			s.right = &less
		}
	}
}

// semiBelow puts a semi join as far down as its left side has the columns of the keys.
func semiBelow(n Node, semi *Join) Node {
	keys := refs{}
	for _, k := range semi.Keys {
		keys.add(refsOf(k.Left))
	}
	if j, ok := n.(*Join); ok && j.Kind != sqltext.Full {
		out := *j
		switch {
		case keys.in(setOf(j.Left.Columns())):
			out.Left = semiBelow(j.Left, semi)
			return &out
		case j.Kind == sqltext.Inner && keys.in(setOf(j.Right.Columns())):
			out.Right = semiBelow(j.Right, semi)
			return &out
		}
	}
	out := *semi
	out.Left = n
	out.rows = n.Rows() * 0.1
	return &out
}
