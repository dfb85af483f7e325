package collective

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.millstream.dev/internal/collective/elem"
)

// TestSplitModel compares sub-groups of random colors and keys with those of a sort, and lets each of them gather the
// ranks of its members; twice, as the second split has other numbers.
func TestSplitModel(t *testing.T) {
	for _, b := range []backend{backends[0], backends[2], backends[3]} {
		t.Run(b.name, func(t *testing.T) {
			for seed := range uint64(4) {
				rng := rand.New(rand.NewPCG(seed, 5))
				n := 2 + rng.IntN(5)
				ctx := testContext(t)
				gs := b.groups(ctx, t, n)
				for range 2 {
					colors, keys := make([]int, n), make([]int, n)
					for r := range n {
						colors[r], keys[r] = rng.IntN(3)-rng.IntN(2), rng.IntN(3)-1
					}
					each(t, n, func(r int) error {
						var want []int
						for q := range n {
							if colors[q] == colors[r] {
								want = append(want, q)
							}
						}
						slices.SortStableFunc(want, func(x, y int) int { return keys[x] - keys[y] })
						sub, err := gs[r].Split(ctx, colors[r], keys[r])
						if err != nil || colors[r] < 0 {
							if sub != nil {
								err = errors.Join(err, errors.New("a sub-group of a negative color"))
							}
							return err
						}
						defer sub.Close()
						if sub.Rank() != slices.Index(want, r) || sub.Size() != len(want) {
							return fmt.Errorf("rank %d of %d, want that of %v", sub.Rank(), sub.Size(), want)
						}
						got, all := []int64{int64(r)}, make([]int64, len(want))
						if err := sub.Do(ctx, allGather(elem.View(got), elem.View(all), Int64)); err != nil {
							return err
						}
						for i, q := range want {
							if all[i] != int64(q) {
								return fmt.Errorf("members %v, want %v", all, want)
							}
						}
						return nil
					})
				}
				closeAll(gs)
			}
		})
	}
}

// TestGroupsDoNotMeet: messages of a group, of its sub-groups, of sub-groups of them and of duplicates of each use one
// transport and one tag, and none of them gets another's.
func TestGroupsDoNotMeet(t *testing.T) {
	for _, b := range []backend{backends[0], backends[2], backends[3]} {
		t.Run(b.name, func(t *testing.T) {
			ctx := testContext(t)
			const n = 3
			gs := b.groups(ctx, t, n)
			var mu sync.Mutex
			ids := map[string]map[uint64]bool{} // by kind of group
			each(t, n, func(r int) error {
				groups := []*Group{gs[r]}
				var names []string
				names = append(names, "group")
				add := func(name string, g *Group, err error) error {
					groups, names = append(groups, g), append(names, name)
					return err
				}
				// Rank 2 leaves the first split out: its next proposal must not repeat a number.
				color := 0
				if r == 2 {
					color = -1
				}
				first, err := gs[r].Split(ctx, color, 0)
				if err != nil {
					return err
				}
				if first != nil {
					if err := add("pair", first, nil); err != nil {
						return err
					}
					inner, err := first.Split(ctx, 0, -r)
					if err := add("pair of the pair", inner, err); err != nil {
						return err
					}
					dup, err := first.Dup(3)
					if err := add("dup of the pair", dup, err); err != nil {
						return err
					}
				}
				second, err := gs[r].Split(ctx, 0, 0)
				if err := add("all", second, err); err != nil {
					return err
				}
				for _, number := range []uint64{3, 4} {
					dup, err := gs[r].Dup(number)
					if err := add(fmt.Sprintf("dup %d", number), dup, err); err != nil {
						return err
					}
				}
				dup, err := second.Dup(3)
				if err := add("dup of all", dup, err); err != nil {
					return err
				}
				mu.Lock()
				for i, g := range groups {
					if ids[names[i]] == nil {
						ids[names[i]] = map[uint64]bool{}
					}
					ids[names[i]][g.id] = true
				}
				mu.Unlock()
				// All send before anybody receives, and receive in another order than they have sent in.
				text := func(i, from int) []byte { return fmt.Appendf(nil, "%s from %d", names[i], from) }
				for i, g := range groups {
					if err := g.Do(ctx, sending((g.Rank()+1)%g.Size(), 1,
						Memory{Bytes: text(i, g.Rank())})); err != nil {
						return err
					}
				}
				for i := len(groups) - 1; i >= 0; i-- {
					g, buf := groups[i], make([]byte, 64)
					from := (g.Rank() + g.Size() - 1) % g.Size()
					m, err := received(ctx, g, from, 1, Memory{Bytes: buf})
					if err != nil || !bytes.Equal(buf[:m], text(i, from)) {
						return fmt.Errorf("%s: %q, want %q: %w", names[i], buf[:m], text(i, from), err)
					}
				}
				for _, g := range groups[1:] {
					if err := g.Close(); err != nil {
						return err
					}
				}
				return gs[r].Do(ctx, barrier())
			})
			seen := map[uint64]string{}
			for name, set := range ids {
				if len(set) != 1 {
					t.Errorf("%s has the ids %v on its ranks, want one", name, set)
				}
				for id := range set {
					if other, ok := seen[id]; ok || id >= 1<<42 {
						t.Errorf("%s and %q have the id %#x", name, other, id)
					}
					seen[id] = name
				}
			}
		})
	}
}

// TestSplitEnds: a failed or closed group has no new sub-groups and duplicates, and the numbers are limited.
func TestSplitEnds(t *testing.T) {
	ctx := testContext(t)
	gs := backends[0].groups(ctx, t, 2)
	gs[1].hub.skipTo(1<<28 - 1)
	for r, err := range results(2, func(r int) error {
		_, err := gs[r].Split(ctx, 0, 0)
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "cannot be split more than") {
			t.Errorf("rank %d: %v, want the limit of splits", r, err)
		}
	}
	gs[0].Abort(nil)
	if _, err := gs[0].Dup(1); err == nil || err.Error() != "collective: rank 0 (worker-0): aborted" {
		t.Errorf("dup of an aborted group: %v", err)
	}
	if _, err := gs[0].Split(ctx, 0, 0); err == nil {
		t.Error("an aborted group was split")
	}
	closeAll(gs)
	_, err := gs[0].Dup(1)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "after failure: collective: rank 0") {
		t.Errorf("dup of a closed group: %v, want that it is closed and why it had failed", err)
	}
}

// TestLastGroupClosesTransport: sub-groups and duplicates outlive their group, in any order of closing.
func TestLastGroupClosesTransport(t *testing.T) {
	for order := range 3 {
		ctx := testContext(t)
		gs := backends[0].groups(ctx, t, 2)
		each(t, 2, func(r int) error {
			sub, err := gs[r].Split(ctx, 0, 0)
			if err != nil {
				return err
			}
			dup, err := sub.Dup(1)
			if err != nil {
				return err
			}
			list := []*Group{gs[r], sub, dup}
			for i := range list {
				if err := list[(order+i)%3].Close(); err != nil {
					return err
				}
				for j := i + 1; j < len(list); j++ {
					if err := list[(order+j)%3].Do(ctx, barrier()); err != nil {
						return fmt.Errorf("group %d after %d were closed: %w", (order+j)%3, i+1, err)
					}
				}
			}
			return nil
		})
	}
}
