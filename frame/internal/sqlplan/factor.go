package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// factor takes the conditions that all operands of an OR have out of it: (a AND b) OR (a AND c) is a AND (b OR c). Such
// conditions are often the keys of a join.
func factor(e Expr) []Expr {
	or, ok := e.(*sqltext.Logic)
	if !ok || or.Op != "OR" {
		return []Expr{e}
	}
	branches := make([][]Expr, len(or.Args))
	count := map[string]int{}
	for i, a := range or.Args {
		branches[i] = conjuncts(a)
		seen := map[string]bool{}
		for _, c := range branches[i] {
			if text := sqltext.Format(c); !seen[text] {
				seen[text] = true
				count[text]++
			}
		}
	}
	var out []Expr
	taken := map[string]bool{}
	for _, c := range branches[0] {
		if text := sqltext.Format(c); count[text] == len(branches) && !taken[text] {
			taken[text] = true
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return []Expr{e}
	}
	rest := &sqltext.Logic{Pos: or.Pos, Op: "OR"}
	for _, b := range branches {
		var left []Expr
		for _, c := range b {
			if !taken[sqltext.Format(c)] {
				left = append(left, c)
			}
		}
		if len(left) == 0 { // a OR (a AND b) is a
			return out
		}
		rest.Args = append(rest.Args, all(left))
	}
	return append(out, rest)
}

// implied returns the condition on some columns that follows from an OR all of whose operands restrict them, or nil:
// the OR of those restrictions. It is for the scan of a table; the OR itself is still needed.
func implied(e Expr, columns refs) Expr {
	or, ok := e.(*sqltext.Logic)
	if !ok || or.Op != "OR" {
		return nil
	}
	out := &sqltext.Logic{Pos: or.Pos, Op: "OR"}
	for _, a := range or.Args {
		var own []Expr
		for _, c := range conjuncts(a) {
			if r := refsOf(c); len(r) > 0 && r.in(columns) && !hasQuery(c) {
				own = append(own, c)
			}
		}
		if len(own) == 0 {
			return nil
		}
		out.Args = append(out.Args, all(own))
	}
	return out
}
