package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// message is a struct with an op, or a part of such a struct: then op is "".
type message struct {
	name, op string
	to       string // receiver, if the op has another form for other receivers
	listed   bool   // a part that is used in lists
	fields   []field
}

// field is a field of a message.
type field struct {
	name, wire, typ     string
	required, omitempty bool
	orNil               bool   // the zero value is written as nil
	lenient             bool   // values other than text are read as none
	none, least         string // numbers, or ""
	kind                kind
}

// has reports whether the message has a field of a type.
func (m *message) has(typ string) bool {
	return slices.ContainsFunc(m.fields, func(f field) bool { return f.typ == typ })
}

// directive starts the comment line that makes a struct a message; partDirective is the comment line that makes it a
// part of messages.
const (
	directive     = "//message:op "
	partDirective = "//message:part"
)

// parse returns the messages and parts of the package in a folder, in the order of files and lines.
func parse(dir string) (list []message, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	ops := map[string]string{}
	set := token.NewFileSet()
	var decls []ast.Decl
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go") {
			continue
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		decls = append(decls, f.Decls...)
	}
	known := maps.Clone(kinds)
	for _, d := range decls { // parts may be declared after the messages that use them
		if _, part := directivesOf(d); part {
			name := d.(*ast.GenDecl).Specs[0].(*ast.TypeSpec).Name.Name
			known[name], known["[]"+name] = partKind(name), partsKind(name)
		}
	}
	for _, d := range decls {
		m, err := messageOf(d, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Position(d.Pos()), err)
		}
		if m == nil {
			continue
		}
		id := m.op + " " + m.to
		if other := ops[id]; other != "" && m.op != "" {
			return nil, fmt.Errorf("%s: %s and %s have the op %s", set.Position(d.Pos()), other, m.name, m.op)
		}
		ops[id] = m.name
		list = append(list, *m)
	}
	for i := range list {
		list[i].listed = slices.ContainsFunc(list, func(m message) bool { return m.has("[]" + list[i].name) })
	}
	if !slices.ContainsFunc(list, func(m message) bool { return m.op != "" }) {
		return nil, fmt.Errorf("%s: no struct has a comment line %q", dir, directive)
	}
	return list, nil
}

// directivesOf returns the text after the directive of a type, "" without one, and whether the type is a part.
func directivesOf(d ast.Decl) (op string, part bool) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.TYPE || g.Doc == nil || len(g.Specs) != 1 {
		return "", false
	}
	for _, c := range g.Doc.List {
		if rest, ok := strings.CutPrefix(c.Text, directive); ok {
			op = strings.TrimSpace(rest)
		}
		part = part || c.Text == partDirective
	}
	return op, part
}

// messageOf returns the message or part of a declaration, nil for others.
func messageOf(d ast.Decl, known map[string]kind) (*message, error) {
	op, part := directivesOf(d)
	if op == "" && !part {
		return nil, nil
	}
	spec := d.(*ast.GenDecl).Specs[0].(*ast.TypeSpec)
	st, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil, fmt.Errorf("%s is not a struct", spec.Name)
	}
	m := &message{name: spec.Name.Name}
	m.op, m.to, _ = strings.Cut(op, " to ")
	for _, f := range st.Fields.List {
		if len(f.Names) != 1 || f.Tag == nil {
			return nil, fmt.Errorf("%s: field without a name or a tag msg", m.name)
		}
		x, err := fieldOf(f, known)
		if err == nil && part && x.kind.frames {
			err = errors.New("a part cannot have frames")
		}
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", m.name, f.Names[0], err)
		}
		if slices.ContainsFunc(m.fields, func(o field) bool { return o.wire == x.wire }) {
			return nil, fmt.Errorf("%s.%s: duplicate wire name %q", m.name, f.Names[0], x.wire)
		}
		m.fields = append(m.fields, x)
	}
	if len(m.fields) > 14 {
		return nil, fmt.Errorf("%s: more than 14 fields, which a fixmap cannot hold", m.name)
	}
	return m, nil
}

func fieldOf(f *ast.Field, known map[string]kind) (x field, err error) {
	x.name, x.typ = f.Names[0].Name, types.ExprString(f.Type)
	kind, ok := known[x.typ]
	if !ok {
		return x, fmt.Errorf("unsupported type %s", x.typ)
	}
	x.kind = kind
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return x, err
	}
	options := strings.Split(reflect.StructTag(tag).Get("msg"), ",")
	if x.wire = options[0]; x.wire == "" || x.wire == "op" || len(x.wire) > 31 {
		return x, fmt.Errorf("invalid wire name in the tag msg: want 1 to 31 bytes, not op")
	}
	for _, o := range options[1:] {
		name, value, _ := strings.Cut(o, "=")
		if !slices.Contains(kind.options, name) {
			return x, fmt.Errorf("type %s has no option %q; want one of %q", x.typ, name, kind.options)
		}
		if name == "none" || name == "min" {
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				return x, fmt.Errorf("option %s: %w", name, err)
			}
		}
		switch name {
		case "required":
			x.required = true
		case "omitempty":
			x.omitempty = true
		case "nil":
			x.orNil = true
		case "lenient":
			x.lenient = true
		case "none":
			x.none = value
		case "min":
			x.least = value
		}
	}
	return x, nil
}
