package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Group ids have 42 bits: the kind in two, the rest unique among the groups that two of the ranks share.
const (
	idSplit  uint64 = 0 << 40 // a number and the rank that proposed it, unique together; 0 is the group of New
	idDup    uint64 = 1 << 40 // Dup of the group of New: its number
	idHashed uint64 = 2 << 40 // Dup of another group: a hash of id and number
)

// Split forms sub-groups: ranks with the same color are in one, ordered by key and then by rank. With a negative color
// it returns nil. Split is a collective. Sub-groups use the transport of the group and fail with it, but have their own
// order of calls.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	proposal := g.hub.propose()
	b := binary.LittleEndian.AppendUint64(nil, uint64(color))
	b = binary.LittleEndian.AppendUint64(b, uint64(key))
	b = binary.LittleEndian.AppendUint32(b, proposal)
	all := make([]byte, len(b)*len(g.ranks))
	if err := g.Do(ctx, Call{Code: AllGather, Kind: Uint8, Send: Memory{Bytes: b},
		Recv: Memory{Bytes: all}}); err != nil {
		return nil, err
	}
	type member struct{ key, rank int }
	var members []member
	var number uint32
	proposer := 0
	for r := range g.ranks {
		w := all[r*len(b):]
		if n := binary.LittleEndian.Uint32(w[16:]); n > number {
			number, proposer = n, g.ranks[r]
		}
		if int(binary.LittleEndian.Uint64(w)) == color {
			members = append(members, member{int(binary.LittleEndian.Uint64(w[8:])), r})
		}
	}
	g.hub.skipTo(number)
	if number >= 1<<28 {
		return nil, fmt.Errorf("collective: a group cannot be split more than %d times", 1<<28)
	}
	if color < 0 {
		return nil, nil
	}
	slices.SortStableFunc(members, func(a, b member) int {
		if a.key != b.key {
			if a.key < b.key {
				return -1
			}
			return 1
		}
		return a.rank - b.rank
	})
	ranks := make([]int, len(members))
	me := 0
	for i, m := range members {
		ranks[i] = g.ranks[m.rank]
		if m.rank == g.rank {
			me = i
		}
	}
	g.hub.retain()
	sub := newGroup(g.hub, g.cfg, idSplit|uint64(number)<<12|uint64(proposer), me, ranks)
	if err := sub.setup(ctx); err != nil {
		_ = sub.Close()
		return nil, err
	}
	return sub, nil
}

// Dup returns a group of the same ranks with its own order of calls, without communication: each rank calls it with the
// same number, below 2³², at any time, or never. A number must be used only once per group. The new group uses the
// transport of g and fails with it; closing it does not affect others. It sets up shared memory with its first large
// collective.
func (g *Group) Dup(n uint64) (*Group, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if n >= 1<<32 {
		return nil, fmt.Errorf("collective: invalid group number %d: want less than 2³²", n)
	}
	id := idDup | n
	if g.id != 0 {
		h := fnv.New64a()
		_, _ = h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, g.id), n))
		id = idHashed | h.Sum64()>>24
	}
	g.hub.retain()
	dup := newGroup(g.hub, g.cfg, id, g.rank, g.ranks)
	dup.unshared = g.shared.Load()
	return dup, nil
}
