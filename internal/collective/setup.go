package collective

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"go.millstream.dev/internal/proc/hostid"
)

// engineVersion is told when a group is made: ranks of one group must order their messages in the same way.
const engineVersion = 1

// setup lets the ranks of a new group find out whether they fit together, and share memory if all can.
func (g *Group) setup(ctx context.Context) error {
	g.turns.wait(ctx, g.turns.ask(), nil, nil)
	defer g.turns.done()
	flags := byte(0)
	if g.cfg.Deterministic {
		flags = 1
	}
	hello := append([]byte{engineVersion, flags, byte(g.cfg.SharedMemory)}, hostid.In("pid")...)
	if err := g.tell(ctx, hello); err != nil {
		return err
	}
	same := true
	first := g.parts[0].inline
	for r := range g.parts {
		p := g.parts[r].inline
		if len(p) < 3 || len(first) < 3 || p[0] != first[0] {
			return &MismatchError{Rank: r, Reason: fmt.Sprintf("rank %d has another release of the engine than rank 0",
				r)}
		}
		if p[1] != first[1] || p[2] != first[2] {
			return &MismatchError{Rank: r,
				Reason: fmt.Sprintf("rank %d has another configuration (deterministic, shared memory) than rank 0", r)}
		}
		same = same && string(p[3:]) == string(first[3:])
	}
	if !same || len(first) == 3 || len(g.ranks) == 1 || len(g.ranks) > sharedRanks || g.cfg.SharedMemory == SharedOff {
		return nil
	}
	return g.share(ctx)
}

// sharedRanks bounds groups that share memory, whose size grows with the square of their number.
const sharedRanks = 64

// tell is an exchange of a few bytes of each rank, in g.parts.
func (g *Group) tell(ctx context.Context, b []byte) error {
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

// share tries to give the ranks common memory; without it the group works all the same.
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
	err := g.tell(ctx, offer)
	answer := []byte{0}
	if err == nil {
		if p := g.parts[0].inline; g.rank != 0 && len(p) == 8+cookieLen {
			s, _ = openSegment(binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:]), len(g.ranks), g.rank,
				p[8:])
		}
		if s != nil {
			answer[0] = 1
		}
		err = g.tell(ctx, answer) // until then rank 0 keeps the file open
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
	return nil
}
