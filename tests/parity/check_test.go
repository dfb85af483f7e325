package parity

import (
	"fmt"
	"regexp"
	"strings"
)

// The columns that are looked at, by the beginning of their heads.
const (
	symbolHead = "Millstream"
	reasonHead = "Why not"
)

var testHeads = []string{"Tests", "Ours"}

var (
	quoted    = regexp.MustCompile("`([^`]+)`")
	separator = regexp.MustCompile(`^[\s|:-]+$`)
	qualified = regexp.MustCompile(`^([a-z][a-z0-9_/]*)\.[A-Z]`)
)

// table is the columns of a table and how many rows of data it had.
type table struct {
	symbols, tests, reason int // columns; -1: none
	width, rows            int
}

// check returns what is wrong in the tables of a text, and the number of rows of each table.
func check(text string, x *index) (problems []string, rows []int) {
	var t *table
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if t != nil {
				rows, t = append(rows, t.rows), nil
			}
			continue
		}
		cells := split(line)
		found := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("line %d, %q: ", number, cells[0])+fmt.Sprintf(format, args...))
		}
		switch {
		case t == nil:
			t = newTable(cells)
			if t.tests < 0 || t.reason < 0 {
				found("a table needs the columns %s and %s", strings.Join(testHeads, " or "), reasonHead)
			}
		case separator.MatchString(line):
		case len(cells) != t.width:
			t.rows++
			found("%d cells in a table of %d columns", len(cells), t.width)
		default:
			t.rows++
			t.check(cells, x, found)
		}
	}
	if t != nil {
		rows = append(rows, t.rows)
	}
	return problems, rows
}

func newTable(head []string) *table {
	t := &table{symbols: -1, tests: -1, reason: -1, width: len(head)}
	for i, name := range head {
		switch {
		case strings.HasPrefix(name, symbolHead):
			t.symbols = i
		case strings.HasPrefix(name, reasonHead):
			t.reason = i
		case name == testHeads[0] || name == testHeads[1]:
			t.tests = i
		}
	}
	return t
}

// split returns the cells of a row without their outer spaces.
func split(line string) []string {
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// check wants a row to name what there is and the test of it, or to say why there is nothing. A reason does
// not stand in for one half: a symbol without a test is a gap.
func (t *table) check(cells []string, x *index, found func(string, ...any)) {
	if t.tests < 0 || t.reason < 0 {
		return // said at the table's head
	}
	cell := func(column int, what string, known map[string]bool) (names int) {
		for _, name := range quoted.FindAllStringSubmatch(cells[column], -1) {
			names++
			if !known[name[1]] {
				found("no %s %s", what, name[1])
			}
		}
		if rest := strings.TrimSpace(quoted.ReplaceAllString(cells[column], "")); rest != "" &&
			(rest != "–" || names > 0) {
			found("%q is not in backticks, so nobody checks it", rest)
		}
		return names
	}
	tests := cell(t.tests, "test", x.tests)
	symbols := tests
	if t.symbols >= 0 {
		symbols = cell(t.symbols, "symbol", x.symbols)
	}
	switch {
	case symbols == 0 && tests == 0 && cells[t.reason] == "":
		found("names nothing and does not say why")
	case symbols == 0 && tests > 0:
		found("tests of no symbol")
	case symbols > 0 && tests == 0:
		found("no test of the symbols")
	}
	// Prose may name anything; what looks like ours must be ours.
	for _, name := range quoted.FindAllStringSubmatch(cells[t.reason], -1) {
		if m := qualified.FindStringSubmatch(name[1]); m != nil && x.folders[m[1]] && !x.symbols[name[1]] &&
			!x.tests[name[1]] {
			found("no symbol or test %s", name[1])
		}
	}
}
