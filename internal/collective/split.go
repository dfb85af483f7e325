package collective

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
)

// Ids of groups, 42 bits: what kind in two, then what makes it unlike any other that two of its ranks share.
const (
	idSplit  uint64 = 0 << 40 // a number and the rank that proposed it, neither twice together; 0 is New's group
	idLane   uint64 = 1 << 40 // Lane of New's group: its number
	idHashed uint64 = 2 << 40 // Lane of another group: a hash of both
)

// Split makes sub-groups: ranks that give the same color are in one, ordered by key and then by their rank
// here. A negative color gives nil: no part in any. It is a collective. Sub-groups use the transport of
// the group and fail with it, but have an order of calls of their own.
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
	g.hub.atLeast(number)
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

// Lane returns a group of the same ranks with an order of calls of its own, without asking the others: each rank makes
// it with the same number, below 2³², whenever it gets there, or never. A number is used once in the life of the group.
// Lanes use the transport of the group and fail with it; closing one is no loss to others. They share memory when the
// first large collective comes.
func (g *Group) Lane(n uint64) (*Group, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	if n >= 1<<32 {
		return nil, fmt.Errorf("collective: lane %d: numbers are below 2³²", n)
	}
	id := idLane | n
	if g.id != 0 {
		h := fnv.New64a()
		_, _ = h.Write(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, g.id), n))
		id = idHashed | h.Sum64()>>24
	}
	g.hub.retain()
	lane := newGroup(g.hub, g.cfg, id, g.rank, g.ranks)
	lane.unshared = g.seg != nil
	return lane, nil
}
