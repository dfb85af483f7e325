package frame

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/sqlexpr"
	"go.millstream.dev/frame/internal/sqlplan"
	"go.millstream.dev/frame/internal/sqltext"
)

// SQL returns a query for a SELECT statement on tables, which are other queries by name. The dialect is the common part
// of those of PostgreSQL and DuckDB: common table expressions, all joins, subqueries, aggregates, window functions and
// UNION. Names of tables and columns ignore case unless that is ambiguous.
//
//	q, err := frame.SQL(ctx, c, `
//		select region, sum(amount) as total
//		from orders join customers on orders.customer = customers.id
//		where year(day) = 2026
//		group by region order by total desc`,
//		map[string]*frame.Query{"orders": orders, "customers": customers})
//
// The statement becomes a query like those that verbs build: nothing runs before the query does. For the order of joins
// SQL reads the sizes of the tables: for those that are frames it waits until they are computed. Errors name the line
// and the column of the text; syntax that is not supported is an error that names it.
func SQL(ctx context.Context, c *client.Client, text string, tables map[string]*Query) (*Query, error) {
	parsed, err := sqltext.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("frame: SQL: %w", err)
	}
	catalog, err := sqlCatalog(ctx, c, tables)
	if err != nil {
		return nil, fmt.Errorf("frame: SQL: %w", err)
	}
	tree, err := sqlplan.Lower(parsed, catalog)
	if err != nil {
		return nil, fmt.Errorf("frame: SQL: %w", err)
	}
	b := &sqlBuilder{c: c, tables: tables, done: map[sqlplan.Node]*Query{}}
	q, err := b.query(tree)
	if err != nil {
		return nil, fmt.Errorf("frame: SQL: %w", err)
	}
	return typedNulls(q), nil
}

// typedNulls makes columns of nothing but NULL int32, as DuckDB does: Arrow's type of nulls has no values to send.
func typedNulls(q *Query) *Query {
	var cols []Expr
	for _, f := range q.node.Schema().Fields() {
		if f.Type.ID() == arrow.NULL {
			cols = append(cols, Lit(nil).Cast(arrow.PrimitiveTypes.Int32).As(f.Name))
		}
	}
	if cols == nil {
		return q
	}
	return q.With(cols...)
}

// sqlCatalog returns the columns and sizes of the tables.
func sqlCatalog(ctx context.Context, c *client.Client, tables map[string]*Query) (sqlplan.Catalog, error) {
	out := sqlplan.Catalog{}
	for name, q := range tables {
		if q == nil {
			return nil, fmt.Errorf("table %q is nil", name)
		}
		if q.c != c {
			return nil, fmt.Errorf("table %q belongs to another client", name)
		}
		s, err := q.Schema()
		if err != nil {
			return nil, fmt.Errorf("table %q: %w", name, err)
		}
		t := sqlplan.Table{NotNull: map[string]bool{}}
		for _, f := range s.Fields() {
			t.Columns = append(t.Columns, f.Name)
			t.NotNull[f.Name] = !f.Nullable
		}
		if len(tables) > 1 {
			if t.Rows, err = q.guessRows(ctx); err != nil {
				return nil, fmt.Errorf("rows of table %q: %w", name, err)
			}
		}
		out[name] = t
	}
	return out, nil
}

// guessRows returns an estimate of the number of rows of a query, 0 if it is unknown.
func (q *Query) guessRows(ctx context.Context) (float64, error) {
	var failed error
	rows, _ := plan.Guess(q.node, func(t plan.Table) (int64, int64, bool) {
		ft, ok := t.(frameTable)
		if !ok || failed != nil {
			return 0, 0, false
		}
		n, err := ft.f.NumRows(ctx)
		failed = err
		return n, -1, err == nil
	})
	if failed != nil || rows < 0 {
		return 0, failed
	}
	return float64(max(1, rows)), nil
}

// oneRow is the table of SELECT without FROM: one row, which every run sends to a worker.
type oneRow struct {
	c    *client.Client
	name string
}

// batch returns the row.
func (t oneRow) batch() arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(1)
	return b.NewRecordBatch()
}

func (t oneRow) Schema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: t.name, Type: arrow.PrimitiveTypes.Int64}}, nil)
}

func (t oneRow) NumPartitions() int { return 1 }

func (t oneRow) Describe() string { return "One row" }

func (t oneRow) Size() (rows, bytes int64, ok bool) { return 1, 8, true }

// Parts sends the row to a worker.
func (t oneRow) Parts(ctx context.Context) ([]*client.Future[arrow.RecordBatch], func(), error) {
	f, err := FromBatches(ctx, t.c, []arrow.RecordBatch{t.batch()})
	if err != nil {
		return nil, nil, err
	}
	return f.parts, f.Release, nil
}

// commonColumns casts the columns of queries, which have the same number, to common types.
func commonColumns(queries []*Query) ([]*Query, error) {
	schemas := make([]*arrow.Schema, len(queries))
	for i, q := range queries {
		var err error
		if schemas[i], err = q.Schema(); err != nil {
			return nil, err
		}
	}
	out := append([]*Query(nil), queries...)
	for i, q := range queries {
		cols := make([]Expr, schemas[i].NumFields())
		cast := false
		for j, f := range schemas[i].Fields() {
			cols[j] = Col(f.Name)
			t, err := commonType(schemas, j)
			if err != nil {
				return nil, err
			}
			if !arrow.TypeEqual(t, f.Type) {
				cols[j] = cols[j].Cast(t).As(f.Name)
				cast = true
			}
		}
		if cast {
			out[i] = q.Select(cols...)
		}
	}
	return out, nil
}

// sqlBuilder builds queries of the operators of statements.
type sqlBuilder struct {
	c      *client.Client
	tables map[string]*Query
	// done has the queries of operators, which may be inputs of several others.
	done map[sqlplan.Node]*Query
}

// query returns the query of an operator. Its error is that of the first operator that fails.
func (b *sqlBuilder) query(n sqlplan.Node) (*Query, error) {
	if q := b.done[n]; q != nil {
		return q, nil
	}
	q, err := b.build(n)
	if err == nil {
		_, err = q.Schema()
	}
	if err != nil {
		return nil, err
	}
	b.done[n] = q
	return q, nil
}

func (b *sqlBuilder) build(n sqlplan.Node) (*Query, error) {
	switch n := n.(type) {
	case *sqlplan.Scan:
		return b.scan(n), nil
	case *sqlplan.One:
		return &Query{c: b.c, node: &plan.Source{Table: oneRow{b.c, n.Name}}}, nil
	case *sqlplan.Join:
		return b.join(n)
	case *sqlplan.Union:
		return b.union(n)
	case *sqlplan.Filter:
		return b.on(n.In, func(in *Query) (*Query, error) {
			cond, err := sqlexpr.Convert(n.Cond)
			return in.Filter(cond), err
		})
	case *sqlplan.Project:
		return b.on(n.In, func(in *Query) (*Query, error) {
			cols, err := sqlColumns(n.Cols)
			return in.Select(cols...), err
		})
	case *sqlplan.Group:
		return b.on(n.In, func(in *Query) (*Query, error) { return sqlGroup(in, n) })
	case *sqlplan.Window:
		return b.on(n.In, func(in *Query) (*Query, error) { return sqlWindows(in, n.Calls) })
	case *sqlplan.Sort:
		return b.on(n.In, func(in *Query) (*Query, error) {
			keys, err := sqlOrder(n.Keys)
			return in.Sort(keys...), err
		})
	case *sqlplan.Limit:
		return b.limit(n)
	case *sqlplan.Distinct:
		return b.on(n.In, func(in *Query) (*Query, error) { return in.Distinct(), nil })
	}
	return nil, fmt.Errorf("unknown operator %T", n)
}

// on applies a function to the query of an input.
func (b *sqlBuilder) on(in sqlplan.Node, f func(*Query) (*Query, error)) (*Query, error) {
	q, err := b.query(in)
	if err != nil {
		return nil, err
	}
	return f(q)
}

func (b *sqlBuilder) scan(n *sqlplan.Scan) *Query {
	renamed := false
	cols := make([]Expr, len(n.From))
	for i, from := range n.From {
		cols[i] = Col(from)
		if from != n.To[i] {
			cols[i], renamed = cols[i].As(n.To[i]), true
		}
	}
	if !renamed {
		return b.tables[n.Table]
	}
	return b.tables[n.Table].Select(cols...)
}

// sqlColumns converts computed columns.
func sqlColumns(cols []sqlplan.Named) ([]Expr, error) {
	out := make([]Expr, len(cols))
	for i, c := range cols {
		e, err := sqlexpr.Convert(c.Expr)
		if err != nil {
			return nil, err
		}
		out[i] = e.As(c.Name)
	}
	return out, nil
}

// sqlOrder converts the keys of ORDER BY.
func sqlOrder(items []sqltext.OrderItem) ([]SortKey, error) {
	out := make([]SortKey, len(items))
	for i, o := range items {
		e, err := sqlexpr.Convert(o.Expr)
		if err != nil {
			return nil, err
		}
		if out[i] = Asc(e); o.Desc {
			out[i] = Desc(e)
		}
		if o.NullsFirst {
			out[i] = out[i].NullsFirst()
		}
	}
	return out, nil
}

// limit converts LIMIT and OFFSET. After a sort they need only its first rows.
func (b *sqlBuilder) limit(n *sqlplan.Limit) (*Query, error) {
	if s, ok := n.In.(*sqlplan.Sort); ok && n.N >= 0 && n.N+n.Offset >= 0 {
		return b.on(s.In, func(in *Query) (*Query, error) {
			keys, err := sqlOrder(s.Keys)
			out := in.Top(n.N+n.Offset, keys...)
			if n.Offset > 0 {
				out = out.Offset(n.Offset)
			}
			return out, err
		})
	}
	return b.on(n.In, func(in *Query) (*Query, error) {
		if n.Offset > 0 {
			in = in.Offset(n.Offset)
		}
		if n.N >= 0 {
			in = in.Limit(n.N)
		}
		return in, nil
	})
}

var sqlJoins = map[sqltext.JoinKind]JoinKind{sqltext.Inner: InnerJoin, sqltext.Left: LeftJoin, sqltext.Full: FullJoin,
	sqltext.Semi: SemiJoin, sqltext.Anti: AntiJoin, sqltext.Cross: CrossJoin}

func (b *sqlBuilder) join(n *sqlplan.Join) (*Query, error) {
	l, err := b.query(n.Left)
	if err != nil {
		return nil, err
	}
	r, err := b.query(n.Right)
	if err != nil {
		return nil, err
	}
	opts := JoinOptions{Kind: sqlJoins[n.Kind], NullAware: n.NullAware}
	for _, k := range n.Keys {
		le, err := sqlexpr.Convert(k.Left)
		if err != nil {
			return nil, err
		}
		re, err := sqlexpr.Convert(k.Right)
		if err != nil {
			return nil, err
		}
		opts.LeftOn, opts.RightOn = append(opts.LeftOn, le), append(opts.RightOn, re)
	}
	if n.Cond != nil {
		cond, err := sqlexpr.Convert(n.Cond)
		if err != nil {
			return nil, err
		}
		opts.Where = &cond
	}
	return l.Join(r, opts), nil
}

func (b *sqlBuilder) union(n *sqlplan.Union) (*Query, error) {
	queries := make([]*Query, len(n.In))
	for i, in := range n.In {
		var err error
		if queries[i], err = b.query(in); err != nil {
			return nil, err
		}
	}
	queries, err := commonColumns(queries)
	if err != nil {
		return nil, err
	}
	return queries[0].Union(queries[1:]...), nil
}

// commonType returns the type that has the values of a column of several tables.
func commonType(schemas []*arrow.Schema, column int) (arrow.DataType, error) {
	// It is that of a function of columns of these types.
	var fields []arrow.Field
	var args []any
	for i, s := range schemas {
		name := strconv.Itoa(i)
		fields = append(fields, arrow.Field{Name: name, Type: s.Field(column).Type, Nullable: true})
		args = append(args, Col(name))
	}
	bound, err := expr.Bind(args[0].(Expr).Coalesce(args[1:]...), arrow.NewSchema(fields, nil))
	if err != nil {
		return nil, fmt.Errorf("column %d of UNION: %w", column+1, err)
	}
	return bound.Type(), nil
}

// sqlGroup groups rows and computes aggregates.
func sqlGroup(in *Query, n *sqlplan.Group) (*Query, error) {
	keys, err := sqlColumns(n.Keys)
	if err != nil {
		return nil, err
	}
	aggs := make([]Agg, len(n.Aggs))
	for i, a := range n.Aggs {
		agg, err := sqlAggregate(a.Call)
		if err != nil {
			return nil, err
		}
		aggs[i] = agg.As(a.Name)
	}
	if len(keys) == 0 {
		return in.Agg(aggs...), nil
	}
	return in.GroupBy(keys...).Agg(aggs...), nil
}

// sqlAggregates are the aggregates with one argument, by the names of package sqlplan.
var sqlAggregates = map[string]func(Expr) Agg{"count": CountOf, "sum": Sum, "min": Min, "max": Max, "avg": Mean,
	"var": Var, "std": Std, "median": Median, "first": First, "last": Last, "list": CollectList}

// sqlAggregate converts an aggregate.
func sqlAggregate(c *sqltext.Call) (Agg, error) {
	if c.Star {
		return Count(), nil
	}
	x, err := sqlexpr.Convert(c.Args[0])
	if err != nil {
		return Agg{}, err
	}
	switch f := sqlAggregates[c.Function]; {
	case c.Distinct && c.Function == "count":
		return NUnique(x), nil
	case f != nil:
		return f(x), nil
	case c.Function != "quantile" && c.Function != "approx_quantile":
		return Agg{}, sqltext.Unsupported(c.Pos, "the aggregate "+c.Function)
	}
	q, ok := sqlexpr.Number(c.Args[1])
	if !ok {
		return Agg{}, sqltext.Unsupported(c.Args[1].At(), "a quantile that is not constant")
	}
	if c.Function == "quantile" {
		return Quantile(x, q), nil
	}
	return ApproxQuantile(x, q), nil
}

// sqlWindows adds the columns of window functions, those with the same window at once.
func sqlWindows(in *Query, calls []sqlplan.Call) (*Query, error) {
	text := func(c sqlplan.Call) string {
		w := *c.Call.Over
		w.Frame = nil
		return sqltext.Format(&sqltext.Call{Function: "f", Over: &w})
	}
	var order []string
	for _, c := range calls {
		if t := text(c); !slices.Contains(order, t) {
			order = append(order, t)
		}
	}
	for _, t := range order {
		var opts WindowOptions
		var funcs []WindowFunc
		for _, c := range calls {
			if text(c) != t {
				continue
			}
			f, err := sqlWindow(c.Call)
			if err != nil {
				return nil, err
			}
			funcs = append(funcs, f.As(c.Name))
			if opts, err = sqlWindowOptions(c.Call.Over); err != nil {
				return nil, err
			}
		}
		in = in.Window(opts, funcs...)
	}
	return in, nil
}

func sqlWindowOptions(w *sqltext.Window) (WindowOptions, error) {
	var out WindowOptions
	for _, e := range w.PartitionBy {
		x, err := sqlexpr.Convert(e)
		if err != nil {
			return out, err
		}
		out.PartitionBy = append(out.PartitionBy, x)
	}
	var err error
	out.OrderBy, err = sqlOrder(w.OrderBy)
	return out, err
}

// sqlWindow converts a window function.
func sqlWindow(c *sqltext.Call) (WindowFunc, error) {
	var none WindowFunc
	if c.Filter != nil || c.Distinct || len(c.OrderBy) > 0 {
		return none, sqltext.Unsupported(c.Pos, "FILTER, DISTINCT and ORDER BY in the window function "+c.Function)
	}
	arguments := func(least, most int) error {
		if len(c.Args) < least || len(c.Args) > most {
			return sqltext.Errorf(c.Pos, "the window function %s does not take %d arguments", c.Function, len(c.Args))
		}
		return nil
	}
	switch c.Function {
	case "row_number":
		return RowNumber(), arguments(0, 0)
	case "rank":
		return Rank(), arguments(0, 0)
	case "dense_rank":
		return DenseRank(), arguments(0, 0)
	case "lag", "lead":
		if err := arguments(1, 2); err != nil {
			return none, err
		}
		x, err := sqlexpr.Convert(c.Args[0])
		n, ok := int64(1), true
		if len(c.Args) == 2 {
			n, ok = sqlexpr.Int(c.Args[1])
		}
		if !ok || n < 0 || n > 1<<31 {
			return none, sqltext.Unsupported(c.Pos, "a distance of "+c.Function+" that is not a constant from 0 on")
		}
		if c.Function == "lag" {
			return Lag(x, int(n)), err
		}
		return Lead(x, int(n)), err
	}
	name, ok := map[string]string{"count": "count", "sum": "sum", "min": "min", "max": "max", "avg": "avg",
		"mean": "avg", "first": "first", "first_value": "first", "last": "last", "last_value": "last"}[c.Function]
	if !ok {
		return none, sqltext.Unsupported(c.Pos, "the window function "+c.Function)
	}
	if !c.Star {
		if err := arguments(1, 1); err != nil {
			return none, err
		}
	}
	agg := *c
	agg.Function = name
	a, err := sqlAggregate(&agg)
	if err != nil {
		return none, err
	}
	return sqlFrame(Over(a), c.Over)
}

// sqlFrame restricts an aggregate to the frame of a window.
func sqlFrame(f WindowFunc, w *sqltext.Window) (WindowFunc, error) {
	if w.Frame == nil {
		return f, nil
	}
	start, end := w.Frame.Start, w.Frame.End
	if start.Offset > 0 || end.Offset < 0 || start.Offset < -1<<31 || end.Offset > 1<<31 {
		return f, sqltext.Unsupported(w.Pos, "a window frame without the current row")
	}
	before, after := int(-start.Offset), int(end.Offset)
	if start.Unbounded {
		before = -1
	}
	if end.Unbounded {
		after = -1
	}
	return f.Rows(before, after), nil
}
