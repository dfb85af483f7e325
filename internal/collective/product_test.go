package collective

import (
	"os"
	"testing"

	"go.millstream.dev/internal/collective/elem"
)

// The factors of the test of all collectives.
var (
	testCodes = []Code{Barrier, AllReduce, Reduce, Broadcast, AllGather, AllGatherV, Gather, GatherV,
		Scatter, ScatterV, ReduceScatter, AllToAll, AllToAllV}
	testOps   = []elem.OpCode{elem.OpSum, elem.OpProd, elem.OpMin, elem.OpMax, elem.OpAvg, elem.OpPreMulSum}
	testSizes = []int{0, 1, 7, 600, 9001} // inline; doubling and trees; rings, and several rounds of shared memory
	testRoots = []int{0, 1, 2}            // first, middle, last
)

const testRanks = 9

// pick is a choice from each factor: backend, ranks, collective, kind, op, size, root.
type pick [7]int

func factorSizes() pick {
	return pick{len(backends), testRanks, len(testCodes), len(elem.Kinds()), len(testOps), len(testSizes),
		len(testRoots)}
}

// pairwise chooses few picks that have every pair of values of every two factors, greedily and always the same.
func pairwise(sizes pick) []pick {
	type pair struct{ f, v, g, w int }
	missing := map[pair]bool{}
	var order []pair
	for f := range sizes {
		for g := f + 1; g < len(sizes); g++ {
			for v := range sizes[f] {
				for w := range sizes[g] {
					missing[pair{f, v, g, w}] = true
					order = append(order, pair{f, v, g, w})
				}
			}
		}
	}
	gain := func(p *pick, set *[7]bool, f, v int) int {
		n := 0
		for g := range sizes {
			if !set[g] || g == f {
				continue
			}
			q := pair{f, v, g, p[g]}
			if g < f {
				q = pair{g, p[g], f, v}
			}
			if missing[q] {
				n++
			}
		}
		return n
	}
	var picks []pick
	for _, first := range order {
		if !missing[first] {
			continue
		}
		var p pick
		var set [7]bool
		p[first.f], p[first.g] = first.v, first.w
		set[first.f], set[first.g] = true, true
		for f := range sizes {
			if set[f] {
				continue
			}
			best, most := 0, -1
			for i := range sizes[f] {
				v := (i + len(picks)) % sizes[f] // spread what does not matter
				if n := gain(&p, &set, f, v); n > most {
					best, most = v, n
				}
			}
			p[f], set[f] = best, true
		}
		for f := range sizes {
			for g := f + 1; g < len(sizes); g++ {
				delete(missing, pair{f, p[f], g, p[g]})
			}
		}
		picks = append(picks, p)
	}
	return picks
}

func (p pick) testCase() testCase {
	c := testCase{ranks: p[1] + 1, code: testCodes[p[2]], kind: elem.Kinds()[p[3]], op: testOps[p[4]],
		n: testSizes[p[5]]}
	c.root = []int{0, c.ranks / 2, c.ranks - 1}[p[6]]
	return c
}

func TestPairwiseHasEveryPair(t *testing.T) {
	sizes := factorSizes()
	picks := pairwise(sizes)
	t.Logf("%d picks", len(picks))
	for f := range sizes {
		for g := f + 1; g < len(sizes); g++ {
			seen := map[[2]int]bool{}
			for _, p := range picks {
				seen[[2]int{p[f], p[g]}] = true
			}
			if len(seen) != sizes[f]*sizes[g] {
				t.Errorf("factors %d and %d: %d pairs of %d", f, g, len(seen), sizes[f]*sizes[g])
			}
		}
	}
}

// TestCollectives compares every collective with a plain sequential result: every pair of backend, number of ranks,
// collective, kind, operation, size and root. With MILLSTREAM_COLLECTIVES=full it is the product of them, which takes
// long.
func TestCollectives(t *testing.T) {
	byGroup := map[[2]int][]testCase{}
	if os.Getenv("MILLSTREAM_COLLECTIVES") == "full" {
		sizes := factorSizes()
		var walk func(p pick, f int)
		walk = func(p pick, f int) {
			if f == len(sizes) {
				byGroup[[2]int{p[0], p[1]}] = append(byGroup[[2]int{p[0], p[1]}], p.testCase())
				return
			}
			for v := range sizes[f] {
				p[f] = v
				walk(p, f+1)
			}
		}
		walk(pick{}, 0)
	} else {
		for _, p := range pairwise(factorSizes()) {
			byGroup[[2]int{p[0], p[1]}] = append(byGroup[[2]int{p[0], p[1]}], p.testCase())
		}
	}
	for i, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			for n := range testRanks {
				cases := byGroup[[2]int{i, n}]
				if len(cases) == 0 {
					continue
				}
				ctx := testContext(t)
				if os.Getenv("MILLSTREAM_COLLECTIVES") == "full" {
					ctx = t.Context()
				}
				gs := b.groups(ctx, t, n+1)
				each(t, n+1, func(r int) error {
					for _, c := range cases {
						if err := c.run(ctx, gs[r]); err != nil {
							return err
						}
					}
					return nil
				})
				closeAll(gs)
			}
		})
	}
}
