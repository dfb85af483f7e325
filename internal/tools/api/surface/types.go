package surface

import (
	"go/ast"
	"strings"
)

func (l *lister) typeSpec(f *ast.File, s *ast.TypeSpec) {
	name := s.Name.Name
	head := "type " + name + l.typeParams(s.TypeParams)
	if s.Assign.IsValid() {
		l.addCounted("%s = %s", head, l.text(s.Type))
		if p, target := l.foreign(f, s.Type); p != nil && !public(p.dir) {
			l.addPromoted(name, p, target, map[string]bool{})
		}
		return
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		l.addCounted("%s struct", head)
		l.fields("field", name, l.pkg, f, t, map[string]bool{})
	case *ast.InterfaceType:
		l.addCounted("%s interface", head)
		l.elements("interface method", name, t)
	default:
		l.addCounted("%s %s", head, l.text(s.Type))
	}
}

// fields adds the exported fields of a struct and the members that embedded unexported or internal types promote.
func (l *lister) fields(mark, name string, p *source, f *ast.File, t *ast.StructType, seen map[string]bool) {
	for _, field := range t.Fields.List {
		for _, n := range field.Names {
			if n.IsExported() {
				l.add("%s %s.%s %s", mark, name, n.Name, l.text(field.Type))
			}
		}
		if len(field.Names) > 0 {
			continue
		}
		target := field.Type
		if q, base := l.foreign(f, target); q != nil {
			l.add("%s %s.%s (embedded)", mark, name, l.text(target))
			if !public(q.dir) {
				l.addPromoted(name, q, base, seen)
			}
			continue
		}
		switch base := baseName(target); {
		case base == "" || ast.IsExported(base):
			l.add("%s %s.%s (embedded)", mark, name, l.text(target))
		case p.types[base] != nil:
			l.addPromoted(name, p, base, seen)
		}
	}
}

func (l *lister) elements(mark, name string, t *ast.InterfaceType) {
	for _, m := range t.Methods.List {
		switch ft, ok := m.Type.(*ast.FuncType); {
		case !ok:
			l.add("%s %s embeds %s", strings.Fields(mark)[0], name, l.text(m.Type))
		case m.Names[0].IsExported():
			l.add("%s %s.%s%s", mark, name, m.Names[0].Name, l.signature(ft))
		}
	}
}

// addPromoted adds the methods and fields of a type that users cannot name. They are part of the API of name.
func (l *lister) addPromoted(name string, p *source, target string, seen map[string]bool) {
	id := p.dir + "." + target
	spec := p.types[target]
	if spec == nil || seen[id] {
		return
	}
	seen[id] = true
	for _, d := range p.methods[target] {
		if d.Name.IsExported() {
			l.add("promoted method %s.%s%s", name, d.Name.Name, l.signature(d.Type))
		}
	}
	switch t := spec.Type.(type) {
	case *ast.StructType:
		l.fields("promoted field", name, p, p.owner[target], t, seen)
	case *ast.InterfaceType:
		l.elements("promoted method", name, t)
	default:
		// An alias of an alias.
		if q, next := l.foreign(p.owner[target], t); spec.Assign.IsValid() && q != nil {
			l.addPromoted(name, q, next, seen)
		}
	}
}
