package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.millstream.dev/internal/proc/hostid"
)

// engineVersion is exchanged when a group is created: its ranks must use the same order of messages.
const engineVersion = 1

// setup checks that the ranks of a new group are compatible, and sets up shared memory if all ranks can use it.
func (g *Group) setup(ctx context.Context) error {
	g.turns.wait(ctx, g.turns.enqueue(), nil, nil)
	defer g.turns.done()
	flags := byte(0)
	if g.cfg.Deterministic {
		flags = 1
	}
	hello := append([]byte{engineVersion, flags, byte(g.cfg.SharedMemory)}, hostid.In("pid")...)
	if err := g.exchangeBytes(ctx, hello); err != nil {
		return err
	}
	same := true
	first := g.parts[0].inline
	for r := range g.parts {
		p := g.parts[r].inline
		if len(p) < 3 || len(first) < 3 || p[0] != first[0] {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("rank %d runs a different release than rank 0",
				r)}
		}
		if p[1] != first[1] || p[2] != first[2] {
			return &MismatchError{Rank: r,
				Reason: fmt.Sprintf("rank %d has a different Config (Deterministic, SharedMemory) than rank 0", r)}
		}
		same = same && string(p[3:]) == string(first[3:])
	}
	if !same || len(first) == 3 || len(g.ranks) == 1 || len(g.ranks) > sharedRanks || g.cfg.SharedMemory == SharedOff {
		return nil
	}
	return g.share(ctx)
}

// sharedRanks bounds groups with shared memory, whose size grows with the square of the number of ranks.
const sharedRanks = 64

// exchangeBytes sends a few bytes of each rank to all ranks and stores them in g.parts.
func (g *Group) exchangeBytes(ctx context.Context, b []byte) error {
	c := Call{Code: codeSetup, Kind: Uint8, Send: Memory{Bytes: b}}
	err := g.exchange(ctx, &c)
	if err == nil {
		err = agree(g.parts)
	}
	var mismatch *MismatchError
	if err != nil && !errors.As(err, &mismatch) {
		return g.hub.explain(ctx, err)
	}
	return err
}

// share sets up shared memory. If that fails, the group uses the transport.
func (g *Group) share(ctx context.Context) error {
	var s *segment
	var f *os.File
	var offer []byte
	if g.rank == 0 {
		var cookie []byte
		var err error
		if s, f, cookie, err = createSegment(len(g.ranks)); err == nil {
			defer f.Close()
			offer = binary.LittleEndian.AppendUint32(nil, uint32(os.Getpid()))
			offer = binary.LittleEndian.AppendUint32(offer, uint32(f.Fd()))
			offer = append(offer, cookie...)
		}
	}
	err := g.exchangeBytes(ctx, offer)
	reply := []byte{0}
	if err == nil {
		if p := g.parts[0].inline; g.rank != 0 && len(p) == 8+cookieLen {
			s, _ = openSegment(binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:]), len(g.ranks), g.rank,
				p[8:])
		}
		if s != nil {
			reply[0] = 1
		}
		err = g.exchangeBytes(ctx, reply) // rank 0 keeps the file open until then
	}
	all := err == nil
	for r := range g.parts {
		all = all && string(g.parts[r].inline) == "\x01"
	}
	if !all {
		if s != nil {
			s.close()
		}
		return err
	}
	s.rank = g.rank
	s.policy = defaultPolicy(len(g.ranks))
	g.seg = s
	g.shared.Store(true)
	return nil
}
