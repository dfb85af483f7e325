package clique

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.millstream.dev/client"
)

// ID names the clique in the cluster.
func (q *Clique) ID() string { return q.id }

// Client is the one that it was formed with.
func (q *Clique) Client() *client.Client { return q.c }

// Size is the number of ranks.
func (q *Clique) Size() int { return len(q.members) }

// Members are the ranks, in their order.
func (q *Clique) Members() []Member { return slices.Clone(q.members) }

// Workers are the addresses of the ranks' workers, in the order of ranks.
func (q *Clique) Workers() []string {
	out := make([]string, len(q.members))
	for i, m := range q.members {
		out[i] = m.Worker
	}
	return out
}

// Backend is what carries the data, such as "ucx", "tcp" or "shm+tcp".
func (q *Clique) Backend() string { return q.backend }

// Devices is what carries the memory of GPUs, "nccl", "ucx" or "comm", and why that, in words:
// which worker lacks what NCCL needs.
func (q *Clique) Devices() (backend Backend, why string) { return Backend(q.devices), q.why }

// Ticket admits one more round of tasks: see Join. Fn.Submit and Fn.Run take one themselves.
func (q *Clique) Ticket() Ticket { return newTicket(q.id, q.tickets.Add(1)-1) }

// String names the clique and its size.
func (q *Clique) String() string {
	return fmt.Sprintf("clique %s of %d ranks over %s", q.id, len(q.members), q.backend)
}

// Dissolve ends the clique: workers close its connections and forget it. Tasks that still have
// a part in it get an error. It is idempotent, and no error if some workers are gone.
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

// split divides the workers into those that the cluster has and those that are gone.
func (q *Clique) split(ctx context.Context) (here, gone []string, err error) {
	known, err := q.c.Workers(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("clique %s: the workers of the cluster: %w", q.id, err)
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

// Sub forms another clique of some of the ranks, named by their numbers here. Both live beside
// each other. Ranks that work together already can make sub-cliques without the client: see
// Rank.Split.
func (q *Clique) Sub(ctx context.Context, ranks ...int) (*Clique, error) {
	opts := q.opts
	opts.Workers = nil
	for _, r := range ranks {
		if r < 0 || r >= q.Size() {
			return nil, fmt.Errorf("clique %s: rank %d: the clique has %d ranks, from 0", q.id, r, q.Size())
		}
		opts.Workers = append(opts.Workers, q.members[r].Worker)
	}
	if len(opts.Workers) == 0 {
		return nil, fmt.Errorf("clique %s: a sub-clique of no ranks", q.id)
	}
	return Form(ctx, q.c, opts)
}
