package sqlplan

import (
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/frame/internal/sqltext"
)

// lowerer is the state of the lowering of a statement.
type lowerer struct {
	catalog Catalog
	// taken has the names of the plan.
	taken map[string]bool
}

// result is a lowered query.
type result struct {
	node Node
	// columns are those that the query returns, in order. The node may have more.
	columns []column
}

// env has the common table expressions that a query can use, the innermost first.
type env struct {
	parent *env
	def    sqltext.CTE
	// result is nil before the first use.
	result *result
}

// Lower returns the tree of a statement. Its columns have the names that the statement gives them; a name that occurs
// twice gets a number.
func Lower(q *sqltext.Query, catalog Catalog) (Node, error) {
	l := &lowerer{catalog: catalog, taken: map[string]bool{}}
	res, err := l.query(q, nil, nil)
	if err != nil {
		return nil, err
	}
	out := &Project{In: res.node}
	names := refs{}
	for _, c := range res.columns {
		name := c.name
		for i := 1; names[name]; i++ {
			name = fmt.Sprintf("%s_%d", c.name, i)
		}
		names[name] = true
		out.Cols = append(out.Cols, Named{name, ref(c.ref)})
	}
	return out, nil
}

func ref(name string) Expr { return &sqltext.Ref{Name: name} }

// unique returns the first of the names that is not taken, or the last with a number, and takes it.
func (l *lowerer) unique(names ...string) string {
	for i := 1; ; i++ {
		for _, name := range names {
			if i > 1 {
				name = fmt.Sprintf("%s_%d", names[len(names)-1], i)
			}
			if !l.taken[name] {
				l.taken[name] = true
				return name
			}
		}
	}
}

// query lowers a query. The scope around it is nil or that of the query which contains it.
func (l *lowerer) query(q *sqltext.Query, outer *scope, e *env) (*result, error) {
	e, err := l.with(q, e)
	if err != nil {
		return nil, err
	}
	switch body := q.Body.(type) {
	case *sqltext.Select:
		b, err := l.block(body, outer, e)
		if err != nil {
			return nil, err
		}
		return l.selectBlock(b, body, q)
	case *sqltext.Union:
		res, err := l.union(body, outer, e)
		if err != nil {
			return nil, err
		}
		return l.orderResult(res, q)
	case *sqltext.Query:
		res, err := l.query(body, outer, e)
		if err != nil {
			return nil, err
		}
		return l.orderResult(res, q)
	}
	return nil, sqltext.Unsupported(q.Pos, "this query")
}

// with adds the common table expressions of a query.
func (l *lowerer) with(q *sqltext.Query, e *env) (*env, error) {
	for i, c := range q.With {
		for _, other := range q.With[:i] {
			if strings.EqualFold(c.Name, other.Name) {
				return nil, sqltext.Errorf(c.Pos, "there are two common table expressions named %s", c.Name)
			}
		}
		e = &env{parent: e, def: c}
	}
	return e, nil
}

// find returns the common table expression with a name, nil if there is none.
func (e *env) find(name string) *env {
	for ; e != nil; e = e.parent {
		if strings.EqualFold(e.def.Name, name) {
			return e
		}
	}
	return nil
}

// use returns the result of a common table expression. It is lowered once; each use but the first gets other names.
func (l *lowerer) use(e *env) (*result, error) {
	if e.result == nil {
		res, err := l.query(e.def.Query, nil, e.parent)
		if err != nil {
			return nil, err
		}
		if err := rename(res, e.def.Columns, e.def.Pos, e.def.Name); err != nil {
			return nil, err
		}
		e.result = res
		first := *res
		return &first, nil
	}
	p := &Project{In: e.result.node}
	out := &result{node: p}
	for _, c := range e.result.columns {
		old := c.ref
		c.ref = l.unique(c.ref)
		p.Cols = append(p.Cols, Named{c.ref, ref(old)})
		out.columns = append(out.columns, c)
	}
	return out, nil
}

// rename gives the first columns of a result other names.
func rename(res *result, names []string, pos sqltext.Pos, what string) error {
	if len(names) > len(res.columns) {
		return sqltext.Errorf(pos, "%s has %d columns and %d names for them", what, len(res.columns), len(names))
	}
	res.columns = slices.Clone(res.columns)
	for i, n := range names {
		res.columns[i].name = n
	}
	return nil
}

// orderResult applies ORDER BY and LIMIT of a query to the result of its body.
func (l *lowerer) orderResult(res *result, q *sqltext.Query) (*result, error) {
	s := &scope{columns: res.columns}
	var keys []sqltext.OrderItem
	for _, o := range q.OrderBy {
		if _, all := o.Expr.(*sqltext.Star); all {
			for _, c := range res.columns {
				o.Expr = ref(c.ref)
				keys = append(keys, o)
			}
			continue
		}
		if i, ok, err := position(o.Expr, len(res.columns), "ORDER BY"); err != nil {
			return nil, err
		} else if ok {
			o.Expr = ref(res.columns[i].ref)
		} else if o.Expr, err = s.resolve(o.Expr); err != nil {
			return nil, err
		} else if hasQuery(o.Expr) {
			return nil, sqltext.Unsupported(o.Expr.At(), "a subquery in ORDER BY")
		}
		keys = append(keys, o)
	}
	return &result{node: sortLimit(res.node, keys, q), columns: res.columns}, nil
}

// sortLimit applies ORDER BY and LIMIT.
func sortLimit(n Node, keys []sqltext.OrderItem, q *sqltext.Query) Node {
	if len(keys) > 0 {
		n = &Sort{In: n, Keys: keys}
	}
	if q.Limit != nil || q.Offset != nil {
		limit := &Limit{In: n, N: -1}
		if q.Limit != nil {
			limit.N = *q.Limit
		}
		if q.Offset != nil {
			limit.Offset = *q.Offset
		}
		n = limit
	}
	return n
}

// position returns the index of the column that a number in ORDER BY or GROUP BY means.
func position(e Expr, columns int, clause string) (int, bool, error) {
	lit, ok := e.(*sqltext.Literal)
	if !ok || lit.Kind != sqltext.Integer {
		return 0, false, nil
	}
	var n int
	if _, err := fmt.Sscan(lit.Text, &n); err != nil || n < 1 || n > columns {
		return 0, false, sqltext.Errorf(lit.Pos, "%s %s is no position in a select list of %d columns", clause,
			lit.Text, columns)
	}
	return n - 1, true, nil
}
