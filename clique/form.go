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

// Backend specifies how a clique moves data.
type Backend string

// Backends.
const (
	// Auto selects UCX if every rank has it and its data may reach all other ranks, else Comm. UCX does not encrypt:
	// its data stays on one machine unless the workers were started with --data-connections=trusted. Device memory
	// uses NCCL if every rank has it and a separate GPU, else the backend of host memory.
	Auto Backend = ""
	// NCCL is used for device memory. Host memory uses the backend of Auto.
	NCCL Backend = "nccl"
	// UCX uses shared memory on one host, and the fastest available network between hosts.
	UCX Backend = "ucx"
	// Comm uses connections like those of the workers: tcp, tls or inproc.
	Comm Backend = "comm"
)

// Defaults of Options.
const (
	defaultTimeout = 30 * time.Second
	defaultIdle    = time.Hour
)

// Options configure Form. The zero value selects all workers.
type Options struct {
	// Workers are the addresses or names of the workers that become ranks (default: all workers of the cluster).
	Workers []string
	// Name is a readable prefix of the ID.
	Name string
	// Backend specifies how data moves (default Auto).
	Backend Backend
	// Deterministic makes every reduction proceed from rank 0 upward, so that results are bitwise equal on all
	// backends.
	Deterministic bool
	// Timeout bounds Form (default 30 s). An earlier deadline of the context applies.
	Timeout time.Duration
	// Idle is how long workers keep a clique that no task has joined (default 1 h), so that the cliques of a client
	// that crashed are removed.
	Idle time.Duration
}

// Clique is the client's handle to a set of workers that run collectives; tasks on these workers use a Rank. It is safe
// for concurrent use.
type Clique struct {
	c       *client.Client
	opts    Options
	id      string
	members []Member
	backend string
	devices string // backend for device memory
	why     string // reason for that choice
	tickets atomic.Uint32

	mu        sync.Mutex // owns dissolved
	dissolved bool
}

// Form forms a clique of workers of a running cluster with a Millstream or a Dask scheduler. Ranks are ordered by host,
// then GPU, then address. Form returns when all ranks are connected to each other. If it fails, no worker keeps a part
// of the clique, and the error names the worker.
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
		// NCCL is available, but failed on some rank, for example because ranks cannot reach each other.
		if plain, _, again := formOver(ctx, c, opts, got.host, got.host, workers); again == nil {
			plain.why = fmt.Sprintf("NCCL is on every rank, but failed there (%s)", reasons(failed.Workers))
			return plain, nil
		}
	}
	if (opts.Backend == Auto || opts.Backend == NCCL) && got.host == UCX && ctx.Err() == nil {
		// UCX is available, but ranks cannot reach each other: different UCX releases, containers that share nothing,
		// separate networks.
		if plain, _, again := formOver(ctx, c, opts, opts.Backend, Comm, workers); again == nil {
			return plain, nil
		}
	}
	return q, err
}

// carriers are the backends for host and for device memory.
type carriers struct{ host, devices Backend }

// resolve converts addresses and names to addresses.
func resolve(ctx context.Context, c *client.Client, wanted []string) ([]string, error) {
	known, err := c.Workers(ctx)
	if err != nil {
		return nil, fmt.Errorf("clique: list workers: %w", err)
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
				return nil, fmt.Errorf("%w: %q; the cluster has %s", ErrNoWorker, w,
					abbreviate(slices.Collect(sorted(known))))
			}
		}
		if slices.Contains(out, address) {
			return nil, fmt.Errorf("clique: worker %s is listed twice; a worker has one rank", address)
		}
		out = append(out, address)
	}
	if len(wanted) == 0 {
		out = slices.Collect(sorted(known))
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("%w: the cluster has no workers yet; call Client.WaitForWorkers", ErrNoWorker)
	case len(out) > maxRanks:
		return nil, fmt.Errorf("clique: %d workers exceed the maximum of %d ranks", len(out), maxRanks)
	}
	return out, nil
}

// abbreviate joins at most eight names.
func abbreviate(names []string) string {
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

// form forms a clique with one backend, or chooses one. It returns the backends that it used.
func form(ctx context.Context, c *client.Client, opts Options, wanted Backend, workers []string) (*Clique, carriers,
	error) {
	host := wanted
	if wanted == NCCL {
		host = Auto
	}
	return formOver(ctx, c, opts, wanted, host, workers)
}

// formOver is form with a separate choice of the backend for host memory.
func formOver(ctx context.Context, c *client.Client, opts Options, wanted, host Backend, workers []string) (*Clique,
	carriers, error) {
	id, got := newID(opts.Name), carriers{host: host}
	deadline, _ := ctx.Deadline()
	in := prepareRequest{ID: id, Keep: time.Until(deadline), UCX: host != Comm, Backend: wanted}
	answers, err := request[prepared](ctx, c, prepareFn, in, workers)
	if err != nil {
		undo(c, id, workers)
		return nil, got, fmt.Errorf("clique: %w; every rank must be a Millstream worker whose program imports clique",
			err)
	}
	ranks := make([]prepared, 0, len(workers))
	for _, w := range workers {
		a, ok := answers[w]
		if !ok {
			undo(c, id, workers)
			return nil, got, &FormError{id, map[string]string{w: "no reply from the worker"}}
		}
		a.Worker = w // the address that the scheduler uses
		ranks = append(ranks, a)
	}
	roster := formRequest{ID: id, Name: opts.Name, Deterministic: opts.Deterministic, Timeout: time.Until(deadline),
		Idle: opts.Idle, Ranks: ranks}
	got, why, err := roster.complete(wanted, host)
	if err != nil {
		undo(c, id, workers)
		return nil, got, fmt.Errorf("clique: %w", err)
	}
	ranks = roster.Ranks
	done, err := request[formed](ctx, c, formFn, roster, workers)
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
			d.Error = "no reply from the worker"
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

// complete chooses the backends of a roster and orders its ranks. why is the reason for the backend of device memory.
func (f *formRequest) complete(wanted, host Backend) (got carriers, why string, err error) {
	got.host = host
	if got.host, err = choose(host, f.Ranks); err != nil {
		return got, "", err
	}
	if got.devices, why, err = chooseDevices(wanted, got.host, f.Deterministic, f.Ranks); err != nil {
		return got, "", err
	}
	f.Backend, f.Devices, f.Ranks = string(got.host), string(got.devices), sortRanks(f.Ranks)
	return got, why, nil
}

// sortRanks orders and numbers the ranks.
func sortRanks(ranks []prepared) []prepared {
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

// choose returns the backend for host memory.
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
			why = "the worker sent no UCX address"
		}
		if why == "" && apart && !r.Trusted {
			why = "the ranks are on several machines, and UCX data leaves a machine only if every worker was " +
				"started with " +
				"--data-connections=trusted"
		}
		if why == "" && namespaces && !r.Trusted {
			why = "the ranks are in several network namespaces, and UCX listens on the loopback interface only " +
				"(--data-connections=trusted on every worker)"
		}
		if why != "" {
			if wanted == UCX {
				return "", fmt.Errorf("UCX is not available on worker %s: %s", r.Worker, why)
			}
			return Comm, nil
		}
	}
	return UCX, nil
}

// undoTime bounds how long undo tries to reach workers. The others remove the clique themselves after
// prepareRequest.Keep.
const undoTime = 5 * time.Second

func undo(c *client.Client, id string, workers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), undoTime)
	defer cancel()
	_, _ = each(ctx, c, dissolveFn, id, workers)
}

// each calls f on every worker separately and concurrently, so that a worker that does not reply delays the others only
// until ctx ends. It returns the replies, and the errors of the other workers.
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
			a, err := request[stateReply](ctx, c, f, idRequest{id}, []string{w})
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
