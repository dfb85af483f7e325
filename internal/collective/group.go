package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.millstream.dev/internal/collective/transport"
)

// SharedMemory says whether a group whose ranks are all on one host works in memory that they share.
type SharedMemory int

const (
	// SharedAuto, the default, shares memory if every rank can.
	SharedAuto SharedMemory = iota
	// SharedOff never does: everything goes over the transport.
	SharedOff
)

// Config says how a group works. The zero value is useful. All ranks must have the same but for Names.
type Config struct {
	// Deterministic makes every reduction go from rank 0 upwards, ((x0 ∘ x1) ∘ x2) ∘ …, so that results have the
	// same bits on each transport, whatever the size. Without it only the same group gives the same bits again.
	Deterministic bool
	// SharedMemory of ranks on one host.
	SharedMemory SharedMemory
	// Names are how errors call the ranks, normally by their workers' addresses. May be nil.
	Names []string
}

// Group is a fixed set of processes that call collectives together. All ranks call the same ones in the same
// order; calls of several goroutines of one rank take turns. Send, Recv and SendRecv are not part of that order.
//
// The context of a collective bounds it on this rank. A collective that one rank has left can never end on the
// others, so when its context ends the whole group is aborted: every rank gets a *RankError that names this one.
type Group struct {
	hub   *hub
	cfg   Config
	id    uint64 // below 2⁴²; no two groups that two ranks have in common share one
	rank  int
	ranks []int // of the transport

	turns turns
	gone  chan struct{} // closed by Close
	once  sync.Once

	// What follows belongs to whoever has the turn.
	cur     Call
	seq     uint32
	parts   []part   // what the ranks have called
	words   []byte   // the same as it came
	ends    []int    // where each rank's words end
	sources [][]byte // operands of a reduction
	tmp     []byte
	seg     *segment // nil without shared memory
	// unshared says that the ranks could share memory and have not tried yet.
	unshared bool

	p2p     p2p
	carrier Carrier // of device memory; nil without. Set before the first use.
}

// New makes the group of a transport's ranks; every rank calls it, with the same configuration. The group owns
// the transport, also when New fails.
func New(ctx context.Context, t transport.Transport, cfg Config) (*Group, error) {
	ranks := make([]int, t.Size())
	for i := range ranks {
		ranks[i] = i
	}
	g := newGroup(newHub(t, cfg.Names), cfg, 0, t.Rank(), ranks)
	if err := g.setup(ctx); err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

func newGroup(h *hub, cfg Config, id uint64, rank int, ranks []int) *Group {
	g := &Group{hub: h, cfg: cfg, id: id, rank: rank, ranks: ranks, gone: make(chan struct{}),
		parts: make([]part, len(ranks)), sources: make([][]byte, 0, len(ranks)), ends: make([]int, 0, len(ranks))}
	g.words = make([]byte, len(ranks)*g.maxWords())
	g.p2p.init(g)
	return g
}

// Rank is this process's number, 0 … Size-1.
func (g *Group) Rank() int { return g.rank }

// Size is the number of ranks.
func (g *Group) Size() int { return len(g.ranks) }

// Backend is what carries the data: the transport's name, with "shm+" in front where the ranks share memory.
func (g *Group) Backend() string {
	if g.seg != nil {
		return "shm+" + g.hub.t.Name()
	}
	return g.hub.t.Name()
}

// Done is closed when the group has failed; Err says why.
func (g *Group) Done() <-chan struct{} { return g.hub.done }

// Err is nil while the group works; then a *RankError, or ErrClosed.
func (g *Group) Err() error {
	err := g.hub.err()
	select {
	case <-g.gone:
		if err != nil {
			return fmt.Errorf("%w; before that, %w", ErrClosed, err)
		}
		return ErrClosed
	default:
		return err
	}
}

// Abort ends the group on every rank, with an error that names this rank and has err's text. What was under way
// fails. The group must still be closed.
func (g *Group) Abort(err error) {
	if err == nil {
		err = errors.New("aborted")
	}
	g.hub.fail(&RankError{Rank: g.hub.t.Rank(), Reason: err.Error(), Err: err})
}

// Close leaves the group and frees what it holds. Others that still wait for this rank get an error that
// names it; end with Barrier where that is possible. Sub-groups live on. It is idempotent.
func (g *Group) Close() error {
	var err error
	g.once.Do(func() {
		close(g.gone)
		place := g.turns.ask()
		if place != nil {
			// A collective is under way here; the others could wait for it for ever.
			g.Abort(errors.New("closed the group in the middle of a collective"))
		}
		g.turns.wait(context.Background(), place, nil, nil) // and keep it
		if g.carrier != nil {
			err = g.carrier.Close()
		}
		if g.seg != nil {
			g.seg.close()
		}
		g.p2p.close()
		err = errors.Join(err, g.hub.release())
	})
	return err
}

// run waits for the turn and carries the call out.
func (g *Group) run(ctx context.Context, c Call, place *turn) error {
	if !g.turns.wait(ctx, place, g.hub.done, g.gone) {
		if err := g.Err(); err != nil {
			return err
		}
		return g.hub.explain(ctx, context.Cause(ctx))
	}
	defer g.turns.done()
	if err := g.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return g.hub.explain(ctx, context.Cause(ctx))
	}
	g.cur = c
	err := g.collect(ctx, &g.cur)
	g.cur = Call{} // its buffers are the caller's again
	if err == nil {
		return nil
	}
	var mismatch *MismatchError
	if errors.As(err, &mismatch) {
		return err
	}
	return g.hub.explain(ctx, err)
}

// collect is one collective from the header to the result.
func (g *Group) collect(ctx context.Context, c *Call) error {
	if g.seg != nil {
		return g.seg.collect(ctx, g, c)
	}
	if err := g.exchange(ctx, c); err != nil {
		return err
	}
	if err := agree(g.parts); err != nil {
		return err
	}
	if c.OnDevice {
		return g.carrier.Run(ctx, c)
	}
	if allInline(g.parts) {
		g.finishSmall(c)
		return nil
	}
	if g.unshared && c.flows() {
		g.unshared = false
		if err := g.share(ctx); err != nil {
			return err
		}
		if g.seg != nil {
			return g.seg.flowNow(ctx, g, c)
		}
	}
	return g.large(ctx, c)
}
