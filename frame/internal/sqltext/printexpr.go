package sqltext

import "strconv"

// expr writes an expression. Operations are in parentheses, so that no rule of precedence matters.
func (b *printer) expr(e Expr) {
	not := func(is bool) {
		if is {
			b.put(" NOT")
		}
	}
	switch x := e.(type) {
	case *Name:
		if x.Table != "" {
			b.put(Quote(x.Table), ".")
		}
		b.put(Quote(x.Column))
	case *Ref:
		b.put(Quote(x.Name))
	case *Star:
		if x.Table != "" {
			b.put(Quote(x.Table), ".")
		}
		b.put("*")
		if len(x.Exclude) > 0 {
			b.put(" EXCLUDE")
			b.names(x.Exclude)
		}
		if len(x.Replace) > 0 {
			b.put(" REPLACE (")
			b.list(len(x.Replace), ", ", func(i int) {
				b.expr(x.Replace[i].Expr)
				b.put(" AS ", Quote(x.Replace[i].Alias))
			})
			b.put(")")
		}
	case *Literal:
		b.literal(x)
	case *Interval:
		b.interval(x)
	case *Unary:
		b.put("(", x.Op, " ")
		b.expr(x.X)
		b.put(")")
	case *Binary:
		b.put("(")
		b.expr(x.L)
		b.put(" ", x.Op, " ")
		b.expr(x.R)
		b.put(")")
	case *Logic:
		b.put("(")
		b.list(len(x.Args), " "+x.Op+" ", func(i int) { b.expr(x.Args[i]) })
		b.put(")")
	case *IsTest:
		b.put("(")
		b.expr(x.X)
		b.put(" IS")
		not(x.Not)
		b.put(" ", x.What, ")")
	case *Between:
		b.put("(")
		b.expr(x.X)
		not(x.Not)
		b.put(" BETWEEN ")
		b.expr(x.Low)
		b.put(" AND ")
		b.expr(x.High)
		b.put(")")
	case *InList:
		b.put("(")
		b.expr(x.X)
		not(x.Not)
		b.put(" IN (")
		b.exprs(x.List)
		b.put("))")
	case *InQuery:
		b.put("(")
		b.expr(x.X)
		not(x.Not)
		b.put(" IN (")
		b.query(x.Query)
		b.put("))")
	case *Exists:
		b.put("EXISTS (")
		b.query(x.Query)
		b.put(")")
	case *Subquery:
		b.put("(")
		b.query(x.Query)
		b.put(")")
	case *Like:
		b.like(x)
	case *Case:
		b.caseExpr(x)
	case *Cast:
		if x.Try {
			b.put("TRY_")
		}
		b.put("CAST(")
		b.expr(x.X)
		b.put(" AS ", x.Type.String(), ")")
	case *Extract:
		b.put("EXTRACT(", x.Field, " FROM ")
		b.expr(x.X)
		b.put(")")
	case *Call:
		b.call(x)
	}
}

func (b *printer) like(x *Like) {
	b.put("(")
	b.expr(x.X)
	if x.Not {
		b.put(" NOT")
	}
	if x.Fold {
		b.put(" ILIKE ")
	} else {
		b.put(" LIKE ")
	}
	b.expr(x.Pattern)
	b.clause(" ESCAPE ", x.Escape)
	b.put(")")
}

func (b *printer) caseExpr(x *Case) {
	b.put("CASE")
	b.clause(" ", x.Operand)
	for _, w := range x.Whens {
		b.put(" WHEN ")
		b.expr(w.Cond)
		b.put(" THEN ")
		b.expr(w.Value)
	}
	b.clause(" ELSE ", x.Else)
	b.put(" END")
}

func (b *printer) call(c *Call) {
	b.put(Quote(c.Function), "(")
	if c.Star {
		b.put("*")
	}
	if c.Distinct {
		b.put("DISTINCT ")
	}
	b.exprs(c.Args)
	if len(c.OrderBy) > 0 {
		b.put(" ORDER BY ")
		b.order(c.OrderBy)
	}
	b.put(")")
	if c.Filter != nil {
		b.put(" FILTER (WHERE ")
		b.expr(c.Filter)
		b.put(")")
	}
	if c.Over != nil {
		b.window(c.Over)
	}
}

func (b *printer) window(w *Window) {
	b.put(" OVER (")
	sep := ""
	if len(w.PartitionBy) > 0 {
		b.put("PARTITION BY ")
		b.exprs(w.PartitionBy)
		sep = " "
	}
	if len(w.OrderBy) > 0 {
		b.put(sep, "ORDER BY ")
		b.order(w.OrderBy)
		sep = " "
	}
	if w.Frame != nil {
		b.put(sep, "ROWS BETWEEN ")
		b.bound(w.Frame.Start)
		b.put(" AND ")
		b.bound(w.Frame.End)
	}
	b.put(")")
}

func (b *printer) bound(e Bound) {
	n := "UNBOUNDED"
	if !e.Unbounded {
		n = strconv.FormatInt(max(e.Offset, -e.Offset), 10)
	}
	switch {
	case e.Offset < 0:
		b.put(n, " PRECEDING")
	case e.Offset > 0:
		b.put(n, " FOLLOWING")
	default:
		b.put("CURRENT ROW")
	}
}
