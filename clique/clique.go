package clique

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/client"
)

// ID returns the identifier of the clique in the cluster.
func (q *Clique) ID() string { return q.id }

// Client returns the client that formed the clique.
func (q *Clique) Client() *client.Client { return q.c }

// Size returns the number of ranks.
func (q *Clique) Size() int { return len(q.members) }

// Members returns the ranks in order.
func (q *Clique) Members() []Member { return slices.Clone(q.members) }

// Workers returns the addresses of the workers in the order of ranks.
func (q *Clique) Workers() []string {
	out := make([]string, len(q.members))
	for i, m := range q.members {
		out[i] = m.Worker
	}
	return out
}

// Backend returns the name of the backend for host memory, such as "ucx", "tcp" or "shm+tcp".
func (q *Clique) Backend() string { return q.backend }

// Devices returns the backend for GPU memory, "nccl", "ucx" or "comm", and the reason for the choice, such as the
// worker that lacks a requirement of NCCL.
func (q *Clique) Devices() (backend Backend, why string) { return Backend(q.devices), q.why }

// Ticket returns the ticket of a new round of tasks; see Join. Fn.Submit and Fn.Run call it themselves.
func (q *Clique) Ticket() Ticket { return newTicket(q.id, q.tickets.Add(1)-1) }

// String returns the ID, the size and the backend of the clique.
func (q *Clique) String() string {
	return fmt.Sprintf("clique %s of %d ranks over %s", q.id, len(q.members), q.backend)
}

// Dissolve ends the clique: its workers close their connections and remove it. Tasks that have joined it get an error.
// Workers that have left the cluster are ignored. Dissolve may be called twice.
func (q *Clique) Dissolve(ctx context.Context) error {
	q.mu.Lock()
	before := q.dissolved
	q.dissolved = true
	q.mu.Unlock()
	if before {
		return nil
	}
	here, _, err := q.split(ctx)
	if err != nil {
		return err
	}
	_, failed := each(ctx, q.c, dissolveFn, q.id, here)
	var errs []error
	for w := range sorted(failed) {
		errs = append(errs, fmt.Errorf("clique %s: dissolve at %s: %w", q.id, w, failed[w]))
	}
	return errors.Join(errs...)
}

// split divides the workers into those that are in the cluster and those that have left it.
func (q *Clique) split(ctx context.Context) (here, gone []string, err error) {
	known, err := q.c.Workers(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("clique %s: list workers: %w", q.id, err)
	}
	for _, m := range q.members {
		if _, ok := known[m.Worker]; ok {
			here = append(here, m.Worker)
		} else {
			gone = append(gone, m.Worker)
		}
	}
	return here, gone, nil
}

// Sub forms another clique of the given ranks, which are numbers of this clique. The two are independent. Tasks that
// have joined can form sub-cliques without the client: see Rank.Split.
func (q *Clique) Sub(ctx context.Context, ranks ...int) (*Clique, error) {
	opts := q.opts
	opts.Workers = nil
	for _, r := range ranks {
		if r < 0 || r >= q.Size() {
			return nil, fmt.Errorf("clique %s: no rank %d: ranks are 0 to %d", q.id, r, q.Size()-1)
		}
		opts.Workers = append(opts.Workers, q.members[r].Worker)
	}
	if len(opts.Workers) == 0 {
		return nil, fmt.Errorf("clique %s: a sub-clique needs at least one rank", q.id)
	}
	return Form(ctx, q.c, opts)
}
