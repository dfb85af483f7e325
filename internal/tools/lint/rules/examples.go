package rules

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/golist"
	"go.millstream.dev/internal/tools/tree"
)

// shown are the folders of the packages whose verbs must have examples.
var shown = []string{".", "client", "cluster", "clique", "clique/native", "frame", "frame/kmeans",
	"frame/linear", "frame/pca", "mem", "nccl", "ucx"}

// Reasons for examples that are only compiled.
const (
	needsGPU    = "needs a GPU"
	needsPython = "needs workers with Python"
)

// compiledOnly has the reason for each verb whose example does not run: by folder for a whole package, by folder and
// type for all methods, or by folder and name.
var compiledOnly = map[string]string{
	".Python":                 needsPython,
	".PythonSource":           needsPython,
	"client.Attribute":        needsPython,
	"client.PyFn":             needsPython,
	"client.PyMethod":         needsPython,
	"client.Python":           needsPython,
	"client.PythonMethod":     needsPython,
	"client.PythonSource":     needsPython,
	"clique.Rank.NCCL":        needsGPU,
	"cluster.CUDAConfig":      needsGPU,
	"cluster.CUDAWorker":      needsGPU,
	"cluster.LocalCUDA":       needsGPU,
	"cluster.RunWorker":       "changes settings of the process",
	"cluster.ThisCUDAMachine": needsGPU,
	"frame.Frame.ToDevice":    needsGPU,
	"frame.Frame.ToHost":      needsGPU,
	"frame.FromDask":          needsPython,
	"nccl":                    needsGPU,
}

// CheckExamples requires a runnable example for every verb of the front packages of the module at root: the verb is
// used by an Example function with an Output comment, or by a declaration of the test package that the function uses.
// Uses are resolved by type: the Close of one type is not an example of the Close of another. A verb is an exported
// function, or an exported method that is not a getter and not called through an interface of the standard library.
func CheckExamples(root string) ([]Problem, error) { return checkExamples(root, shown, compiledOnly) }

func checkExamples(root string, dirs []string, compiledOnly map[string]string) ([]Problem, error) {
	module, err := tree.Module(root)
	if err != nil {
		return nil, err
	}
	packages, err := goList(root, dirs)
	if err != nil {
		return nil, err
	}
	var problems []Problem
	needed := map[string]bool{} // entries of compiledOnly
	for _, dir := range dirs {
		p := packages[strings.TrimSuffix(module+"/"+dir, "/.")]
		if p == nil {
			return nil, fmt.Errorf("rules: no package in %s", dir)
		}
		verbs, err := verbsOf(p, dir)
		if err != nil {
			return nil, err
		}
		run, compiled, err := examplesIn(p, packages)
		if err != nil {
			return nil, err
		}
		for _, v := range verbs {
			entry := exemption(dir, v.name, compiledOnly)
			switch {
			case run[v.name]:
				continue
			case !compiled[v.name]:
				v.Text = v.name + " has no example"
			case entry == "":
				v.Text = "the example of " + v.name + " is only compiled; add an Output comment"
			default:
				needed[entry] = true
				continue
			}
			problems = append(problems, v.Problem)
		}
	}
	for _, entry := range slices.Sorted(maps.Keys(compiledOnly)) {
		if !needed[entry] {
			problems = append(problems, Problem{"internal/tools/lint/rules/examples.go", 0, "examples",
				"compiledOnly has " + entry + ", which has an example that runs, or does not exist; remove the entry"})
		}
	}
	return problems, nil
}

// exemption returns the entry of compiledOnly for a verb, "" if there is none.
func exemption(dir, verb string, compiledOnly map[string]string) string {
	base := strings.TrimSuffix(dir, ".")
	typ, _, _ := strings.Cut(verb, ".")
	for _, entry := range []string{base + "." + verb, base + "." + typ, dir} {
		if compiledOnly[entry] != "" {
			return entry
		}
	}
	return ""
}

// verb is an exported function or method with an effect: "Connect" or "Client.Close".
type verb struct {
	Problem
	name string
}

// verbsOf returns the verbs of the package in dir.
func verbsOf(p *golist.Package, dir string) ([]verb, error) {
	var verbs []verb
	fset := token.NewFileSet()
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isVerb(f) {
				continue
			}
			v := verb{Problem{strings.TrimPrefix(dir+"/"+name, "./"), fset.Position(f.Pos()).Line, "examples", ""},
				f.Name.Name}
			if f.Recv != nil {
				v.name = receiver(f.Recv.List[0].Type) + "." + v.name
			}
			verbs = append(verbs, v)
		}
	}
	return verbs, nil
}

// interfaceMethods are called through interfaces of the standard library and of package task.
var interfaceMethods = []string{"AppendArg", "ArgOf", "As", "Error", "Format", "Is", "String", "Unwrap"}

// isVerb reports whether f is exported and has an effect.
func isVerb(f *ast.FuncDecl) bool {
	if !f.Name.IsExported() || f.Recv == nil {
		return f.Name.IsExported()
	}
	return ast.IsExported(receiver(f.Recv.List[0].Type)) && !slices.Contains(interfaceMethods, f.Name.Name) &&
		!isGetter(f)
}

// isGetter reports whether f is a method without parameters that only returns one value other than an error, or the
// error of an Err method.
func isGetter(f *ast.FuncDecl) bool {
	if f.Type.Params.NumFields() > 0 || f.Type.Results.NumFields() != 1 || f.Body == nil || len(f.Body.List) != 1 {
		return false
	}
	if id, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == "error" && f.Name.Name != "Err" {
		return false
	}
	_, ok := f.Body.List[0].(*ast.ReturnStmt)
	return ok
}

// examplesIn returns the functions and methods of a package that its examples use: those of examples that run, and
// those of examples that are only compiled.
func examplesIn(p *golist.Package, packages map[string]*golist.Package) (run, compiled map[string]bool, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.XTestGoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", golist.Exports(packages)), Error: func(error) {}}
	_, _ = conf.Check(p.ImportPath+"_test", fset, files, info) // tests may use names that only the test build exports

	uses := usesOf(files, info)
	run, compiled = map[string]bool{}, map[string]bool{}
	for _, e := range doc.Examples(files...) {
		into := compiled
		if e.Output != "" || e.EmptyOutput {
			into = run
		}
		for f := range uses {
			if f.Name() != "Example"+e.Name {
				continue
			}
			reach(f, uses, map[types.Object]bool{}, func(o types.Object) {
				if f, ok := o.(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == p.ImportPath {
					into[funcName(f)] = true
				}
			})
		}
	}
	return run, compiled, nil
}

// usesOf returns the objects that each function and variable of a package refers to.
func usesOf(files []*ast.File, info *types.Info) map[types.Object][]types.Object {
	uses := map[types.Object][]types.Object{}
	add := func(name *ast.Ident, in ast.Node) {
		owner := info.Defs[name]
		if owner == nil { // an init function
			return
		}
		uses[owner] = nil
		ast.Inspect(in, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && info.Uses[id] != nil {
				uses[owner] = append(uses[owner], info.Uses[id])
			}
			return true
		})
	}
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(d.Name, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							add(name, v)
						}
					}
				}
			}
		}
	}
	return uses
}

// reach calls visit for all objects that from refers to, directly and through other declarations.
func reach(from types.Object, uses map[types.Object][]types.Object, seen map[types.Object]bool,
	visit func(types.Object)) {
	for _, o := range uses[from] {
		if !seen[o] {
			seen[o] = true
			visit(o)
			reach(o, uses, seen, visit)
		}
	}
}

// funcName returns the name of f as a verb.
func funcName(f *types.Func) string {
	f = f.Origin()
	recv := f.Signature().Recv()
	if recv == nil {
		return f.Name()
	}
	t := recv.Type()
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	if named, ok := t.(*types.Named); ok {
		return named.Obj().Name() + "." + f.Name()
	}
	return f.Name() // a method of an interface
}
