// Package profiles collects the statistical profiles and the call stacks of workers, Go and Python, and the profile of
// the scheduler itself. Replies of workers are bounded, and a worker that does not answer is left out.
package profiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
)

const (
	// maxReply bounds the reply of a worker in bytes, parallel the number of workers that are asked at once.
	maxReply = 16 << 20
	parallel = 16
	// maxReplies bounds the bytes that are kept of all replies to one request.
	maxReplies = 64 << 20
	// patience bounds the reply of one worker, allPatience those of all.
	patience    = 5 * time.Second
	allPatience = 30 * time.Second
)

// Host is the part of the scheduler that Profiles uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	State   *state.State
	Workers *peers.Workers
	// Network and Dial connect to workers.
	Network comm.Network
	Dial    comm.DialConfig
	// Own is the profile of the scheduler.
	Own *profile.Recorder
	// Cycle is the resolution in time of the numbers of samples.
	Cycle time.Duration
}

// Profiles collects profiles and call stacks. Any goroutine may use it.
type Profiles struct {
	Host
	pool     *rpc.Pool
	views    views
	patience time.Duration // patience; tests change it
}

// New returns a Profiles. Its connections are its own, because they bound the replies.
func New(h Host) *Profiles {
	if h.Cycle <= 0 {
		h.Cycle = time.Second
	}
	h.Dial.Limits.Message, h.Dial.Limits.Frames = maxReply, 64
	return &Profiles{Host: h, patience: patience, pool: rpc.NewPool(h.Network, rpc.PoolConfig{Dial: h.Dial,
		Limit: 2 * parallel, Idle: 10 * time.Second})}
}

// Close closes the connections.
func (s *Profiles) Close() error { return s.pool.Close() }

// Register sets the handlers of requests.
func (s *Profiles) Register(r *rpc.Server) {
	rpc.Handle(r, "profile", s.profileRPC)
	rpc.Handle(r, "profile_metadata", s.metadataRPC)
	rpc.Handle(r, "call_stack", s.callStackRPC)
}

// addresses returns the addresses of the named workers, or of all. Unknown names are ignored, as in Dask.
func (s *Profiles) addresses(ctx context.Context, names []any) ([]string, error) {
	return loop.Ask(ctx, s.Loop, func() ([]string, error) {
		var list []string
		seen := map[string]bool{}
		s.Workers.Each(names, func(w *peers.Worker, _ *state.Worker) {
			if !seen[w.Address] {
				seen[w.Address] = true
				list = append(list, w.Address)
			}
		})
		return list, nil
	})
}

// ask sends a request to workers and calls f with the body of each reply, which is valid during the call; the calls of
// f do not overlap. Workers that fail are logged and left out. request returns the request for a worker.
func (s *Profiles) ask(ctx context.Context, op string, workers []string, request func(worker string) msgpack.Map,
	f func(worker string, body []byte) error) {
	ctx, cancel := context.WithTimeout(ctx, allPatience)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, parallel)
	for _, w := range workers {
		slots <- struct{}{} // an earlier call ends within its patience
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.askOne(ctx, op, w, request(w), &mu, f); err != nil {
				s.Log.Warn("profile of worker not available", "op", op, "worker", w, "error", err)
			}
		})
	}
	wg.Wait()
}

func (s *Profiles) askOne(ctx context.Context, op, worker string, request msgpack.Map, mu *sync.Mutex,
	f func(worker string, body []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	request = append(msgpack.MapOf("op", op), append(request, msgpack.Pair{Key: "reply", Value: true})...)
	m, err := s.pool.Do(ctx, worker, op, request)
	if err != nil {
		return err
	}
	defer m.Release()
	body := m.Body()
	if err := failure(body); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return f(worker, body)
}

var errWorker = errors.New("worker replied with an error")

// failure returns an error if a reply is that of a failed handler, or no map.
func failure(body []byte) error {
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		if r.Kind() != msgpack.Str {
			if err = r.Skip(); err == nil {
				err = r.Skip()
			}
			continue
		}
		var name, text []byte
		if name, err = r.ReadName(); err != nil {
			break
		}
		if string(name) != "status" || r.Kind() != msgpack.Str {
			err = r.Skip()
			continue
		}
		if text, err = r.ReadName(); err == nil && string(text) == "uncaught-error" {
			return errWorker
		}
	}
	if err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}
