package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// checkSentinels requires that the text of exported error variables of public packages begins with the name of the
// package, and that those of public packages and of plainFolders are documented as "is returned".
func checkSentinels(s *source) []Problem {
	internal := slices.Contains(strings.Split(s.pkg(), "/"), "internal")
	if s.file == nil || s.isTest() || internal && !s.isPlain() {
		return nil
	}
	var problems []Problem
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			name := v.Names[0].Name
			if !strings.HasPrefix(name, "Err") || len(v.Values) != 1 {
				continue
			}
			bad := func(format string, args ...any) {
				problems = append(problems, Problem{s.name, s.lineOf(v.Pos()), "sentinels",
					fmt.Sprintf(format, args...)})
			}
			prefix := s.file.Name.Name + ": "
			if text, ok := sentinelText(v.Values[0]); ok && !internal && !strings.HasPrefix(text, prefix) {
				bad("the text of %s must begin with %q", name, prefix)
			}
			doc := v.Doc.Text()
			if doc == "" && !g.Lparen.IsValid() {
				doc = g.Doc.Text()
			}
			if !strings.HasPrefix(doc, name+" is returned ") {
				bad("document %s as \"%s is returned by …\"", name, name)
			}
		}
	}
	return problems
}

// sentinelText returns the text of errors.New("…") and closed.New("…").
func sentinelText(e ast.Expr) (string, bool) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	lit, isLit := call.Args[0].(*ast.BasicLit)
	if !ok || !isLit || f.Sel.Name != "New" || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
