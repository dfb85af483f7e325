package rules

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Limits of the shape of the module.
const (
	maxInternal = 13 // folders in internal/
	maxFiles    = 30 // files of a package, without tests
	maxMethods  = 60 // methods of a type
)

// shape counts properties of the whole module.
type shape struct {
	internal       []string
	files, methods map[string]int
}

func newShape() *shape { return &shape{files: map[string]int{}, methods: map[string]int{}} }

// add counts a file.
func (c *shape) add(s *source) {
	if s.file == nil || s.isTest() {
		return
	}
	if parts := strings.Split(s.pkg(), "/"); parts[0] == "internal" && len(parts) > 1 &&
		!slices.Contains(c.internal, parts[1]) {
		c.internal = append(c.internal, parts[1])
	}
	c.files[s.pkg()]++
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && len(f.Recv.List) == 1 {
			c.methods[s.pkg()+"."+receiver(f.Recv.List[0].Type)]++
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// problems returns the counts that exceed their limits.
func (c *shape) problems() []Problem {
	var out []Problem
	if n := len(c.internal); n > maxInternal {
		out = append(out, Problem{File: "internal", Rule: "shape", Text: fmt.Sprintf("%d folders, more than %d; "+
			"move a package under its importer or into the folder of its subject", n, maxInternal)})
	}
	for _, l := range []struct {
		counts map[string]int
		most   int
		text   string
	}{{c.files, maxFiles, "files, more than %d; split the package"},
		{c.methods, maxMethods, "methods, more than %d; split the type"}} {
		for name, n := range l.counts {
			if n > l.most {
				out = append(out, Problem{File: name, Rule: "shape", Text: fmt.Sprintf("%d "+l.text, n, l.most)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	return out
}
