// Package tracetest compares histories, for tests of package trace.
package tracetest

import (
	"cmp"
	"fmt"
	"slices"

	"go.millstream.dev/internal/dashboard/spans"
)

// line is a span with names instead of ids.
type line struct {
	row      spans.Row
	category string
	span     spans.Span
}

// lines returns the spans of a history with absolute times, sorted.
func lines(s *spans.Store) []line {
	rows, names, origin := s.Rows(), s.Names(), s.Meta().Origin
	var list []line
	_ = s.Each(func(sp spans.Span) error {
		l := line{row: rows[sp.Row], category: names[sp.Category], span: sp}
		l.row.ID = 0
		l.span.Row, l.span.Category = 0, 0
		l.span.Start += origin
		l.span.Stop += origin
		list = append(list, l)
		return nil
	})
	slices.SortFunc(list, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.span.Start, b.span.Start), cmp.Compare(a.span.Stop, b.span.Stop),
			cmp.Compare(a.row.Worker, b.row.Worker), cmp.Compare(a.row.Kind, b.row.Kind),
			cmp.Compare(a.row.Slot, b.row.Slot), cmp.Compare(a.span.Key, b.span.Key))
	})
	return list
}

// Compare returns the first difference of two histories, "" if there is none.
func Compare(want, got *spans.Store) string {
	a, b := lines(want), lines(got)
	if len(a) != len(b) {
		return fmt.Sprintf("got %d spans, want %d", len(b), len(a))
	}
	for i := range a {
		if a[i] != b[i] {
			return fmt.Sprintf("span %d: got %+v, want %+v", i, b[i], a[i])
		}
	}
	return ""
}
