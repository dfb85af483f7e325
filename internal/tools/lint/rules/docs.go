package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// checkDocs requires a doc comment on every exported name of public packages.
func checkDocs(s *source) []Problem {
	if s.file == nil || s.isTest() || s.file.Name.Name == "main" {
		return nil
	}
	for part := range strings.SplitSeq(s.pkg(), "/") {
		if part == "internal" || part == "tests" || part == "examples" || part == "bench" {
			return nil
		}
	}
	var problems []Problem
	missing := func(pos token.Pos, what, name string) {
		problems = append(problems, Problem{s.name, s.lineOf(pos), "docs",
			fmt.Sprintf("exported %s %s has no doc comment", what, name)})
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				missing(d.Pos(), "func", d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				checkSpec(d, spec, missing)
			}
		}
	}
	return problems
}

// checkSpec accepts a comment on the group, above the line or at its end.
func checkSpec(d *ast.GenDecl, spec ast.Spec, missing func(token.Pos, string, string)) {
	switch sp := spec.(type) {
	case *ast.TypeSpec:
		if sp.Name.IsExported() && sp.Doc == nil && sp.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			missing(sp.Pos(), "type", sp.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range sp.Names {
			if name.IsExported() && sp.Doc == nil && sp.Comment == nil && d.Doc == nil {
				missing(name.Pos(), d.Tok.String(), name.Name)
			}
		}
	}
}

// exportedReceiver reports whether d is a function or a method of an exported type. Methods of well-known interfaces
// need no comment.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	switch d.Name.Name {
	case "String", "Error", "Unwrap", "Is", "Len", "Less", "Swap":
		return false
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
