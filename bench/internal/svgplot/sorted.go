package svgplot

import (
	"maps"
	"slices"
)

func sorted(set map[float64]bool) []float64 { return slices.Sorted(maps.Keys(set)) }
