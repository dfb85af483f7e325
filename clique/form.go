package clique

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/client"
)

// Backend is what carries the data of a clique.
type Backend string

// The backends.
const (
	// Auto is UCX if every rank has it and its lanes may go to all others, else Comm. A lane is
	// not encrypted: it stays on one machine unless the workers were started with
	// --lanes=trusted. Device memory goes by NCCL if every rank has it and a GPU of its own,
	// else as host memory does.
	Auto Backend = ""
	// NCCL carries device memory. Host memory goes as with Auto.
	NCCL Backend = "nccl"
	// UCX is shared memory on one host, and the best network that there is between hosts.
	UCX Backend = "ucx"
	// Comm is connections like those of the workers: tcp, tls or inproc.
	Comm Backend = "comm"
)

// Defaults of Options.
const (
	defaultTimeout = 30 * time.Second
	defaultIdle    = time.Hour
)

// Options say how a clique is formed. The zero value is useful: all workers.
type Options struct {
	// Workers are the ranks, by address or name; none: all workers of the cluster.
	Workers []string
	// Name is for people: it stands in front of the id.
	Name string
	// Backend is what carries the data (default Auto).
	Backend Backend
	// Deterministic makes every reduction go from rank 0 upwards, so that results have the same
	// bits on each backend.
	Deterministic bool
	// Timeout bounds the forming (default 30 s); a context that ends sooner wins.
	Timeout time.Duration
	// Idle is how long a clique that no task has a part in is kept by its workers (default
	// an hour): that of a client that died is not kept for ever.
	Idle time.Duration
}

// Clique is a set of workers that work together: who formed it has this, its workers have a
// Rank. It can be used by any number of goroutines.
type Clique struct {
	c       *client.Client
	opts    Options
	id      string
	members []Member
	backend string
	devices string // what carries device memory,
	why     string // and why that
	tickets atomic.Uint32

	mu        sync.Mutex // owns dissolved
	dissolved bool
}

// Form makes a clique of workers of a running cluster, Millstream's or Dask's. Its ranks are
// ordered by host, then GPU, then address. It returns when every rank is connected with every
// other one, or none is left: what fails names the worker.
func Form(ctx context.Context, c *client.Client, opts Options) (*Clique, error) {
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.Idle <= 0 {
		opts.Idle = defaultIdle
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	workers, err := resolve(ctx, c, opts.Workers)
	if err != nil {
		return nil, err
	}
	q, got, err := form(ctx, c, opts, opts.Backend, workers)
	var failed *FormError
	if !errors.As(err, &failed) {
		return q, err
	}
	if opts.Backend == Auto && got.devices == NCCL && ctx.Err() == nil {
		// NCCL was there, but its ranks did not reach each other, or it failed in another way.
		if plain, _, again := formOver(ctx, c, opts, got.host, got.host, workers); again == nil {
			plain.why = fmt.Sprintf("NCCL is on every rank, but failed there (%s)", reasons(failed.Workers))
			return plain, nil
		}
	}
	if (opts.Backend == Auto || opts.Backend == NCCL) && got.host == UCX && ctx.Err() == nil {
		// UCX was there, but its ranks did not reach each other: other releases, containers
		// that share nothing, networks that do not meet.
		if plain, _, again := formOver(ctx, c, opts, opts.Backend, Comm, workers); again == nil {
			return plain, nil
		}
	}
	return q, err
}

// carriers are what carries the two sorts of memory.
type carriers struct{ host, devices Backend }

// resolve makes addresses of addresses and names.
func resolve(ctx context.Context, c *client.Client, wanted []string) ([]string, error) {
	known, err := c.Workers(ctx)
	if err != nil {
		return nil, fmt.Errorf("clique: the workers of the cluster: %w", err)
	}
	byName := make(map[string]string, len(known))
	for address, w := range known {
		byName[w.Name] = address
	}
	var out []string
	for _, w := range wanted {
		address := w
		if _, ok := known[w]; !ok {
			if address, ok = byName[w]; !ok {
				return nil, fmt.Errorf("%w: %q; the cluster has %s", ErrNoWorker, w, few(slices.Collect(sorted(known))))
			}
		}
		if slices.Contains(out, address) {
			return nil, fmt.Errorf("clique: worker %s is named twice: a worker is one rank", address)
		}
		out = append(out, address)
	}
	if len(wanted) == 0 {
		out = slices.Collect(sorted(known))
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("%w: the cluster has none yet (see Client.WaitForWorkers)", ErrNoWorker)
	case len(out) > maxRanks:
		return nil, fmt.Errorf("clique: %d workers: at most %d can be the ranks of a clique", len(out), maxRanks)
	}
	return out, nil
}

// few names the first of many.
func few(names []string) string {
	const n = 8
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > n:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
	}
	return strings.Join(names, ", ")
}

func newID(name string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	if name != "" {
		id = fmt.Sprintf("%.24s-%s", name, id)
	}
	return id
}

// form tries one backend, or chooses one, and tells which they were.
func form(ctx context.Context, c *client.Client, opts Options, wanted Backend, workers []string) (*Clique, carriers,
	error) {
	host := wanted
	if wanted == NCCL {
		host = Auto
	}
	return formOver(ctx, c, opts, wanted, host, workers)
}

// formOver is form with what is wanted for host memory apart. It tells what was chosen.
func formOver(ctx context.Context, c *client.Client, opts Options, wanted, host Backend, workers []string) (*Clique,
	carriers, error) {
	id, got := newID(opts.Name), carriers{host: host}
	deadline, _ := ctx.Deadline()
	request := prepareRequest{ID: id, Keep: time.Until(deadline), UCX: host != Comm, Backend: wanted}
	answers, err := ask[prepared](ctx, c, prepareFn, request, workers)
	if err != nil {
		undo(c, id, workers)
		return nil, got, fmt.Errorf("clique: %w (every rank is a Millstream worker whose program has package clique)",
			err)
	}
	ranks := make([]prepared, 0, len(workers))
	for _, w := range workers {
		a, ok := answers[w]
		if !ok {
			undo(c, id, workers)
			return nil, got, &FormError{id, map[string]string{w: "the worker did not answer"}}
		}
		a.Worker = w // what the scheduler calls it
		ranks = append(ranks, a)
	}
	got.host, err = choose(host, ranks)
	var why string
	if err == nil {
		got.devices, why, err = chooseDevices(wanted, got.host, opts.Deterministic, ranks)
	}
	if err != nil {
		undo(c, id, workers)
		return nil, got, fmt.Errorf("clique: %w", err)
	}
	ranks = ordered(ranks)
	roster := formRequest{ID: id, Name: opts.Name, Backend: string(got.host), Devices: string(got.devices),
		Deterministic: opts.Deterministic,
		Timeout:       time.Until(deadline), Idle: opts.Idle, Ranks: ranks}
	done, err := ask[formed](ctx, c, formFn, roster, workers)
	if err != nil {
		undo(c, id, workers)
		return nil, got, fmt.Errorf("clique: %w", err)
	}
	q := &Clique{c: c, opts: opts, id: id, members: make([]Member, len(ranks)), devices: string(got.devices), why: why}
	failed := map[string]string{}
	for i, r := range ranks {
		q.members[i] = r.Member
		d, ok := done[r.Worker]
		if !ok {
			d.Error = "the worker did not answer"
		}
		if d.Error != "" {
			failed[r.Worker] = d.Error
		}
		q.backend = d.Backend
	}
	if len(failed) > 0 {
		undo(c, id, workers)
		return nil, got, &FormError{id, failed}
	}
	return q, got, nil
}

// ordered numbers the ranks.
func ordered(ranks []prepared) []prepared {
	members := make([]Member, len(ranks))
	by := make(map[string]prepared, len(ranks))
	for i, r := range ranks {
		members[i], by[r.Worker] = r.Member, r
	}
	order(members)
	out := make([]prepared, len(ranks))
	for i, m := range members {
		out[i] = by[m.Worker]
		out[i].Member = m
	}
	return out
}

func onSeveralMachines(ranks []prepared) bool {
	return slices.ContainsFunc(ranks, func(r prepared) bool { return r.Boot == "" || r.Boot != ranks[0].Boot })
}

// choose is the backend for the host memory of ranks.
func choose(wanted Backend, ranks []prepared) (Backend, error) {
	switch wanted {
	case Comm:
		return Comm, nil
	case Auto, UCX:
	default:
		return "", fmt.Errorf("backend %q: want %q, %q, %q or none", wanted, NCCL, UCX, Comm)
	}
	apart := onSeveralMachines(ranks)
	namespaces := slices.ContainsFunc(ranks, func(r prepared) bool { return r.UCX.Home != ranks[0].UCX.Home })
	for _, r := range ranks {
		why := r.NoUCX
		if why == "" && len(r.UCX.Address) == 0 {
			why = "it has no UCX address"
		}
		if why == "" && apart && !r.Trusted {
			why = "the ranks are on several machines, and lanes leave a machine only where they are trusted " +
				"(--lanes=trusted on every worker)"
		}
		if why == "" && namespaces && !r.Trusted {
			why = "the ranks are in several network namespaces, and UCX listens on the loopback interface only " +
				"(--lanes=trusted on every worker)"
		}
		if why != "" {
			if wanted == UCX {
				return "", fmt.Errorf("no UCX at worker %s: %s", r.Worker, why)
			}
			return Comm, nil
		}
	}
	return UCX, nil
}

// undoTime bounds how long workers are told to forget a clique that was not formed. Those that
// cannot be reached forget it by themselves.
const undoTime = 5 * time.Second

func undo(c *client.Client, id string, workers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_, _ = each(ctx, c, dissolveFn, id, workers)
}

// each asks workers one by one, beside each other, so that one that does not answer keeps
// nobody waiting but ctx. It returns what came, and the errors of the others by worker.
func each(ctx context.Context, c *client.Client, f *client.Fn1[string, string], id string,
	workers []string) (map[string]stateReply, map[string]error) {
	var mu sync.Mutex
	out, failed := map[string]stateReply{}, map[string]error{}
	limit := make(chan struct{}, 64)
	var all sync.WaitGroup
	for _, w := range workers {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			a, err := ask[stateReply](ctx, c, f, idRequest{id}, []string{w})
			mu.Lock()
			defer mu.Unlock()
			if r, ok := a[w]; ok && err == nil {
				out[w] = r
			} else {
				failed[w] = errors.Join(err, ctx.Err())
			}
		})
	}
	all.Wait()
	return out, failed
}
