package collective

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"go.millstream.dev/internal/collective/elem"
)

// inPlace calls a collective whose send is its place in recv, or the other way round, and compares with a plain result.
func (c testCase) inPlace(ctx context.Context, g caller) error {
	r, es, n := g.Rank(), c.kind.Size(), c.n
	isRoot := r == c.root
	counts := c.counts()
	total := countBefore(append(counts, 0), c.ranks)
	var whole, got, want []byte
	var call Call
	join := func(count func(int) int) (b []byte) {
		for q := range c.ranks {
			b = append(b, c.fillWith(q, 0, count(q))...)
		}
		return b
	}
	counted := func(q int) int { return counts[q] }
	same := func(int) int { return n }
	own := func(at, n int) []byte { // the rank's elements, at their place in the whole
		copy(whole[at*es:], c.fillWith(r, 0, n))
		return whole[at*es : (at+n)*es]
	}
	switch c.code {
	case Reduce:
		got = c.fillWith(r, 0, n)
		if want = bytes.Clone(got); isRoot {
			want = c.reduced(0, n)
		}
		call = reduce(got, got, c.kind, c.operation(r), c.root)
	case AllGather:
		whole = make([]byte, c.ranks*n*es)
		got, want = whole, join(same)
		call = allGather(own(r*n, n), whole, c.kind)
	case AllGatherV:
		whole = make([]byte, total*es)
		got, want = whole, join(counted)
		call = allGatherV(own(countBefore(counts, r), counts[r]), whole, counts, c.kind)
	case Gather:
		whole = make([]byte, c.ranks*n*es)
		call = gather(own(r*n, n), whole, c.kind, c.root)
		if got, want = whole, join(same); !isRoot {
			want = bytes.Clone(whole)
		}
	case GatherV:
		whole = make([]byte, total*es)
		call = gatherV(own(countBefore(counts, r), counts[r]), whole, counts, c.kind, c.root)
		if got, want = whole, join(counted); !isRoot {
			want = bytes.Clone(whole)
		}
	case Scatter:
		whole = c.fillWith(c.root, 0, c.ranks*n)
		got, want = whole[r*n*es:(r+1)*n*es], c.fillWith(c.root, r*n, n)
		if !isRoot {
			clear(whole)
		}
		call = scatter(whole, got, c.kind, c.root)
	case ScatterV:
		whole = c.fillWith(c.root, 0, total)
		at := countBefore(counts, r)
		got, want = whole[at*es:(at+counts[r])*es], c.fillWith(c.root, at, counts[r])
		if !isRoot {
			clear(whole)
		}
		call = scatterV(whole, got, counts, c.kind, c.root)
	case ReduceScatter:
		whole = c.fillWith(r, 0, c.ranks*n)
		got, want = whole[r*n*es:(r+1)*n*es], c.reduced(r*n, n)
		call = reduceScatter(whole, got, c.kind, c.operation(r))
	}
	if err := g.Do(ctx, call); err != nil {
		return fmt.Errorf("%v in place: %w", c, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%v in place: other bytes than computed one by one", c)
	}
	return nil
}

// inPlaceCases are every collective that allows it × sizes of each algorithm × ranks.
func inPlaceCases(ranks int) (list []testCase) {
	for i, code := range []Code{Reduce, AllGather, AllGatherV, Gather, GatherV, Scatter, ScatterV, ReduceScatter} {
		for j, n := range []int{1, 70, 9100} {
			kinds, ops := elem.Kinds(), []elem.OpCode{elem.OpSum, elem.OpMax, elem.OpPreMulSum}
			list = append(list, testCase{code: code, kind: kinds[(5*i+j)%len(kinds)], op: ops[(i+j)%len(ops)], n: n,
				root: (i + j) % ranks, ranks: ranks})
		}
	}
	return list
}

// TestInPlace: memory that send and recv share by the rules gives the same result as two buffers do, and a rank that
// has no part in the result keeps what it had.
func TestInPlace(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			for _, ranks := range []int{1, 2, 3, 5} {
				ctx := testContext(t)
				gs := b.groups(ctx, t, ranks)
				each(t, ranks, func(r int) error {
					for _, c := range inPlaceCases(ranks) {
						if err := c.inPlace(ctx, gs[r]); err != nil {
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

// TestBoundaries: sizes at which one algorithm takes over from another, one element below, at and above.
func TestBoundaries(t *testing.T) {
	for _, b := range []backend{backends[0], backends[3], backends[4]} {
		t.Run(b.name, func(t *testing.T) {
			for _, ranks := range []int{2, 3, 4, 7} {
				ctx := testContext(t)
				gs := b.groups(ctx, t, ranks)
				const es = 4
				edges := []int{gs[0].inlineMax() / es, doublingMax / es, sharedInline / es,
					sharedPiece / es * ranks}
				each(t, ranks, func(r int) error {
					for i, edge := range edges {
						for _, n := range []int{edge - 1, edge, edge + 1} {
							for j, code := range []Code{AllReduce, Reduce, Broadcast, AllGather, ReduceScatter} {
								if code == AllGather || code == ReduceScatter {
									n /= ranks // of the whole
								}
								c := testCase{code: code, kind: Int32, op: testOps[(i+j)%len(testOps)], n: n,
									root: ranks - 1, ranks: ranks}
								if err := c.run(ctx, gs[r]); err != nil {
									return err
								}
							}
						}
					}
					return nil
				})
				closeAll(gs)
			}
		})
	}
}

// TestCuts: parts follow each other without a gap, hold whole elements and differ by one at most.
func TestCuts(t *testing.T) {
	for size := 1; size <= 9; size++ {
		g := &Group{ranks: make([]int, size)}
		for _, es := range []int{1, 2, 4, 8} {
			for elems := range 40 {
				cuts := g.cuts(elems*es, es)
				least, most := elems, 0
				for r := range size {
					n := cuts[r+1] - cuts[r]
					least, most = min(least, n/es), max(most, n/es)
					if n < 0 || n%es != 0 {
						t.Errorf("%d elements of %d bytes among %d: part %d has %d bytes", elems, es, size, r, n)
					}
				}
				if cuts[0] != 0 || cuts[size] != elems*es || most-least > 1 {
					t.Errorf("%d elements of %d bytes among %d: %v", elems, es, size, cuts)
				}
			}
		}
	}
	if got := fmt.Sprint(sums([]int{3, 0, 2}, 4)); got != "[0 12 12 20]" {
		t.Errorf("sums are %s, want [0 12 12 20]", got)
	}
}
