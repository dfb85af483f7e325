package collective

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.millstream.dev/internal/collective/transport"
)

// SharedMemory specifies whether a group whose ranks are all on one host uses shared memory.
type SharedMemory int

const (
	// SharedAuto is the default: shared memory is used if every rank can use it.
	SharedAuto SharedMemory = iota
	// SharedOff always uses the transport.
	SharedOff
)

// Config configures a group. The zero value is useful. All fields but Names must be equal on all ranks.
type Config struct {
	// Deterministic makes every reduction proceed from rank 0 upward, ((x0 ∘ x1) ∘ x2) ∘ …, so that results are bitwise
	// equal on all transports and for all sizes. Without it, results are reproducible only in the same group.
	Deterministic bool
	// SharedMemory specifies whether ranks on one host use shared memory.
	SharedMemory SharedMemory
	// Names are the names of the ranks in errors, usually the addresses of their workers. It may be nil.
	Names []string
}

// Group is a fixed set of processes that run collectives. All ranks call the same ones in the same order; calls of
// several goroutines of one rank run one after the other. Send, Recv and SendRecv are not part of that order.
//
// The context of a collective bounds it on this rank. A collective that one rank has left cannot complete on the
// others, so when its context ends the whole group is aborted: every rank gets a *RankError that names this one.
type Group struct {
	hub   *hub
	cfg   Config
	id    uint64 // below 2⁴²; unique among the groups that two ranks have in common
	rank  int
	ranks []int // ranks of the transport

	turns turns
	gone  chan struct{} // closed by Close
	once  sync.Once
	// shared is set once seg is, for goroutines that do not have the turn.
	shared atomic.Bool

	// The fields below belong to the goroutine that has the turn.
	cur     Call
	seq     uint32
	parts   []part   // calls of the ranks
	headers []byte   // the same, encoded
	ends    []int    // ends of the headers of the ranks
	sources [][]byte // operands of a reduction
	tmp     []byte
	seg     *segment // nil without shared memory
	// unshared is set if the ranks can use shared memory and have not tried yet; inlined counts the small collectives
	// until then.
	unshared bool
	inlined  int

	p2p     p2p
	carrier Carrier // for device memory; may be nil. Set before the first use.
}

// New returns the group of the ranks of a transport. Every rank calls it, with the same configuration. The group owns
// the transport, even if New fails.
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
	g.headers = make([]byte, len(ranks)*g.maxHeader())
	g.p2p.init(g)
	return g
}

// Rank returns the number of this process, 0 to Size-1.
func (g *Group) Rank() int { return g.rank }

// Size returns the number of ranks.
func (g *Group) Size() int { return len(g.ranks) }

// Backend returns the name of the transport, with the prefix "shm+" if the ranks use shared memory.
func (g *Group) Backend() string {
	if g.shared.Load() {
		return "shm+" + g.hub.t.Name()
	}
	return g.hub.t.Name()
}

// Done returns a channel that is closed when the group has failed; Err returns the reason.
func (g *Group) Done() <-chan struct{} { return g.hub.done }

// Err returns nil while the group is usable, then a *RankError or ErrClosed.
func (g *Group) Err() error {
	err := g.hub.err()
	select {
	case <-g.gone:
		if err != nil {
			return fmt.Errorf("%w, after failure: %w", ErrClosed, err)
		}
		return ErrClosed
	default:
		return err
	}
}

// Abort ends the group on every rank, with an error that names this rank and has the text of err. Operations in flight
// fail. The group must still be closed.
func (g *Group) Abort(err error) {
	if err == nil {
		err = errors.New("aborted")
	}
	g.hub.fail(&RankError{Rank: g.hub.t.Rank(), Reason: err.Error(), Err: err})
}

// Close leaves the group and frees its resources. Ranks that wait for this one get an error that names it; call Barrier
// before Close if possible. Sub-groups remain usable. Close may be called twice.
func (g *Group) Close() error {
	var err error
	g.once.Do(func() {
		close(g.gone)
		place := g.turns.enqueue()
		if place != nil {
			// A collective is in flight, and the other ranks would wait for it.
			g.Abort(errors.New("group closed during a collective"))
		}
		g.turns.wait(context.Background(), place, nil, nil) // not released
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

// run waits for the turn and runs the call.
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
	g.cur = Call{} // releases the buffers
	if err == nil {
		return nil
	}
	var mismatch *MismatchError
	if errors.As(err, &mismatch) {
		return err
	}
	return g.hub.explain(ctx, err)
}

// collect runs one collective, from the exchange of headers to the result.
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
		return g.shareLater(ctx)
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

// shareAfter is the number of small collectives after which a group without a large one sets up shared memory: a group
// that lives for a few calls does without it.
const shareAfter = 4

// shareLater counts a small collective, which all ranks have agreed on, and sets up shared memory after shareAfter.
func (g *Group) shareLater(ctx context.Context) error {
	if !g.unshared {
		return nil
	}
	if g.inlined++; g.inlined < shareAfter {
		return nil
	}
	g.unshared = false
	return g.share(ctx)
}
