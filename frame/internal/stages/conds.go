package stages

import (
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/scan"
)

// scanOps are the comparisons that the statistics of files can decide, with those for exchanged operands.
var scanOps = map[expr.Op][2]scan.Op{
	expr.OpEq: {scan.Eq, scan.Eq}, expr.OpNe: {scan.Ne, scan.Ne}, expr.OpLt: {scan.Lt, scan.Gt},
	expr.OpLe: {scan.Le, scan.Ge}, expr.OpGt: {scan.Gt, scan.Lt}, expr.OpGe: {scan.Ge, scan.Le},
}

// pruneConds returns the conditions that compare a column with a constant. Others do not exclude parts of files.
func pruneConds(conds []expr.Expr) []scan.Cond {
	var out []scan.Cond
	for _, e := range conds {
		if c, ok := pruneCond(e); ok {
			out = append(out, c)
		}
	}
	return out
}

func pruneCond(e expr.Expr) (scan.Cond, bool) {
	if ops, ok := scanOps[e.Op]; ok && len(e.Args) == 2 {
		x, y := e.Args[0], e.Args[1]
		if x.Op == expr.OpColumn && isConstant(y) {
			return scan.Cond{Column: x.Name, Op: ops[0], Value: y.Value}, true
		}
		if y.Op == expr.OpColumn && isConstant(x) {
			return scan.Cond{Column: y.Name, Op: ops[1], Value: x.Value}, true
		}
		return scan.Cond{}, false
	}
	if len(e.Args) == 0 || e.Args[0].Op != expr.OpColumn {
		return scan.Cond{}, false
	}
	c := scan.Cond{Column: e.Args[0].Name}
	switch e.Op {
	case expr.OpIsNull:
		c.Op = scan.IsNull
	case expr.OpNotNull:
		c.Op = scan.NotNull
	case expr.OpIn:
		var values []any
		for _, a := range e.Args[1:] {
			if !isConstant(a) {
				return c, false
			}
			values = append(values, a.Value)
		}
		c.Op, c.Value = scan.In, values
	default:
		return c, false
	}
	return c, true
}

// isConstant reports whether an expression is a constant in the form that conditions of scans have.
func isConstant(e expr.Expr) bool {
	return e.Op == expr.OpLiteral && e.Value != nil && e.Type == ""
}
