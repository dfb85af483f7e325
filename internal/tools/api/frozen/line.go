package frozen

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"strings"
)

// declaration is a line of a listing.
type declaration struct {
	line string
	// kind is the first word: const, field, func, interface, method, type or var. Whether a member is promoted makes no
	// difference to programs.
	kind string
	// owner is the type of a field or method, without parameters.
	owner string
	// member is the name.
	member string
	// rest is what follows the name, without names of parameters.
	rest string
}

// name returns the name with that of its type.
func (d declaration) name() string {
	if d.owner == "" {
		return d.member
	}
	return d.owner + "." + d.member
}

func (d declaration) last() string { return d.member }

// key returns what must stay the same for programs to compile.
func (d declaration) key() string { return d.kind + " " + d.name() + d.rest }

// declarations returns the lines by their keys.
func declarations(lines []string) map[string]declaration {
	all := map[string]declaration{}
	for _, line := range lines {
		if line != "" {
			d := parse(line)
			all[d.key()] = d
		}
	}
	return all
}

// parse reads a line of a listing, see package surface.
func parse(line string) declaration {
	d := declaration{line: line}
	text, promoted := strings.CutPrefix(line, "promoted ")
	d.kind, text, _ = strings.Cut(text, " ")
	switch d.kind {
	case "interface":
		text = strings.TrimPrefix(text, "method ")
	case "field", "method", "func", "type", "const", "var":
	default: // "promoted Number embeds …"
		d.kind, text = "interface", strings.TrimPrefix(line, "promoted ")
	}
	if receiver, ok := strings.CutPrefix(text, "("); ok && d.kind == "method" {
		var rest string
		receiver, rest, _ = strings.Cut(receiver, ") ")
		d.owner, text = strings.TrimPrefix(receiver, "*"), rest
		if strings.HasPrefix(receiver, "*") {
			d.rest = "*" // a method that moves to the pointer leaves the method set of the value
		}
		d.owner, _, _ = strings.Cut(d.owner, "[")
	}
	d.member, text = identifier(text)
	if next, ok := strings.CutPrefix(text, "."); ok && d.owner == "" && d.kind != "type" {
		d.owner = d.member
		d.member, text = identifier(next)
	} else if _, ok := strings.CutPrefix(text, " embeds "); ok && d.kind == "interface" {
		d.owner = d.member
	}
	if promoted && d.kind == "method" {
		d.rest = "" // the receiver is not listed
	}
	d.rest += types(text)
	return d
}

// identifier cuts the first identifier of a text.
func identifier(text string) (name, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool { return !token.IsIdentifier("x" + string(r)) })
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

// types returns a signature without the names of parameters and results, which callers do not use. Any other text is
// returned as it is.
func types(text string) string {
	if !strings.HasPrefix(text, "(") && !strings.HasPrefix(text, "[") {
		return text
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", "package p\nfunc f"+text, parser.SkipObjectResolution)
	if err != nil || len(file.Decls) != 1 {
		return text
	}
	f, ok := file.Decls[0].(*ast.FuncDecl)
	if !ok {
		return text
	}
	var b strings.Builder
	fields := func(list *ast.FieldList, names bool) {
		if list == nil {
			return
		}
		b.WriteByte('(')
		for _, field := range list.List {
			for i := range max(1, len(field.Names)) {
				if names {
					b.WriteString(field.Names[i].Name + " ")
				}
				// Writing to a strings.Builder does not fail.
				_ = printer.Fprint(&b, files, field.Type)
				b.WriteByte(',')
			}
		}
		b.WriteByte(')')
	}
	fields(f.Type.TypeParams, true)
	fields(f.Type.Params, false)
	fields(f.Type.Results, false)
	return b.String()
}
