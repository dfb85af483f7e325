package inspect

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

// randomID is what follows the name of a clique in its id.
var randomID = regexp.MustCompile(`-[0-9a-f]{32}$`)

// cliqueName returns the title of a clique: the name that its creator chose, and what carries its collectives.
func cliqueName(id, backend string) string {
	return randomID.ReplaceAllString(id, "") + " over " + backend
}

// Cliques implements dashboard.Source: the cliques that workers have reported with their last heartbeats, dissolved
// ones last. A clique is dissolved when all ranks that report it say so. A rank that ends a little later than others
// sees their connections close and reports an error: the clique has not failed if one of the ranks has ended without.
func (s *source) Cliques(ctx context.Context) ([]dashboard.Clique, error) {
	type member struct {
		worker, host string
		peers.CliqueReport
	}
	list, err := loop.Ask(ctx, s.Loop, func() ([]member, error) {
		var out []member
		for _, w := range s.Inspector.Workers.ByAddress {
			for _, c := range w.Recorded.Cliques {
				out = append(out, member{w.Address, w.Host, c})
			}
		}
		return out, nil
	})
	slices.SortFunc(list, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.worker, b.worker))
	})
	out := []dashboard.Clique{}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].ID == list[0].ID {
			n++
		}
		c := dashboard.Clique{ID: list[0].ID, Name: cliqueName(list[0].ID, list[0].Backend), State: "running",
			Ranks: []dashboard.Rank{}, Collectives: []dashboard.Collective{}}
		open := slices.ContainsFunc(list[:n], func(m member) bool { return m.End == 0 })
		clean := !open && slices.ContainsFunc(list[:n], func(m member) bool { return m.Error == "" })
		ops := map[string][]int{} // indexes of members by operation
		for i, m := range list[:n] {
			c.Ranks = append(c.Ranks, dashboard.Rank{Rank: m.Rank, Worker: m.worker, Host: m.host})
			if m.Error != "" && !clean && c.State == "running" {
				c.State = "failed: " + m.Error
			}
			if !open {
				c.End = max(c.End, m.End)
			}
			for _, o := range m.Ops {
				ops[o.Name] = append(ops[o.Name], i)
			}
		}
		if !open && c.State == "running" {
			c.State = "dissolved"
		}
		for name, members := range ops {
			o := dashboard.Collective{Op: name, Slowest: dashboard.Slowest{Rank: -1}}
			for _, i := range members {
				for _, x := range list[i].Ops {
					if x.Name != name {
						continue
					}
					o.Count, o.Bytes = max(o.Count, x.Count), max(o.Bytes, x.Bytes)
					o.Seconds += x.Seconds / float64(len(members))
					if o.Slowest.Rank < 0 || x.Seconds < o.Slowest.Seconds {
						o.Slowest = dashboard.Slowest{Rank: list[i].Rank, Seconds: x.Seconds}
					}
				}
			}
			c.Collectives = append(c.Collectives, o)
		}
		slices.SortFunc(c.Collectives, func(a, b dashboard.Collective) int {
			return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Op, b.Op))
		})
		out = append(out, c)
		list = list[n:]
	}
	slices.SortStableFunc(out, func(a, b dashboard.Clique) int {
		if a.End == 0 || b.End == 0 {
			return cmp.Compare(a.End, b.End)
		}
		return cmp.Compare(b.End, a.End)
	})
	return out, err
}
