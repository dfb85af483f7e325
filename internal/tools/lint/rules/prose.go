package rules

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.millstream.dev/internal/tools/errtext"
)

// plainFolders are the folders, including subfolders, whose texts follow all language rules.
var plainFolders = []string{".", "bench", "cli", "client", "clique", "cluster", "comm", "config", "cuda", "frame",
	"internal/bench", "internal/collective", "internal/comm", "internal/dask", "internal/device",
	"internal/engine/scheduler", "internal/engine/sim", "internal/engine/worker", "internal/proc", "internal/rpc",
	"internal/task", "internal/testkit", "internal/tools", "internal/wire", "mem", "nccl", "scheduler", "secure",
	"task", "ucx", "wire", "worker"}

// plainExt are the extensions of source files in other languages, all of which are checked for phrases.
var plainExt = []string{".c", ".cpp", ".cu", ".h", ".py"}

// The phrases are split, so that this file does not match them.
var (
	// gone are phrases that must not occur in the repository.
	gone = phrases(`tell wh`+`ether`, `may be any`+`one`, `meant we`+`ll`, `thank`+`ed`, `it is not he`+`ld`,
		`makes an`+`ew`, `knows wh`+`om`)
	// foreign are phrases that must not occur in plainFolders, nor in any file with one of plainExt.
	foreign = phrases(`tells wh`+`ether`, `is to`+`ld`, `are to`+`ld`, `no`+`body`, `some`+`body`, `every`+`body`,
		`who`+`ever`, `an`+`ew`, `under w`+`ay`, `in pe`+`ace`, `in wo`+`rds`, `of Pyth`+`on's`, `of Da`+`sk's own`,
		`be`+`side`, `for ev`+`er`, `for wa`+`nt of`, `looks af`+`ter`, `hears `+`of`, `who wa`+`its`,
		`fare`+`well`, `gre`+`ets?`, `bur`+`y`)
)

func phrases(list ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(list, "|") + `)\b`)
}

func (s *source) isPlain() bool {
	return s.file != nil && !s.isTest() && slices.ContainsFunc(plainFolders, func(folder string) bool {
		return s.pkg() == folder || strings.HasPrefix(s.pkg(), folder+"/")
	})
}

// checkPhrases reports phrases that are not technical English.
func checkPhrases(s *source) []Problem {
	other := slices.Contains(plainExt, path.Ext(s.name))
	if s.file == nil && !other && !strings.HasSuffix(s.name, ".md") {
		return nil
	}
	var problems []Problem
	list := []*regexp.Regexp{gone}
	if s.isPlain() || other {
		list = append(list, foreign)
	}
	for i, line := range strings.Split(string(s.text), "\n") {
		for _, re := range list {
			found := re.FindString(line)
			if found != "" && !strings.Contains(line, strconv.Quote(found)) { // a string of one word is a name
				problems = append(problems, Problem{s.name, i + 1, "phrases",
					fmt.Sprintf("%q: use the words of the Go standard library and of docs/glossary.md", found)})
			}
		}
	}
	return problems
}

// checkDocStart requires that doc comments of exported names begin with the name.
func checkDocStart(s *source) []Problem {
	if !s.isPlain() || generated.Match(s.text) {
		return nil
	}
	var problems []Problem
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		if doc == nil || !name.IsExported() {
			return
		}
		text := doc.Text()
		if text == "" || strings.HasPrefix(text, name.Name+" ") || strings.HasPrefix(text, "Deprecated:") {
			return
		}
		problems = append(problems, Problem{s.name, s.lineOf(doc.Pos()), "docs",
			fmt.Sprintf("begin the doc comment with %q and a verb", name.Name)})
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil && !d.Lparen.IsValid() {
						doc = d.Doc
					}
					check(spec.Name, doc)
				case *ast.ValueSpec:
					doc := spec.Doc
					if doc == nil && !d.Lparen.IsValid() {
						doc = d.Doc
					}
					if len(spec.Names) == 1 {
						check(spec.Names[0], doc)
					}
				}
			}
		}
	}
	return problems
}

// checkErrorTexts requires that errors name their subject.
func checkErrorTexts(s *source) []Problem {
	if !s.isPlain() {
		return nil
	}
	var problems []Problem
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		text, ok := errtext.Of(call)
		if !ok {
			return true
		}
		_, rest, ok := strings.Cut(text, ": ")
		if !ok {
			rest = text
		}
		if leadingIt.MatchString(text) || leadingIt.MatchString(rest) {
			problems = append(problems, Problem{s.name, s.lineOf(call.Args[0].Pos()), "errors",
				fmt.Sprintf("%.40q: name the subject instead of \"it\"", text)})
		}
		return true
	})
	return problems
}

var leadingIt = regexp.MustCompile(`^[Ii]ts? `)
