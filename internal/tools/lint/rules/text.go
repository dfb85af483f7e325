package rules

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// MaxLines is the size of a file beyond which it must say why it is not split.
const MaxLines = 600

// sourceExt are the kinds of files that people have to read. Data and documents may be long.
var sourceExt = []string{".go", ".c", ".h", ".py", ".sh", ".js", ".css"}

var (
	sizeReason = regexp.MustCompile(`(?m)^\s*(?://|#|/\*|--)\s?lint:size +\S`)
	generated  = regexp.MustCompile(`(?m)^(?://|#) Code generated .* DO NOT EDIT\.$`)
)

// checkSize wants files of at most MaxLines lines, or a `//lint:size reason` in them.
func checkSize(s *source) []Problem {
	script := path.Ext(s.name) == "" && bytes.HasPrefix(s.text, []byte("#!"))
	if !script && !slices.Contains(sourceExt, path.Ext(s.name)) {
		return nil
	}
	lines := bytes.Count(s.text, []byte("\n"))
	if lines <= MaxLines || sizeReason.Match(s.text) || generated.Match(s.text) {
		return nil
	}
	return []Problem{{s.name, 0, "size", fmt.Sprintf("%d lines, more than %d: split it by its ideas, or say why not with //lint:size REASON", lines, MaxLines)}}
}

// word is something that must not be in any file, because it holds for one machine only.
type word struct {
	re  *regexp.Regexp
	why string
}

// The patterns are put together from parts, or this file would be its own first finding.
var words = []word{
	{regexp.MustCompile(`(?:^|[\s"'` + "`" + `=:(,])(/(?:ro` + `ot|wo` + `rk)(?:/[\w.@-]+)*)(?:$|[\s"'` + "`" + `:),;/.])`), "an absolute path of one machine"},
	{regexp.MustCompile(`(?:^|[\s"'` + "`" + `=:(,])(/ho` + `me/[\w.-]+/[\w.-]+)`), "an absolute path of one machine"},
	{regexp.MustCompile(`\b(` + strings.Join([]string{
		`py` + `pi\.org`, `pythonhos` + `ted\.org`, `pro` + `xy\.golang\.org`, `s` + `um\.golang\.org`, `regi` + `stry\.npmjs\.org`,
		`dl-cdn\.alpine` + `linux\.org`, `de` + `b\.debian\.org`, `arch` + `ive\.ubuntu\.com`, `sec` + `urity\.debian\.org`,
		`conda\.ana` + `conda\.org`, `pypi\.nv` + `idia\.com`, `cra` + `tes\.io`,
	}, "|") + `)\b`), "the host name of a package registry: users choose their own mirror"},
}

// wordExempt are files whose text is not ours to choose.
var wordExempt = []string{"LICENSE", "go.sum"}

func checkWords(s *source) []Problem {
	if slices.Contains(wordExempt, s.name) {
		return nil
	}
	var problems []Problem
	n := 0
	for line := range bytes.Lines(s.text) {
		n++
		for _, w := range words {
			if m := w.re.FindSubmatch(bytes.TrimRight(line, "\r\n")); m != nil {
				problems = append(problems, Problem{s.name, n, "words", fmt.Sprintf("%q is %s", m[1], w.why)})
			}
		}
	}
	return problems
}

var exportDirective = regexp.MustCompile(`^//export\s`)

// checkExport keeps C from calling into Go: a callback costs twenty times a ring entry, and one that runs
// on a thread UCX made inside a lock is a deadlock waiting. C code queues; Go drains.
func checkExport(s *source) []Problem {
	if s.file == nil {
		if ext := path.Ext(s.name); (ext == ".c" || ext == ".h") && bytes.Contains(s.text, []byte("_cgo_"+"export.h")) {
			return []Problem{{s.name, 0, "export", "includes cgo's export header: C must not call Go"}}
		}
		return nil
	}
	var problems []Problem
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if exportDirective.MatchString(c.Text) {
				problems = append(problems, Problem{s.name, s.lineOf(c.Pos()), "export",
					fmt.Sprintf("%q: C must not call Go; queue into C memory and drain from Go", strings.TrimSpace(c.Text))})
			}
		}
	}
	return problems
}
