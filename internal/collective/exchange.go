package collective

import (
	"context"
	"encoding/binary"
	"fmt"

	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/collective/transport"
)

// Channels of a group on its transport: the id of the group in the upper 42 of 52 bits, the purpose in two, and a slot
// for large messages of Send in the lower eight.
const (
	forHeaders uint64 = iota << 8
	forData
	forEnvelopes
	forPayload
)

func (g *Group) channel(what uint64) uint64 { return g.id<<10 | what }

// inlineMax returns how much data a rank sends along with its header over a transport. It is sent to every rank, so
// large groups send less.
func (g *Group) inlineMax() int { return min(max(16<<10/len(g.ranks), 512), 4<<10) }

// maxHeader returns the maximum size of the header of a rank with counts and data.
func (g *Group) maxHeader() int {
	return headerLen + 16*len(g.ranks) + max(g.inlineMax(), maxText) + 8
}

// announce writes the header of this rank for a call, with at most limit bytes of data, into b, and returns its length.
func (g *Group) announce(b []byte, c *Call, limit int) int {
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
			break // this rank or this call has no counts
		}
		for _, x := range list {
			binary.LittleEndian.PutUint64(b[n:], uint64(x))
			n += 8
		}
	}
	if c.OnDevice {
		h.flags = flagDevice
	} else if data := c.payload(g.rank); len(data) <= limit {
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

// exchange sends the headers of all ranks to all ranks and stores them in g.parts. It uses Bruck's all-gather, whose
// number of rounds is the logarithm of the number of ranks and does not depend on the calls.
func (g *Group) exchange(ctx context.Context, c *Call) error {
	size := len(g.ranks)
	g.ends = append(g.ends[:0], g.announce(g.headers, c, g.inlineMax()))
	if _, err := parsePart(g.headers[:g.ends[0]], &g.parts[g.rank]); err != nil {
		return err
	}
	for held := 1; held < size; {
		count := min(held, size-held)
		to, from := (g.rank-held+size)%size, (g.rank+held)%size
		tail := g.ends[held-1]
		n, err := g.swap(ctx, to, g.headers[:g.ends[count-1]], from, g.headers[tail:], forHeaders)
		if err != nil {
			return err
		}
		for range count {
			used, err := parsePart(g.headers[tail:tail+n], &g.parts[(g.rank+held)%size])
			if err != nil {
				return fmt.Errorf("invalid header from rank %d: %w", g.ranks[from], err)
			}
			n -= used
			tail += used
			g.ends = append(g.ends, tail)
			held++
		}
	}
	return validate(g.parts)
}

// swap sends to one rank and receives from another.
func (g *Group) swap(ctx context.Context, to int, send []byte, from int, recv []byte, what uint64) (int, error) {
	t, ch := g.hub.t, g.channel(what)
	r := t.StartRecv(g.ranks[from], ch, recv)
	if err := t.Send(ctx, g.ranks[to], ch, send); err != nil {
		_, _ = r.Wait(transport.Ended) // releases the memory of the receive
		return 0, &opError{g.ranks[to], err}
	}
	n, err := r.Wait(ctx)
	if err != nil {
		return 0, &opError{g.ranks[from], err}
	}
	return n, nil
}
