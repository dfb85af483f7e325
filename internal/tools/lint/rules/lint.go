// Package rules checks what gofmt, vet and staticcheck cannot: the layers of the design, the size of files, forbidden
// words, doc comments, and that no C code calls Go. `make lint` runs it with internal/tools/lint.
package rules

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.millstream.dev/internal/tools/tree"
)

// Problem is one finding.
type Problem struct {
	// File is the name of the file, relative to the root and slash-separated.
	File string
	// Line is the number of the line, from 1; 0 means the whole file.
	Line int
	// Rule is the short name of the rule.
	Rule string
	// Text describes the problem and the fix.
	Text string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s (%s)", p.File, p.Text, p.Rule)
	}
	return fmt.Sprintf("%s:%d: %s (%s)", p.File, p.Line, p.Text, p.Rule)
}

// source is one file.
type source struct {
	name   string // relative to the root
	text   []byte
	module string
	// Only for Go files of the module:
	fset *token.FileSet
	file *ast.File
}

// pkg returns the folder of the file, "." for the root.
func (s *source) pkg() string { return path.Dir(s.name) }

func (s *source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s *source) lineOf(pos token.Pos) int { return s.fset.Position(pos).Line }

// rules are applied to each file. Rules for Go return nothing if source.file is nil.
var rules = []func(*source) []Problem{checkLayers, checkBans, checkSize, checkWidth, checkWords, checkExport, checkDocs,
	checkSentinels, checkPhrases, checkDocStart, checkErrorTexts}

// Check applies every rule to every file of the tree, in the order of file names.
func Check(root string) ([]Problem, error) {
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
	inModule := tree.GoFiles(files, modules...)
	var problems []Problem
	counts := newShape()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue // binary file
		}
		s := &source{name: name, text: text, module: module}
		if _, ok := slices.BinarySearch(inModule, name); ok {
			s.fset = token.NewFileSet()
			s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				problems = append(problems, Problem{File: name, Rule: "parse", Text: err.Error()})
				continue
			}
		}
		for _, rule := range rules {
			problems = append(problems, rule(s)...)
		}
		counts.add(s)
	}
	return append(problems, counts.problems()...), nil
}
