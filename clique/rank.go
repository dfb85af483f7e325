package clique

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/nccl"
)

// Ticket identifies one round of tasks of a clique. One task on the worker of each rank gets the same ticket and calls
// Join with it. It is text, so that tasks in Go and Python can take it as an argument. Rounds with different tickets
// are independent, in whatever order the workers run them.
type Ticket string

// parse splits a ticket into the clique's id and the number of the round.
func (t Ticket) parse() (id string, round uint32, err error) {
	i := strings.LastIndexByte(string(t), '.')
	if i >= 0 {
		n, err := strconv.ParseUint(string(t[i+1:]), 16, 32)
		if id = string(t[:i]); err == nil && checkID(id) == nil {
			return id, uint32(n), nil
		}
	}
	return "", 0, fmt.Errorf("clique: invalid ticket %.100q; use the result of Clique.Ticket", string(t))
}

func newTicket(id string, round uint32) Ticket {
	return Ticket(id + "." + strconv.FormatUint(uint64(round), 16))
}

// Rank is the handle of a task to its clique. All ranks call the same collectives in the same order; calls of several
// goroutines of one rank run one after the other.
type Rank struct {
	s *session // nil in a sub-clique
	g *collective.Group
	d *devices
	// carrier is the carrier of g, which owns it.
	carrier collective.Carrier
	names   []string
	leave   sync.Once
}

// Join joins the clique of a ticket. ctx must be the context of a task that runs on a worker of the clique. Join does
// not wait for the other ranks; collectives do. The caller closes the Rank, or aborts it if the task cannot continue;
// Do does both.
//
// A task that has joined no longer occupies one of the worker's threads (see task.Secede), because it waits for tasks
// on other workers, which may be queued. A ticket allows one Join on each worker.
func Join(ctx context.Context, t Ticket) (*Rank, error) {
	id, round, err := t.parse()
	if err != nil {
		return nil, err
	}
	h, err := hubOf(ctx)
	if err != nil {
		return nil, err
	}
	s, err := h.session(id)
	if err != nil {
		return nil, err
	}
	g, names, err := s.join(round)
	if err != nil {
		return nil, err
	}
	r := &Rank{s: s, g: g, d: s.engine.Devices(), carrier: g.Carrier(), names: names}
	if err := task.Secede(ctx); err != nil && !errors.Is(err, task.ErrOutside) {
		r.Abort(err)
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Do joins the clique, calls f and closes the Rank. If f fails or panics, the clique ends, and the other ranks get an
// error that names this one.
func Do(ctx context.Context, t Ticket, f func(r *Rank) error) error {
	r, err := Join(ctx, t)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			r.Abort(errors.New("the function panicked"))
		}
		_ = r.Close()
	}()
	err = f(r)
	done = true
	if err != nil {
		r.Abort(err)
	}
	return err
}

// join returns the group of a round.
func (s *session) join(round uint32) (*collective.Group, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("%w: clique %s was dissolved", ErrUnknown, s.id)
	case s.engine == nil:
		return nil, nil, fmt.Errorf("clique %s: worker %s is not yet connected to the other ranks", s.id,
			s.hub.host.Worker)
	case s.engine.Err() != nil:
		return nil, nil, s.engine.Err()
	case !s.used.take(round):
		return nil, nil, fmt.Errorf("clique %s: ticket already used on worker %s; create a ticket for each round of "+
			"tasks (Clique.Ticket)", s.id, s.hub.host.Worker)
	}
	g, err := s.engine.Dup(uint64(round))
	if err != nil {
		return nil, nil, err
	}
	s.joined++
	names := make([]string, len(s.roster.Ranks))
	for i, r := range s.roster.Ranks {
		names[i] = r.Worker
	}
	return g, names, nil
}

func (s *session) leave() {
	s.mu.Lock()
	s.joined--
	s.mu.Unlock()
	s.touch()
}

// rounds is a set of numbers that are mostly added in order.
type rounds struct {
	below uint32 // all smaller numbers are in the set
	more  map[uint32]struct{}
}

// take adds a number and reports whether it was new.
func (r *rounds) take(n uint32) bool {
	if _, ok := r.more[n]; ok || n < r.below {
		return false
	}
	if r.more == nil {
		r.more = map[uint32]struct{}{}
	}
	r.more[n] = struct{}{}
	for {
		if _, ok := r.more[r.below]; !ok {
			return true
		}
		delete(r.more, r.below)
		r.below++
	}
}

// Rank returns the number of this rank, 0 to Size-1.
func (r *Rank) Rank() int { return r.g.Rank() }

// Size returns the number of ranks.
func (r *Rank) Size() int { return r.g.Size() }

// Backend returns the name of the backend for host memory, such as "ucx", "tcp" or "shm+tcp".
func (r *Rank) Backend() string { return r.g.Backend() }

// Device returns the ordinal of the GPU of this rank in this process, -1 without one.
func (r *Rank) Device() int { return r.d.ordinal }

// DeviceBackend returns the backend for GPU memory; see Clique.Devices.
func (r *Rank) DeviceBackend() Backend { return r.d.by }

// NCCL returns the NCCL communicator of this round or sub-clique and the stream that orders its collectives, for
// operations that only NCCL has. NCCL is a collective. The clique owns both: do not close them, and interleave own
// calls with those of the clique in the same order on all ranks. NCCL returns an error if the clique does not use NCCL
// (see Clique.Devices).
func (r *Rank) NCCL(ctx context.Context) (*nccl.Comm, *cuda.Stream, error) {
	if r.d.by != NCCL {
		return nil, nil, fmt.Errorf("clique: device memory uses backend %q, not NCCL; form the clique with "+
			"Backend nccl", r.d.by)
	}
	// An empty call, which waits for its turn like any other, leases the communicator.
	if err := r.g.Do(ctx, collective.Call{Code: collective.Broadcast, Kind: collective.Uint8,
		OnDevice: true}); err != nil {
		return nil, nil, err
	}
	c := r.carrier.(*ncclCarrier).lease.Load()
	return c.c, c.stream, nil
}

// Flush waits for all operations that this rank has started on its GPU: results are complete, and code that does not
// wait for ready events may overwrite or free the memory that was sent.
func (r *Rank) Flush(ctx context.Context) error { return r.g.Flush(ctx) }

// Worker returns the address of the worker of a rank, "" if there is no such rank.
func (r *Rank) Worker(rank int) string {
	if rank < 0 || rank >= len(r.names) {
		return ""
	}
	return r.names[rank]
}

// Done returns a channel that is closed when the clique has failed or the rank was closed; Err returns the reason.
func (r *Rank) Done() <-chan struct{} { return r.g.Done() }

// Err returns nil while the clique is usable, then a *RankError or ErrClosed.
func (r *Rank) Err() error { return r.g.Err() }

// Abort ends the clique, in this round and all others, on every rank: their operations return an error that names this
// rank and contains the text of err. See Clique.Reform.
func (r *Rank) Abort(err error) {
	if r.s == nil {
		r.g.Abort(err)
		return
	}
	r.s.mu.Lock()
	e := r.s.engine
	r.s.mu.Unlock()
	e.Abort(err)
}

// Close ends the part of this task. The clique remains usable. Close may be called twice.
func (r *Rank) Close() error {
	var err error
	r.leave.Do(func() {
		err = r.g.Close()
		if r.s != nil {
			r.s.leave()
		}
	})
	return err
}

// Split forms sub-cliques: ranks with the same color are in one, ordered by key and then by rank. With a negative color
// it returns nil. Split is a collective. A sub-clique has its own order of calls and fails with the clique. Close it
// before the clique.
func (r *Rank) Split(ctx context.Context, color, key int) (*Rank, error) {
	mine := []int64{int64(color), int64(key)}
	all := make([]int64, 2*r.Size())
	if err := r.Do(ctx, AllGather(Of(mine), Of(all))); err != nil {
		return nil, err
	}
	g, err := r.g.Split(ctx, color, key)
	if g == nil || err != nil {
		return nil, err
	}
	r.d.setCarrier(g, true)
	return &Rank{g: g, d: r.d, carrier: g.Carrier(), names: splitNames(r.names, all, color)}, nil
}
