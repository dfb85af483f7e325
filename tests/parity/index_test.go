package parity

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.millstream.dev/internal/tools/tree"
)

// index is what the module's source declares, by "folder.Name" and "folder.Type.Member". It comes from the
// source alone: compiling would hide what a build tag leaves out on this machine.
type index struct {
	folders map[string]bool
	symbols map[string]bool
	tests   map[string]bool
}

func newIndex(root string) (*index, error) {
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	x := &index{folders: map[string]bool{}, symbols: map[string]bool{}, tests: map[string]bool{}}
	if err := x.addHeader(filepath.Join(root, "include", "millstream.h")); err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	for _, name := range tree.GoFiles(files) {
		f, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil,
			parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		folder := path.Dir(name)
		x.folders[folder] = true
		if strings.HasSuffix(name, "_test.go") {
			x.addTests(folder, f)
			continue
		}
		for _, decl := range f.Decls {
			x.addSymbols(folder, decl)
		}
	}
	return x, nil
}

var function = regexp.MustCompile(`(?m)^MILLSTREAM_API .*?\b(millstream_v1_\w+)\(`)

// addHeader takes the functions of the C interface, if there is one.
func (x *index) addHeader(name string) error {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, m := range function.FindAllSubmatch(text, -1) {
		x.symbols[string(m[1])] = true
	}
	return err
}

// addTests takes what the go command would run: TestMain and helpers such as Testing are not that.
func (x *index) addTests(folder string, f *ast.File) {
	for _, decl := range f.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || d.Recv != nil || d.Name.Name == "TestMain" {
			continue
		}
		for _, prefix := range []string{"Test", "Fuzz", "Benchmark", "Example"} {
			rest, ok := strings.CutPrefix(d.Name.Name, prefix)
			if first, _ := utf8.DecodeRuneInString(rest); ok && !unicode.IsLower(first) {
				x.tests[folder+"."+d.Name.Name] = true
			}
		}
	}
}

func (x *index) addSymbols(folder string, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			x.add(folder, d.Name.Name)
		} else if len(d.Recv.List) == 1 {
			x.add(folder, typeName(d.Recv.List[0].Type), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					x.add(folder, name.Name)
				}
			case *ast.TypeSpec:
				x.add(folder, s.Name.Name)
				x.addMembers(folder, s)
			}
		}
	}
}

func (x *index) addMembers(folder string, s *ast.TypeSpec) {
	var members *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		members = t.Fields
	case *ast.InterfaceType:
		members = t.Methods
	default:
		return
	}
	for _, m := range members.List {
		if len(m.Names) == 0 { // embedded
			x.add(folder, s.Name.Name, typeName(m.Type))
		}
		for _, name := range m.Names {
			x.add(folder, s.Name.Name, name.Name)
		}
	}
}

// add leaves out what a user of the package cannot name.
func (x *index) add(folder string, names ...string) {
	for _, name := range names {
		if !ast.IsExported(name) {
			return
		}
	}
	x.symbols[folder+"."+strings.Join(names, ".")] = true
}

// typeName is the bare name of a receiver's or embedded field's type: T of *T, T[K, V], pkg.T.
func typeName(t ast.Expr) string {
	switch e := t.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
