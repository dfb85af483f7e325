package plan

import (
	"fmt"
	"strings"
)

// Explain returns a plan as text, one line for each operator: what the operator does, an estimate of its result, and
// what more says of it, if it is not nil.
func Explain(n Node, more func(Node) []string) string {
	unknown := func(t Table) (int64, int64, bool) { return t.Size() }
	return Tree(n, func(n Node) []string {
		var notes []string
		if more != nil {
			notes = more(n)
		}
		rows, bytes := Guess(n, unknown)
		switch {
		case rows >= 0 && bytes >= 0:
			notes = append(notes, fmt.Sprintf("about %d rows, %s", rows, Size(bytes)))
		case bytes >= 0:
			notes = append(notes, "about "+Size(bytes))
		}
		return notes
	})
}

// Tree returns a plan as text, with notes for each operator.
func Tree(n Node, notes func(Node) []string) string {
	var b strings.Builder
	tree(&b, n, "", "", notes)
	return b.String()
}

func tree(b *strings.Builder, n Node, first, rest string, notes func(Node) []string) {
	b.WriteString(first + n.Label())
	in := n.Inputs()
	lines := notes(n)
	if len(lines) == 1 {
		b.WriteString("  (" + lines[0] + ")")
	}
	b.WriteByte('\n')
	if len(lines) > 1 {
		bar := "  "
		if len(in) > 0 {
			bar = "│ "
		}
		for _, l := range lines {
			b.WriteString(rest + bar + "  (" + l + ")\n")
		}
	}
	for i, x := range in {
		if i < len(in)-1 {
			tree(b, x, rest+"├─ ", rest+"│  ", notes)
		} else {
			tree(b, x, rest+"└─ ", rest+"   ", notes)
		}
	}
}
