package clique

import (
	"cmp"
	"slices"
)

// splitNames returns the workers of a sub-clique: those of the ranks with the given color, by key and then by rank. all
// has the color and the key of each rank.
func splitNames(names []string, all []int64, color int) []string {
	type part struct {
		key  int64
		rank int
	}
	var parts []part
	for rank := range len(all) / 2 {
		if all[2*rank] == int64(color) {
			parts = append(parts, part{all[2*rank+1], rank})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.key, b.key),
			cmp.Compare(a.rank, b.rank))
	})
	out := make([]string, len(parts))
	for i, p := range parts {
		out[i] = names[p.rank]
	}
	return out
}
