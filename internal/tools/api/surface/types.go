package surface

import (
	"go/ast"
	"strings"
)

func (l *lister) typeSpec(f *ast.File, s *ast.TypeSpec) {
	name := s.Name.Name
	head := "type " + name + l.typeParams(s.TypeParams)
	if s.Assign.IsValid() {
		l.counted("%s = %s", head, l.text(s.Type))
		if p, target := l.foreign(f, s.Type); p != nil && !public(p.dir) {
			l.promoted(name, p, target, map[string]bool{})
		}
		return
	}
	switch t := s.Type.(type) {
	case *ast.StructType:
		l.counted("%s struct", head)
		l.fields("field", name, l.pkg, f, t, map[string]bool{})
	case *ast.InterfaceType:
		l.counted("%s interface", head)
		l.elements("interface method", name, t)
	default:
		l.counted("%s %s", head, l.text(s.Type))
	}
}

// fields lists the exported fields of a struct and what its embedded unexported or internal types promote.
func (l *lister) fields(mark, name string, p *source, f *ast.File, t *ast.StructType, seen map[string]bool) {
	for _, field := range t.Fields.List {
		for _, n := range field.Names {
			if n.IsExported() {
				l.listed("%s %s.%s %s", mark, name, n.Name, l.text(field.Type))
			}
		}
		if len(field.Names) > 0 {
			continue
		}
		target := field.Type
		if q, base := l.foreign(f, target); q != nil {
			l.listed("%s %s.%s (embedded)", mark, name, l.text(target))
			if !public(q.dir) {
				l.promoted(name, q, base, seen)
			}
			continue
		}
		switch base := baseName(target); {
		case base == "" || ast.IsExported(base):
			l.listed("%s %s.%s (embedded)", mark, name, l.text(target))
		case p.types[base] != nil:
			l.promoted(name, p, base, seen)
		}
	}
}

func (l *lister) elements(mark, name string, t *ast.InterfaceType) {
	for _, m := range t.Methods.List {
		switch ft, ok := m.Type.(*ast.FuncType); {
		case !ok:
			l.listed("%s %s embeds %s", strings.Fields(mark)[0], name, l.text(m.Type))
		case m.Names[0].IsExported():
			l.listed("%s %s.%s%s", mark, name, m.Names[0].Name, l.signature(ft))
		}
	}
}

// promoted lists methods and fields that name has from a type that users cannot name: they are part of the API, though
// declared elsewhere.
func (l *lister) promoted(name string, p *source, target string, seen map[string]bool) {
	id := p.dir + "." + target
	spec := p.types[target]
	if spec == nil || seen[id] {
		return
	}
	seen[id] = true
	for _, d := range p.methods[target] {
		if d.Name.IsExported() {
			l.listed("promoted method %s.%s%s", name, d.Name.Name, l.signature(d.Type))
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
			l.promoted(name, q, next, seen)
		}
	}
}
