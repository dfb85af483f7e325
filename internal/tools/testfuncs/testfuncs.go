// Package testfuncs finds test functions by name in the source, because a compiler does not see tests that a build tag
// excludes on this machine.
package testfuncs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/tree"
)

// GPU is the prefix of tests that need a CUDA device. `make gpu-test-bundle` packs the packages that have one; `make
// test` requires each of them in docs/gpu-run.json.
const GPU = "TestGPU"

// Func is one test function.
type Func struct {
	// Package is the import path, also for a test in the _test package.
	Package string
	// Name is the name of the function.
	Name string
	// File is the file, relative to the root and slash-separated.
	File string
}

// Find returns the test, benchmark, fuzz or example functions whose names begin with prefix, sorted by package and
// name. Nested modules (except those of go.work) and testdata are excluded; build tags are ignored.
func Find(root, prefix string) ([]Func, error) {
	module, err := tree.Module(root)
	if err != nil {
		return nil, err
	}
	files, err := tree.Files(root)
	if err != nil {
		return nil, err
	}
	modules, err := tree.Workspace(root)
	if err != nil {
		return nil, err
	}
	var found []Func
	for _, file := range tree.GoFiles(files, modules...) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		names, err := inFile(filepath.Join(root, filepath.FromSlash(file)), prefix)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			found = append(found, Func{Package: path.Join(module, path.Dir(file)), Name: name, File: file})
		}
	}
	slices.SortFunc(found, func(a, b Func) int {
		if c := strings.Compare(a.Package, b.Package); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	// Two files with opposite build tags may define the same test.
	return slices.CompactFunc(found, func(a, b Func) bool { return a.Package == b.Package && a.Name == b.Name }), nil
}

func inFile(name, prefix string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, prefix) && takesOne(fn.Type) {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}

// takesOne reports whether a function has the signature of a test, unlike a helper with the same prefix.
func takesOne(t *ast.FuncType) bool {
	if t.Results != nil || t.TypeParams != nil || len(t.Params.List) != 1 || len(t.Params.List[0].Names) > 1 {
		return false
	}
	star, ok := t.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "T" || sel.Sel.Name == "F" || sel.Sel.Name == "B")
}

// Packages returns the import paths of funcs, each once, sorted.
func Packages(funcs []Func) []string {
	var out []string
	for _, f := range funcs {
		out = append(out, f.Package)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
