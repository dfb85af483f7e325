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

// Ticket admits one round of tasks to a clique: one task on each rank's worker gets the same
// ticket and calls Join with it. It is text, and so an argument for tasks of Go and Python.
// Rounds with different tickets do not disturb each other, whichever runs first on which
// worker.
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
	return "", 0, fmt.Errorf("clique: %.100q is no ticket: use what Clique.Ticket returns", string(t))
}

func newTicket(id string, round uint32) Ticket {
	return Ticket(id + "." + strconv.FormatUint(uint64(round), 16))
}

// Rank is a task's part in a clique. All ranks call the same collectives in the same order; calls of several goroutines
// of one rank take turns.
type Rank struct {
	s *session // nil for a sub-clique's
	g *collective.Group
	d *devices
	// carrier is the one that g owns.
	carrier collective.Carrier
	names   []string
	leave   sync.Once
}

// Join is the task's part in the clique that the ticket is for, in a task whose context it is,
// on a worker of the clique. The others may come later: collectives wait for them. Close it in
// the end, or Abort it if the task cannot go on; Do does both.
//
// A task that has joined no longer takes one of its worker's threads (see task.Secede): it
// waits for tasks on other workers, which may wait behind others. A ticket is good for one
// Join on each worker.
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

// Do joins, calls f and leaves. If f fails or panics, the clique ends: the other ranks get an
// error that names this one, in place of waiting for it for ever.
func Do(ctx context.Context, t Ticket, f func(r *Rank) error) error {
	r, err := Join(ctx, t)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			r.Abort(errors.New("its function panicked"))
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

// join opens the lane of a round.
func (s *session) join(round uint32) (*collective.Group, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, fmt.Errorf("%w: %s was dissolved", ErrUnknown, s.id)
	case s.engine == nil:
		return nil, nil, fmt.Errorf("clique %s: worker %s is still being connected with the other ranks", s.id,
			s.hub.host.Worker)
	case s.engine.Err() != nil:
		return nil, nil, s.engine.Err()
	case !s.used.take(round):
		return nil, nil, fmt.Errorf("clique %s: a task of worker %s has joined with this ticket before: each round "+
			"of tasks needs a ticket of its own (Clique.Ticket)", s.id, s.hub.host.Worker)
	}
	g, err := s.engine.Lane(uint64(round))
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

func (s *session) left() {
	s.mu.Lock()
	s.joined--
	s.mu.Unlock()
	s.touch()
}

// rounds is a set of numbers that are mostly taken in their order.
type rounds struct {
	below uint32 // all smaller ones are taken
	more  map[uint32]struct{}
}

// take adds a number, and reports whether it is new.
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

// Rank is this task's number, 0 … Size-1.
func (r *Rank) Rank() int { return r.g.Rank() }

// Size is the number of ranks.
func (r *Rank) Size() int { return r.g.Size() }

// Backend is what carries the data, such as "ucx", "tcp" or "shm+tcp".
func (r *Rank) Backend() string { return r.g.Backend() }

// Device is the ordinal of the GPU of this rank in this process, -1 without one.
func (r *Rank) Device() int { return r.d.ordinal }

// DeviceBackend is what carries the memory of GPUs: see Clique.Devices.
func (r *Rank) DeviceBackend() Backend { return r.d.by }

// NCCL is the communicator of this round, or sub-clique, and the stream that its collectives are
// ordered by, for what only NCCL has. It is a collective. Both are the clique's: close nothing,
// and mix calls of one's own with the clique's in the same order on all ranks. Without NCCL
// (see Clique.Devices) it is an error.
func (r *Rank) NCCL(ctx context.Context) (*nccl.Comm, *cuda.Stream, error) {
	if r.d.by != NCCL {
		return nil, nil, fmt.Errorf("clique: device memory goes by %q here, not by NCCL: form the clique with "+
			"Backend nccl", r.d.by)
	}
	// A call of nothing, in its turn, finds the communicator.
	if err := r.g.Do(ctx, collective.Call{Code: collective.Broadcast, Kind: collective.Uint8,
		OnDevice: true}); err != nil {
		return nil, nil, err
	}
	c := r.carrier.(*ncclCarrier).lease.Load()
	return c.c, c.stream, nil
}

// Flush returns when everything that this rank has begun on its GPU is done: results are there,
// and what was sent may be written or freed by who does not look at events.
func (r *Rank) Flush(ctx context.Context) error { return r.g.Flush(ctx) }

// Worker is the address of a rank's worker.
func (r *Rank) Worker(rank int) string {
	if rank < 0 || rank >= len(r.names) {
		return ""
	}
	return r.names[rank]
}

// Done is closed when the clique has failed or the rank was closed; Err says why.
func (r *Rank) Done() <-chan struct{} { return r.g.Done() }

// Err is nil while the clique works; then a *RankError, or ErrClosed.
func (r *Rank) Err() error { return r.g.Err() }

// Abort ends the clique, this round and all others, on every rank: their operations return an
// error that names this rank and has err's text. See Clique.Reform.
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

// Close leaves: the task has done its part. The clique lives on. It is idempotent.
func (r *Rank) Close() error {
	var err error
	r.leave.Do(func() {
		err = r.g.Close()
		if r.s != nil {
			r.s.left()
		}
	})
	return err
}

// Split makes sub-cliques: ranks that give the same color are in one, ordered by key and then
// by their rank here. A negative color gives nil: no part in any. It is a collective. A
// sub-clique has an order of calls of its own, and fails with the clique; close it before it.
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
	r.d.equip(g, true)
	return &Rank{g: g, d: r.d, carrier: g.Carrier(), names: splitNames(r.names, all, color)}, nil
}
