package surface

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// Package is the API of one package.
type Package struct {
	// Dir is the folder relative to the root, "." for the root package.
	Dir string
	// Names is the number of exported functions, methods of exported types, types, constants and variables.
	Names int
	// Lines are the sorted declarations: the counted ones, and those that are only listed: fields of structs, methods
	// of interfaces, and members from embedded and aliased types of internal packages ("promoted").
	Lines []string
}

// MethodSet is the number of methods of one type.
type MethodSet struct {
	Dir, Type     string
	Exported, All int
}

// API is the public surface of a module.
type API struct {
	// Packages are the public packages, sorted by folder. A package without exported names, imported for its side
	// effect, is not listed.
	Packages []Package
	// MethodSets are the types of the whole module, including internal packages, with the most methods first.
	MethodSets []MethodSet
}

// Names returns the number of exported names of all packages.
func (a *API) Names() int {
	n := 0
	for _, p := range a.Packages {
		n += p.Names
	}
	return n
}

// Read returns the API of the module at root.
func Read(root string) (*API, error) {
	m, err := load(root)
	if err != nil {
		return nil, err
	}
	a := &API{}
	for _, dir := range slices.Sorted(maps.Keys(m.packages)) {
		p := m.packages[dir]
		if public(dir) && p.name != "main" {
			if l := m.list(p); l.Names > 0 {
				a.Packages = append(a.Packages, l)
			}
		}
		for name, methods := range p.methods {
			set := MethodSet{Dir: dir, Type: name, All: len(methods)}
			for _, d := range methods {
				if d.Name.IsExported() {
					set.Exported++
				}
			}
			a.MethodSets = append(a.MethodSets, set)
		}
	}
	slices.SortFunc(a.MethodSets, func(x, y MethodSet) int {
		return cmp.Or(y.All-x.All, strings.Compare(x.Dir, y.Dir), strings.Compare(x.Type, y.Type))
	})
	return a, nil
}

// lister collects the lines of one package.
type lister struct {
	*module
	pkg *source
	out Package
}

func (m *module) list(p *source) Package {
	l := &lister{module: m, pkg: p, out: Package{Dir: p.dir}}
	for _, f := range p.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				l.function(d)
			case *ast.GenDecl:
				l.general(f, d)
			}
		}
	}
	slices.Sort(l.out.Lines)
	l.out.Lines = slices.Compact(l.out.Lines)
	return l.out
}

// addCounted adds a declaration of an exported name.
func (l *lister) addCounted(format string, args ...any) {
	l.out.Names++
	l.add(format, args...)
}

func (l *lister) add(format string, args ...any) {
	l.out.Lines = append(l.out.Lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l *lister) function(d *ast.FuncDecl) {
	switch {
	case !d.Name.IsExported():
	case d.Recv == nil:
		l.addCounted("func %s%s", d.Name.Name, l.signature(d.Type))
	case ast.IsExported(baseName(d.Recv.List[0].Type)):
		l.addCounted("method (%s) %s%s", l.text(d.Recv.List[0].Type), d.Name.Name, l.signature(d.Type))
	}
}

// signature returns the type of a function without the word func.
func (l *lister) signature(t *ast.FuncType) string {
	params := ""
	if t.TypeParams != nil {
		c := *t
		c.TypeParams = nil
		params, t = l.typeParams(t.TypeParams), &c
	}
	return params + strings.TrimPrefix(l.text(t), "func")
}

func (l *lister) typeParams(list *ast.FieldList) string {
	if list == nil {
		return ""
	}
	var parts []string
	for _, f := range list.List {
		var names []string
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		parts = append(parts, strings.Join(names, ", ")+" "+l.text(f.Type))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// text returns a syntax node in one line.
func (l *lister) text(n ast.Node) string {
	var b strings.Builder
	// A config without tabs; the printer breaks long lists nevertheless.
	if err := (&printer.Config{Mode: printer.RawFormat}).Fprint(&b, l.fset, n); err != nil {
		return err.Error()
	}
	s := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer("( ", "(", ", )", ")").Replace(s)
}

func (l *lister) general(f *ast.File, d *ast.GenDecl) {
	var kind ast.Expr // type of constants without one
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				l.typeSpec(f, s)
			}
		case *ast.ValueSpec:
			if s.Type != nil || len(s.Values) > 0 {
				kind = s.Type
			}
			l.values(d.Tok, s, kind)
		}
	}
}

func (l *lister) values(tok token.Token, s *ast.ValueSpec, kind ast.Expr) {
	for i, name := range s.Names {
		if !name.IsExported() {
			continue
		}
		line := tok.String() + " " + name.Name
		if kind != nil {
			line += " " + l.text(kind)
		}
		if tok == token.CONST && i < len(s.Values) {
			if v, ok := s.Values[i].(*ast.BasicLit); ok {
				line += " = " + v.Value
			}
		}
		l.addCounted("%s", line)
	}
}
