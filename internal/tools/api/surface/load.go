// Package surface lists the public API of the module from its syntax alone, so that `make lint` can compare the listing
// with the files in api/ quickly.
//
// It reads the files of a build for linux/amd64 with cgo. Public packages have no "internal" in their path and are not
// commands, tests, examples or benchmarks.
package surface

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/internal/tools/tree"
)

// source is the syntax of one package.
type source struct {
	dir     string // relative to the root, "." for the root package
	name    string
	files   []*ast.File
	types   map[string]*ast.TypeSpec
	owner   map[string]*ast.File       // the file of each type, for its imports
	methods map[string][]*ast.FuncDecl // by the base type of the receiver
}

type module struct {
	path     string
	fset     *token.FileSet
	packages map[string]*source // by dir
}

// private are top-level folders that are not part of the API.
var private = []string{"tests", "examples", "bench", "cmd"}

// public reports whether a package folder belongs to the API.
func public(dir string) bool {
	parts := strings.Split(dir, "/")
	return !slices.Contains(private, parts[0]) && !slices.Contains(parts, "internal") &&
		!slices.Contains(parts, "testdata")
}

func load(root string) (*module, error) {
	name, err := tree.Module(root)
	if err != nil {
		return nil, err
	}
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled, ctx.BuildTags = "linux", "amd64", true, nil
	m := &module{path: name, fset: token.NewFileSet(), packages: map[string]*source{}}
	for _, f := range tree.GoFiles(files) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		full := filepath.Join(root, filepath.FromSlash(f))
		switch match, err := ctx.MatchFile(filepath.Dir(full), filepath.Base(full)); {
		case err != nil:
			return nil, fmt.Errorf("surface: read build constraints of %s: %w", f, err)
		case !match:
			continue
		}
		file, err := parser.ParseFile(m.fset, full, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("surface: parse %s: %w", f, err)
		}
		m.add(path.Dir(f), file)
	}
	return m, nil
}

func (m *module) add(dir string, file *ast.File) {
	p := m.packages[dir]
	if p == nil {
		p = &source{dir: dir, types: map[string]*ast.TypeSpec{}, owner: map[string]*ast.File{},
			methods: map[string][]*ast.FuncDecl{}}
		m.packages[dir] = p
	}
	p.name = file.Name.Name
	p.files = append(p.files, file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				base := baseName(d.Recv.List[0].Type)
				p.methods[base] = append(p.methods[base], d)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					p.types[t.Name.Name], p.owner[t.Name.Name] = t, file
				}
			}
		}
	}
}

// baseName returns the name of the type of a receiver or an embedded field of the same package.
func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.ParenExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	}
	return ""
}

// foreign returns the package and the name of e, a type of the form pkg.Name in file, if the package is part of the
// module.
func (m *module) foreign(file *ast.File, e ast.Expr) (p *source, name string) {
	switch t := e.(type) {
	case *ast.StarExpr:
		return m.foreign(file, t.X)
	case *ast.IndexExpr:
		return m.foreign(file, t.X)
	case *ast.IndexListExpr:
		return m.foreign(file, t.X)
	case *ast.SelectorExpr:
		local, ok := t.X.(*ast.Ident)
		if !ok {
			return nil, ""
		}
		for _, imp := range file.Imports {
			full, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				continue
			}
			dir, ok := strings.CutPrefix(full, m.path+"/")
			q := m.packages[dir]
			if !ok || q == nil {
				continue
			}
			if imp.Name != nil && imp.Name.Name == local.Name || imp.Name == nil && q.name == local.Name {
				return q, t.Sel.Name
			}
		}
	}
	return nil, ""
}
