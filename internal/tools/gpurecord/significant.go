package gpurecord

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
)

// directive matches comments that the go command, the compiler or cgo reads.
var directive = regexp.MustCompile(`^(?://go:|//export |//line |/\*line |// ?\+build )`)

// significant returns the tokens of a Go file, one per line, with directives and cgo preambles but without other
// comments. It returns a file that is not valid Go unchanged.
func significant(text []byte) []byte {
	files := token.NewFileSet()
	syntax, err := parser.ParseFile(files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return text
	}
	preambles := preambles(syntax)
	file := files.AddFile("", -1, len(text))
	shift := token.Pos(file.Base()) - syntax.FileStart
	var sc scanner.Scanner
	sc.Init(file, text, nil, scanner.ScanComments)
	var out bytes.Buffer
	for {
		pos, tok, lit := sc.Scan()
		switch tok {
		case token.EOF:
			return out.Bytes()
		case token.SEMICOLON:
			lit = "" // ";" and the end of a line are the same
		case token.COMMENT:
			if !preambles[pos-shift] && !directive.MatchString(lit) {
				continue
			}
		}
		fmt.Fprintf(&out, "%s %q\n", tok, lit)
	}
}

// preambles returns the positions of the comments that cgo reads as C.
func preambles(file *ast.File) map[token.Pos]bool {
	positions := map[token.Pos]bool{}
	add := func(group *ast.CommentGroup) {
		if group != nil {
			for _, c := range group.List {
				positions[c.Pos()] = true
			}
		}
	}
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok || d.Tok != token.IMPORT {
			continue
		}
		for _, spec := range d.Specs {
			if spec := spec.(*ast.ImportSpec); spec.Path.Value == `"C"` {
				add(spec.Doc)
				add(d.Doc)
			}
		}
	}
	return positions
}
