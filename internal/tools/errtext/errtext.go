// Package errtext finds the texts of errors in Go source.
package errtext

import (
	"go/ast"
	"go/token"
	"strconv"
)

// Of returns the text of a call that makes an error, errors.New or an Errorf function such as fmt.Errorf, with the
// verbs of its format and "…" for parts that are not literals. It reports false for other calls, and for texts that do
// not begin with a literal.
func Of(call *ast.CallExpr) (string, bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return "", false
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok || sel.Sel.Name != "Errorf" && pkg.Name+"."+sel.Sel.Name != "errors.New" {
		return "", false
	}
	return literal(call.Args[0])
}

// literal returns the value of a string literal, or of a concatenation that begins with one.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return s, true
		}
	case *ast.BinaryExpr:
		first, ok := literal(x.X)
		if !ok || x.Op != token.ADD {
			break
		}
		rest, ok := literal(x.Y)
		if !ok {
			rest = "…"
		}
		return first + rest, true
	}
	return "", false
}
