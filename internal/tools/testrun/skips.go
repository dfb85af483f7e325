package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// allowed is one line of tests/skips.txt: `package test reason`.
type allowed struct {
	line        int
	pkg, test   string
	pkgRE       *regexp.Regexp
	testRE      *regexp.Regexp
	reason      string
	everMatched bool
}

// skipList is the content of tests/skips.txt.
type skipList struct {
	file    string
	module  string
	entries []*allowed
}

// loadSkips reads the list. Only missing hardware is a reason to skip: a reason begins with GPU or RDMA.
func loadSkips(file, module string) (*skipList, error) {
	l := &skipList{file: file, module: module}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: got %q, want `package test reason`", file, n, text)
		}
		reason := strings.Join(fields[2:], " ")
		if !strings.HasPrefix(reason, "GPU") && !strings.HasPrefix(reason, "RDMA") {
			return nil, fmt.Errorf("%s:%d: reason %q must begin with GPU or RDMA: only missing hardware is a "+
				"reason to skip", file, n, reason)
		}
		l.entries = append(l.entries, &allowed{
			line: n, pkg: fields[0], test: fields[1], pkgRE: glob(fields[0]), testRE: glob(fields[1]), reason: reason,
		})
	}
	return l, lines.Err()
}

// glob compiles a pattern in which * matches any text, including slashes.
func glob(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// find returns the entry that allows the test to be skipped. An entry for a test covers its subtests.
func (l *skipList) find(pkg, test string) *allowed {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, l.module), "/")
	if rel == "" {
		rel = "."
	}
	top, _, _ := strings.Cut(test, "/")
	for _, e := range l.entries {
		if e.pkgRE.MatchString(rel) && (e.testRE.MatchString(test) || e.testRE.MatchString(top)) {
			return e
		}
	}
	return nil
}

// check returns an error text for each skip that is not allowed, and for each entry of a test that does not exist.
// Entries with a * may match nothing.
func (l *skipList) check(r *results) []string {
	var problems []string
	for _, s := range r.skipped {
		if l.find(s.Package, s.Test) == nil {
			problems = append(problems, fmt.Sprintf("%s %s was skipped (%s) and is not listed in %s; fix the test: "+
				"only missing GPU or RDMA hardware may be listed",
				s.Package, s.Test, s.Reason, l.file))
		}
	}
	for key := range r.started {
		if e := l.find(key[0], key[1]); e != nil {
			e.everMatched = true
		}
	}
	for _, e := range l.entries {
		if !e.everMatched && !strings.Contains(e.pkg+e.test, "*") {
			problems = append(problems, fmt.Sprintf("%s:%d: no test %s in %s; remove the line", l.file, e.line,
				e.test, e.pkg))
		}
	}
	return problems
}
