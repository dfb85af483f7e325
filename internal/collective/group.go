package collective

import "context"

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
// order; calls of several goroutines of one rank take turns. Send, Recv and SendRecv stand beside that.
//
// The context of a collective bounds it on this rank. A collective that one rank has left can never end on the
// others, so when its context ends the whole group is aborted: every rank gets a *RankError that names this one.
type Group struct {
}

// New makes the group of a transport's ranks; every rank calls it, with the same configuration. The group owns
// the transport, also when New fails.
func New(ctx context.Context, t Transport, cfg Config) (*Group, error) { return nil, ErrClosed }

// Rank is this process's number, 0 … Size-1.
func (g *Group) Rank() int { return 0 }

// Size is the number of ranks.
func (g *Group) Size() int { return 0 }

// Backend is what carries the data: the transport's name, with "shm+" in front where the ranks share memory.
func (g *Group) Backend() string { return "" }

// Done is closed when the group has failed or was closed; Err says why.
func (g *Group) Done() <-chan struct{} { return nil }

// Err is nil while the group works; then a *RankError, or ErrClosed.
func (g *Group) Err() error { return nil }

// Abort ends the group on every rank, with an error that names this rank and has err's text. What was under way
// fails. The group must still be closed.
func (g *Group) Abort(err error) {}

// Close leaves the group and frees what it holds. Others that still wait for this rank get an error that
// names it; end with Barrier where that is possible. Sub-groups live on. It is idempotent.
func (g *Group) Close() error { return nil }

// Split makes sub-groups: ranks that give the same colour are in one, ordered by key and then by their rank
// here. A negative colour gives nil: no part in any. It is a collective. Sub-groups use the transport of
// the group and fail with it, but have an order of calls of their own.
func (g *Group) Split(ctx context.Context, colour, key int) (*Group, error) { return nil, ErrClosed }

func (g *Group) do(ctx context.Context, c call) error { return ErrClosed }
func (g *Group) start(ctx context.Context, c call) *Request {
	return background(func() (int, error) { return 0, g.do(ctx, c) })
}
