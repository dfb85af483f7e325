package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// listed is a package as the go command lists it.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	GoFiles    []string
	CgoFiles   []string
}

// graph has all packages that the roots of the rules link.
type graph struct {
	module   string
	packages map[string]*listed
}

// load lists packages of the module in a folder and all that they link.
func load(folder string, roots []string) (*graph, error) {
	module, err := goList(folder, "-find", "-f", "{{.Module.Path}}", roots[0]) // -m lists all modules of a workspace
	if err != nil {
		return nil, err
	}
	args := []string{"-deps", "-json=ImportPath,Dir,Standard,Imports,GoFiles,CgoFiles"}
	out, err := goList(folder, append(args, roots...)...)
	if err != nil {
		return nil, err
	}
	g := &graph{module: strings.TrimSpace(string(module)), packages: map[string]*listed{}}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return nil, err
		}
		g.packages[p.ImportPath] = p
	}
}

func goList(folder string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// path returns the import path of a name in a rule.
func (g *graph) path(name string) string {
	if name == "." {
		return g.module
	}
	if rest, ok := strings.CutPrefix(name, "./"); ok {
		return g.module + "/" + rest
	}
	return name
}

// ours reports whether a package belongs to the module.
func (g *graph) ours(path string) bool {
	return path == g.module || strings.HasPrefix(path, g.module+"/")
}

// matches reports whether a package is one of a rule's names.
func (g *graph) matches(names []string, path string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		if prefix, tree := strings.CutSuffix(g.path(name), "/..."); tree {
			return strings.HasPrefix(path, prefix+"/")
		}
		return path == g.path(name)
	})
}

// breaches returns what breaks a rule, each with the shortest chain of imports from a root.
func (g *graph) breaches(r rule) ([]string, error) {
	var out []string
	for _, root := range r.roots {
		if g.packages[g.path(root)] == nil {
			return nil, fmt.Errorf("rule %q: there is no package %s", r.name, root)
		}
		found, err := g.breachesOf(r, g.path(root))
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func (g *graph) breachesOf(r rule, root string) (out []string, err error) {
	report := func(chain []string, what string) {
		for i, p := range chain {
			chain[i] = strings.TrimPrefix(p, g.module+"/")
		}
		out = append(out, fmt.Sprintf("%s: %s: %s", strings.Join(chain, " -> "), what, r.why))
	}
	importer := map[string]string{root: ""}
	chain := func(path string) (c []string) {
		for ; path != ""; path = importer[path] {
			c = append(c, path)
		}
		slices.Reverse(c)
		return c
	}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		p := g.packages[at]
		if p == nil { // "C" and "unsafe"
			continue
		}
		if r.timeless && g.ours(at) {
			uses, err := clockUses(p)
			if err != nil {
				return nil, err
			}
			for _, u := range uses {
				report(chain(at), "uses "+u)
			}
		}
		for _, to := range p.Imports {
			// The standard library may have led to it before.
			if g.ours(at) && g.matches(r.direct, to) {
				report(append(chain(at), to), "is not allowed here")
			}
			if _, seen := importer[to]; seen {
				continue
			}
			importer[to] = at
			if g.matches(r.without, to) {
				report(chain(to), "is not allowed")
				continue // and not what it links
			}
			if q := g.packages[to]; r.only != nil && q != nil && !q.Standard && !g.matches(r.only, to) {
				report(chain(to), "only "+strings.Join(r.only, ", ")+" and the standard library are allowed")
				continue
			}
			queue = append(queue, to)
		}
	}
	return out, nil
}

// clock are the names of package time that are more than values of times and durations.
var clock = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Timer", "Ticker",
	"Local", "LoadLocation",
}

// clockUses returns where a package uses the clock, as file:line: time.Now.
func clockUses(p *listed) (uses []string, err error) {
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, s := range clockNames(f) {
			uses = append(uses, fmt.Sprintf("time.%s (%s:%d)", s.Sel.Name, name, set.Position(s.Pos()).Line))
		}
	}
	return uses, nil
}

func clockNames(f *ast.File) (out []*ast.SelectorExpr) {
	local := ""
	for _, imp := range f.Imports {
		if imp.Path.Value != `"time"` {
			continue
		}
		local = "time"
		if imp.Name != nil {
			local = imp.Name.Name
		}
	}
	if local == "" {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local && slices.Contains(clock, s.Sel.Name) {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}
