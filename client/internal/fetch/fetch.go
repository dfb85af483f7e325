// Package fetch fetches results of tasks: from the workers that have them, over data connections if these pay off, and
// through the scheduler if workers cannot be reached.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// Bounds of a request for results.
const (
	fetchKeys    = 16384 // keys in one request
	fetchWorkers = 16    // workers with a request in flight
)

// workerDial is the timeout for dialing a worker before its results are fetched elsewhere.
const workerDial = 2 * time.Second

// Config configures a Fetcher. All fields are required.
type Config struct {
	// Network opens the comms; Dial configures them.
	Network comm.Network
	Dial    comm.DialConfig
	// NoDirect fetches all results through the scheduler.
	NoDirect bool
	// Link is the connection to the scheduler.
	Link *link.Link
	// Tracker has the locations of results.
	Tracker *tracker.Tracker
	// Log receives failures of workers.
	Log *slog.Logger
}

// Fetcher fetches results and owns the connections to workers. It is safe for concurrent use.
type Fetcher struct {
	cfg       Config
	workers   *rpc.Pool // short retries: a worker that refuses connections has ended
	dataConns *dataConns
	memory    peermem.Peers // workers on this machine
}

// New returns a fetcher.
func New(cfg Config) *Fetcher {
	dial := cfg.Dial.To(secure.Worker)
	if dial.Timeout <= 0 || dial.Timeout > workerDial {
		dial.Timeout = workerDial
	}
	f := &Fetcher{cfg: cfg, workers: rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: dial})}
	f.dataConns = newDataConns(cfg.Network, dial, f.workers)
	return f
}

// Close closes the connections.
func (f *Fetcher) Close() error { return errors.Join(f.dataConns.book.Close(), f.workers.Close()) }

// Call sends a request to a worker.
func (f *Fetcher) Call(ctx context.Context, worker, op string, args, reply any) error {
	ctx, stop := f.cfg.Link.Within(ctx)
	defer stop()
	return f.workers.Call(ctx, worker, op, args, reply)
}

// Locate returns the address of a worker that has the result of a key. The task of the key has ended.
func (f *Fetcher) Locate(ctx context.Context, s *tracker.State) (string, error) {
	for range 2 {
		if address := f.cfg.Tracker.Place(s); address != "" {
			return address, nil
		}
		if err := f.locate(ctx, []*tracker.State{s}, []int{0}); err != nil {
			return "", err
		}
	}
	return "", tracker.NewCanceledError(s.Key(), tracker.ErrLostData)
}

// Fetch waits for keys and passes each result to sink, from several goroutines but one call at a time for each index.
func (f *Fetcher) Fetch(ctx context.Context, keys []*tracker.State, sink func(i int, v Value) error) error {
	left := make([]int, len(keys))
	for i := range left {
		left[i] = i
	}
	for round := 0; ; round++ {
		if err := f.cfg.Tracker.Wait(ctx, keys, true); err != nil {
			return err
		}
		var err error
		left, err = f.cfg.Tracker.Values(keys, left, func(i int, raw []byte) error {
			if err := sink(i, Value{raw: raw}); err != nil {
				return fmt.Errorf("result of %s: %w", keys[i].Key(), err)
			}
			return nil
		})
		if err != nil || len(left) == 0 {
			return err
		}
		missing := left
		if !f.cfg.NoDirect {
			missing, err = f.fetchOnce(ctx, keys, left, sink)
		}
		if err != nil || len(missing) == 0 {
			return err
		}
		if moved := f.cfg.Tracker.ForgetPlaces(keys, missing); moved && !f.cfg.NoDirect { // locate them again
			if missing, err = f.fetchOnce(ctx, keys, missing, sink); err != nil || len(missing) == 0 {
				return err
			}
			f.cfg.Tracker.ForgetPlaces(keys, missing)
		}
		if left, err = f.throughScheduler(ctx, keys, missing, sink); err != nil || len(left) == 0 {
			return err
		}
		// No worker has them: the scheduler reports when they exist again.
		f.cfg.Tracker.Recheck(keys, left)
		select {
		case <-time.After(min(10*time.Millisecond<<min(round, 7), time.Second)/2 + rand.N(5*time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fetchOnce requests results from the workers that have them. It returns the indices of those that no worker returned.
func (f *Fetcher) fetchOnce(ctx context.Context, keys []*tracker.State, which []int,
	sink func(int, Value) error) (missing []int, err error) {
	byWorker, unknown := f.cfg.Tracker.ByWorker(keys, which)
	if len(unknown) > 0 {
		if err := f.locate(ctx, keys, unknown); err != nil {
			return nil, err
		}
		more, nowhere := f.cfg.Tracker.ByWorker(keys, unknown)
		for a, is := range more {
			byWorker[a] = append(byWorker[a], is...)
		}
		missing = nowhere
	}
	type request struct {
		address string
		which   []int
	}
	var requests []request
	for a, is := range byWorker {
		for len(is) > 0 {
			n := min(len(is), fetchKeys)
			requests = append(requests, request{a, is[:n]})
			is = is[n:]
		}
	}
	if len(requests) == 1 {
		m, err := f.getData(ctx, requests[0].address, keys, requests[0].which, sink)
		return append(missing, m...), err
	}
	var mu sync.Mutex // owns missing and err
	var wg sync.WaitGroup
	slots := make(chan struct{}, fetchWorkers)
	for _, r := range requests {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m, e := f.getData(ctx, r.address, keys, r.which, sink)
			mu.Lock()
			defer mu.Unlock()
			missing = append(missing, m...)
			if err == nil {
				err = e
			}
		})
	}
	wg.Wait()
	return missing, err
}

// locate requests the locations of results from the scheduler.
func (f *Fetcher) locate(ctx context.Context, keys []*tracker.State, which []int) error {
	m, err := f.cfg.Link.Do(ctx, "who_has", keysRequest("who_has", keys, which, nil))
	if err != nil {
		return err
	}
	defer m.Release()
	return f.cfg.Tracker.SetPlaces(m.Body())
}

// keysRequest returns a request about keys, as a message, with a request for memory unless that is nil.
func keysRequest(op string, keys []*tracker.State, which []int, memory *peermem.Request) *wire.Message {
	n := 192
	for _, i := range which {
		n += len(keys[i].Key())
	}
	b := msgpack.AppendMapHeader(make([]byte, 0, n), 3+memory.Fields())
	b = msgpack.AppendString(msgpack.AppendString(b, "op"), op)
	b = msgpack.AppendString(b, "reply")
	b = msgpack.AppendBool(b, true)
	b = memory.Append(b)
	b = msgpack.AppendString(b, "keys")
	b = msgpack.AppendArrayHeader(b, len(which))
	for _, i := range which {
		b = append(b, keys[i].Key()...)
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
}

// throughScheduler requests results from the scheduler that no worker returned: the client may be unable to reach the
// workers.
func (f *Fetcher) throughScheduler(ctx context.Context, keys []*tracker.State, which []int,
	sink func(int, Value) error) (missing []int, err error) {
	for len(which) > 0 {
		n := min(len(which), fetchKeys)
		m, err := f.cfg.Link.Do(ctx, "gather", keysRequest("gather", keys, which[:n], nil))
		if err != nil {
			return nil, err
		}
		left, err := takeData(m, keys, which[:n], sink)
		m.Release()
		if err != nil {
			return nil, err
		}
		missing = append(missing, left...)
		which = which[n:]
	}
	return missing, nil
}
