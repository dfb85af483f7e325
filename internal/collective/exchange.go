package collective

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// Channels of a group on its transport: the group's id in the upper 42 of 52 bits, what for in two, and a number for
// large messages of Send in the lower eight.
const (
	forWords uint64 = iota << 8
	forData
	forEnvelopes
	forPayload
)

func (g *Group) channel(what uint64) uint64 { return g.id<<10 | what }

// inlineMax is how much data a rank sends along with its header over a transport. All of it goes to every rank, so
// large groups send less.
func (g *Group) inlineMax() int { return min(max(16<<10/len(g.ranks), 512), 4<<10) }

// maxWords bounds what one rank says before a collective.
func (g *Group) maxWords() int {
	return headerLen + 16*len(g.ranks) + max(g.inlineMax(), maxText) + 8
}

// say writes this rank's words for a call, with at most limit bytes of data, and returns their length. b has room.
func (g *Group) say(b []byte, c *Call, limit int) int {
	h, bad := c.describe(g.rank, len(g.ranks))
	if bad == "" && c.OnDevice {
		bad = g.check(c)
	}
	h.seq = g.seq
	g.seq++
	if bad != "" {
		h.flags, h.vec, h.count = flagBad, 0, 0
		n := copy(b[headerLen:headerLen+maxText], bad)
		h.data = uint32(n)
		h.put(b)
		return headerLen + n
	}
	n := headerLen
	for i, list := range [2][]int{c.Counts, c.RecvCounts} {
		if h.vec == 0 || i > 0 && c.Code != AllToAllV {
			break // counts of a rank, or of a call, that is not asked for them
		}
		for _, x := range list {
			binary.LittleEndian.PutUint64(b[n:], uint64(x))
			n += 8
		}
	}
	if c.OnDevice {
		h.flags = flagDevice
	} else if data := c.contributed(g.rank); len(data) <= limit {
		h.flags, h.data = flagInline, uint32(len(data))
		if c.reduces() {
			elem.Prepare(b[n:n+len(data)], data, c.Kind, c.Op)
		} else {
			copy(b[n:], data)
		}
		n += len(data)
	}
	h.put(b)
	return n
}

// exchange lets every rank know every rank's words, in g.parts: Bruck's all-gather, whose rounds are the logarithm of
// the number of ranks and do not depend on what anybody has called.
func (g *Group) exchange(ctx context.Context, c *Call) error {
	size := len(g.ranks)
	g.ends = append(g.ends[:0], g.say(g.words, c, g.inlineMax()))
	if _, err := parsePart(g.words[:g.ends[0]], &g.parts[g.rank]); err != nil {
		return err
	}
	for held := 1; held < size; {
		count := min(held, size-held)
		to, from := (g.rank-held+size)%size, (g.rank+held)%size
		tail := g.ends[held-1]
		n, err := g.swap(ctx, to, g.words[:g.ends[count-1]], from, g.words[tail:], forWords)
		if err != nil {
			return err
		}
		for range count {
			used, err := parsePart(g.words[tail:tail+n], &g.parts[(g.rank+held)%size])
			if err != nil {
				return fmt.Errorf("rank %d sent what is no call: %w", g.ranks[from], err)
			}
			n -= used
			tail += used
			g.ends = append(g.ends, tail)
			held++
		}
	}
	return sound(g.parts)
}

// swap sends to one rank and receives from another.
func (g *Group) swap(ctx context.Context, to int, send []byte, from int, recv []byte, what uint64) (int, error) {
	t, ch := g.hub.t, g.channel(what)
	r := t.StartRecv(g.ranks[from], ch, recv)
	if err := t.Send(ctx, g.ranks[to], ch, send); err != nil {
		_, _ = r.Wait(transport.Ended) // its memory is ours again then
		return 0, &opError{g.ranks[to], err}
	}
	n, err := r.Wait(ctx)
	if err != nil {
		return 0, &opError{g.ranks[from], err}
	}
	return n, nil
}
