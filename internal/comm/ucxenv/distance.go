package ucxenv

import (
	"cmp"
	"slices"
)

// distance returns the number of insertions, deletions, replacements and swaps of neighbors that turn a into b (optimal
// string alignment).
func distance(a, b string) int {
	// Three rows are enough: a swap looks two rows back.
	before, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			replace := prev[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}

// nearest returns up to three of names that are so close to name that it may be a misspelling of them, closest first.
func nearest(name string, names []string) []string {
	// One edit in a short name, three in a long one: more would suggest unrelated names.
	limit := 3
	switch {
	case len(name) <= 4:
		limit = 1
	case len(name) <= 8:
		limit = 2
	}
	type candidate struct {
		name string
		d    int
	}
	var near []candidate
	for _, n := range names {
		if d := len(n) - len(name); d > limit || -d > limit {
			continue
		}
		if d := distance(name, n); d <= limit {
			near = append(near, candidate{n, d})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.name, b.name))
	})
	var out []string
	for _, c := range near {
		// Only the closest: a name two edits away does not help if another is one edit away.
		if c.d == near[0].d && len(out) < 3 && !slices.Contains(out, c.name) {
			out = append(out, c.name)
		}
	}
	return out
}
