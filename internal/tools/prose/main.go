// Command prose prints a random sample of the doc comments and error strings of the tree, for review by a person. The
// same seed selects the same sample.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/errtext"
	"go.millstream.dev/internal/tools/tree"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the sample")
	n := flag.Int("n", 200, "number of texts of each kind")
	under := flag.String("under", "", "folder of the files, relative to the root (default: all)")
	flag.Parse()
	if err := run(os.Stdout, ".", *under, *seed, *n); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run prints the sample of the tree that contains dir.
func run(out io.Writer, dir, under string, seed uint64, n int) error {
	root, err := tree.Root(dir)
	if err != nil {
		return err
	}
	files, err := tree.Files(root)
	if err != nil {
		return err
	}
	var comments, errs []text
	for _, name := range files {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(name, "testdata/") || !strings.HasPrefix(name, under) {
			continue
		}
		c, e, err := texts(filepath.Join(root, filepath.FromSlash(name)), name)
		if err != nil {
			return err
		}
		comments, errs = append(comments, c...), append(errs, e...)
	}
	r := rand.New(rand.NewPCG(seed, 0))
	show(out, "doc comments", draw(r, comments, n), len(comments))
	show(out, "error strings", draw(r, errs, n), len(errs))
	return nil
}

// text is a comment or an error string with its position.
type text struct {
	file string
	line int
	text string
}

// texts returns the doc comments and the error strings of a file.
func texts(path, name string) (comments, errs []text, err error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	if ast.IsGenerated(f) {
		return nil, nil, nil
	}
	doc := func(g *ast.CommentGroup) {
		if s := strings.TrimSpace(g.Text()); s != "" {
			comments = append(comments, text{name, set.Position(g.Pos()).Line, s})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			doc(n.Doc)
		case *ast.FuncDecl:
			doc(n.Doc)
		case *ast.GenDecl:
			if n.Tok != token.IMPORT { // a cgo preamble
				doc(n.Doc)
			}
		case *ast.TypeSpec:
			doc(n.Doc)
		case *ast.ValueSpec:
			doc(n.Doc)
		case *ast.Field:
			doc(n.Doc)
		case *ast.CallExpr:
			if s, ok := errtext.Of(n); ok {
				errs = append(errs, text{name, set.Position(n.Pos()).Line, s})
			}
		}
		return true
	})
	return comments, errs, nil
}

// draw returns n random texts, in the order of the tree.
func draw(r *rand.Rand, all []text, n int) []text {
	chosen := r.Perm(len(all))[:min(n, len(all))]
	slices.Sort(chosen)
	sample := make([]text, len(chosen))
	for i, at := range chosen {
		sample[i] = all[at]
	}
	return sample
}

func show(out io.Writer, kind string, sample []text, of int) {
	fmt.Fprintf(out, "# %d of %d %s\n", len(sample), of, kind)
	for _, t := range sample {
		fmt.Fprintf(out, "%s:%d: %s\n", t.file, t.line, strings.Join(strings.Fields(t.text), " "))
	}
}
