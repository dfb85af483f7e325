package ucxenv

import "strings"

// allowList is the value of UCX_TLS, UCX_NET_DEVICES and similar variables: allowed names, or, with a leading ^,
// excluded names.
type allowList struct {
	negate bool
	items  []string
}

// parseList splits a value like UCX: only a ^ at the start negates, and it negates the whole list; empty items are
// dropped.
func parseList(value string) allowList {
	var l allowList
	value = strings.TrimSpace(value)
	value, l.negate = strings.CutPrefix(value, "^")
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			l.items = append(l.items, item)
		}
	}
	return l
}

// String returns the list as a value for UCX.
func (l allowList) String() string {
	s := strings.Join(l.items, ",")
	if l.negate {
		return "^" + s
	}
	return s
}

// add appends an item that is not in the list.
func (l *allowList) add(item string) {
	for _, have := range l.items {
		if have == item {
			return
		}
	}
	l.items = append(l.items, item)
}
