package rules

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxLines is the number of lines above which a file must have a reason not to be split.
const MaxLines = 600

// sourceExt are the extensions of source files. Data and documents may be long.
var sourceExt = []string{".go", ".c", ".h", ".py", ".sh", ".js", ".css"}

var (
	sizeReason = regexp.MustCompile(`(?m)^\s*(?://|#|/\*|--)\s?lint:size +\S`)
	generated  = regexp.MustCompile(`(?m)^(?://|#) Code generated .* DO NOT EDIT\.$`)
)

// checkSize requires at most MaxLines lines, or a `//lint:size reason`.
func checkSize(s *source) []Problem {
	script := path.Ext(s.name) == "" && bytes.HasPrefix(s.text, []byte("#!"))
	if !script && !slices.Contains(sourceExt, path.Ext(s.name)) {
		return nil
	}
	lines := bytes.Count(s.text, []byte("\n"))
	if lines <= MaxLines || sizeReason.Match(s.text) || generated.Match(s.text) {
		return nil
	}
	return []Problem{{s.name, 0, "size", fmt.Sprintf("%d lines, more than %d; split the file by subject, or add a "+
		"reason "+
		"with //lint:size REASON", lines, MaxLines)}}
}

// MaxColumns is the maximum width of a line of Go; a tab counts as four columns.
const MaxColumns = 120

// checkWidth requires lines of at most MaxColumns. Lines of raw strings, expected outputs of examples and lines with a
// single long literal are exempt.
func checkWidth(s *source) []Problem {
	if path.Ext(s.name) != ".go" || generated.Match(s.text) {
		return nil
	}
	lines := strings.Split(string(s.text), "\n")
	if !slices.ContainsFunc(lines, tooWide) {
		return nil
	}
	raw := rawLines(s.text)
	var problems []Problem
	output := false
	for i, line := range lines {
		text := strings.TrimSpace(line)
		output = strings.HasPrefix(text, "//") && (output || strings.Contains(text, "Output:"))
		if output || raw[i+1] || !tooWide(line) || strings.HasPrefix(text, "//go:") || oneLiteral.MatchString(text) {
			continue
		}
		problems = append(problems, Problem{s.name, i + 1, "width", fmt.Sprintf("more than %d columns", MaxColumns)})
	}
	return problems
}

var oneLiteral = regexp.MustCompile("^(?:[\\w.,: ]+(?: :?= |: |, |\\())?\"(?:[^\"\\\\]|\\\\.)*\"[)}, +]*$")

func tooWide(line string) bool {
	return utf8.RuneCountInString(line)+3*strings.Count(line, "\t") > MaxColumns
}

// rawLines returns the lines that are part of a multi-line string or comment.
func rawLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var sc scanner.Scanner
	sc.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, lit := sc.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING && tok != token.COMMENT || lit[0] == '"' || strings.HasPrefix(lit, "//") {
			continue
		}
		for i := range strings.Count(lit, "\n") + 1 {
			lines[file.Line(pos)+i] = true
		}
	}
}

// word is a pattern that must not occur in any file, because it is specific to one machine.
type word struct {
	re  *regexp.Regexp
	why string
}

// The patterns are split, so that this file does not match them.
var words = []word{
	{regexp.MustCompile(`(?:^|[\s"'` + "`" + `=:(,])(/(?:ro` + `ot|wo` + `rk)(?:/[\w.@-]+)*)(?:$|[\s"'` + "`" +
		`:),;/.])`), "an absolute path of one machine"},
	{regexp.MustCompile(`(?:^|[\s"'` + "`" + `=:(,])(/ho` + `me/[\w.-]+/[\w.-]+)`), "an absolute path of one machine"},
	{regexp.MustCompile(`\b(` + strings.Join([]string{
		`py` + `pi\.org`, `pythonhos` + `ted\.org`, `pro` + `xy\.golang\.org`, `s` + `um\.golang\.org`,
		`regi` + `stry\.npmjs\.org`,
		`dl-cdn\.alpine` + `linux\.org`, `de` + `b\.debian\.org`, `arch` + `ive\.ubuntu\.com`,
		`sec` + `urity\.debian\.org`,
		`conda\.ana` + `conda\.org`, `pypi\.nv` + `idia\.com`, `cra` + `tes\.io`,
	}, "|") + `)\b`), "the host name of a package registry; users choose their mirror"},
}

// wordExempt are files with fixed text.
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

// checkExport forbids C code that calls Go: a callback costs twenty times as much as a ring entry, and on a thread that
// UCX creates inside a lock it can deadlock. C code queues; Go drains the queue. The C library is the exception: its
// callers are threads of C programs (docs/adr/0037-c-library.md).
func checkExport(s *source) []Problem {
	if path.Dir(s.name) == "cmd/libmillstream" {
		return nil
	}
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
					fmt.Sprintf("%q: C must not call Go; queue into C memory and drain from Go",
						strings.TrimSpace(c.Text))})
			}
		}
	}
	return problems
}
