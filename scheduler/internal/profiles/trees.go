package profiles

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

type profileArgs struct {
	Workers   []any    `rpc:"workers,optional"`
	Scheduler bool     `rpc:"scheduler,optional"`
	Server    bool     `rpc:"server,optional"`
	Merge     *bool    `rpc:"merge_workers"`
	Start     *float64 `rpc:"start"`
	Stop      *float64 `rpc:"stop"`
	Key       *string  `rpc:"key"`
}

// profileRPC serves Dask's profile: the call tree of the tasks of all or some workers, of their own goroutines or
// threads (server), or of the scheduler. Without merge_workers it returns a tree for each worker.
func (s *Profiles) profileRPC(ctx context.Context, _ *rpc.Request, in profileArgs) (any, error) {
	q := profile.Query{Start: in.Start, Stop: in.Stop, Key: in.Key}
	if in.Scheduler {
		var t profile.Tree
		s.Own.AddServerTo(&t, q)
		return t.Encoded(), nil
	}
	workers, err := s.addresses(ctx, in.Workers)
	if err != nil {
		return nil, err
	}
	if in.Merge == nil || *in.Merge {
		t := s.tree(ctx, workers, q, in.Server)
		return t.Encoded(), nil
	}
	trees, size := msgpack.Map{}, 0
	s.ask(ctx, "profile", workers, func(string) msgpack.Map { return request(q, in.Server) },
		func(worker string, body []byte) error {
			var t profile.Tree
			if err := t.Read(body); err != nil {
				return err
			}
			raw := t.Encoded()
			if size += len(raw); size > maxReplies {
				return fmt.Errorf("profiles of all workers exceed %d bytes", maxReplies)
			}
			trees = append(trees, msgpack.Pair{Key: worker, Value: raw})
			return nil
		})
	return trees, nil
}

func request(q profile.Query, server bool) msgpack.Map {
	m := msgpack.MapOf("start", nil, "stop", nil, "key", nil, "server", server)
	if q.Start != nil {
		m.Set("start", *q.Start)
	}
	if q.Stop != nil {
		m.Set("stop", *q.Stop)
	}
	if q.Key != nil {
		m.Set("key", *q.Key)
	}
	return m
}

// tree returns the merged tree of workers.
func (s *Profiles) tree(ctx context.Context, workers []string, q profile.Query, server bool) *profile.Tree {
	var t profile.Tree
	s.ask(ctx, "profile", workers, func(string) msgpack.Map { return request(q, server) },
		func(_ string, body []byte) error { return t.Read(body) })
	return &t
}

// Tree returns a call tree in the form of the dashboard, without functions of less than 0.05 % of the samples. It may
// be some seconds old.
func (s *Profiles) Tree(ctx context.Context, q dashboard.ProfileQuery) (*profile.View, error) {
	if q.Scheduler {
		var t profile.Tree
		s.Own.AddServerTo(&t, q.Query)
		return pruned(&t), nil
	}
	return s.views.get(ctx, nameOf(q), func(ctx context.Context) (*profile.View, error) {
		workers, err := s.addresses(ctx, named(q.Worker))
		if err != nil {
			return nil, err
		}
		return pruned(s.tree(ctx, workers, q.Query, q.Server)), nil
	})
}

func pruned(t *profile.Tree) *profile.View {
	v := t.View()
	v.Prune(v.Count / 2000)
	return v
}

// nameOf returns a name that differs between queries.
func nameOf(q dashboard.ProfileQuery) string {
	name := fmt.Sprintf("%q %t", q.Worker, q.Server)
	for _, at := range []*float64{q.Start, q.Stop} {
		if at != nil {
			name += fmt.Sprint(" ", *at)
		} else {
			name += " -"
		}
	}
	if q.Key != nil {
		name += fmt.Sprintf(" %q", *q.Key)
	}
	return name
}

// named returns the argument of addresses for one worker, or for all.
func named(worker string) []any {
	if worker == "" {
		return nil
	}
	return []any{worker}
}

const (
	// maxCycles and maxPrefixes bound the numbers of samples of one worker, maxKeys the prefixes of all workers
	// together, and maxTimes the points in time.
	maxCycles   = 10_000
	maxPrefixes = 2000
	maxKeys     = 1000
	maxTimes    = 2000
)

// samples are numbers of samples by time, in cycles since 1970.
type samples struct {
	cycle float64 // in seconds
	all   map[int64]int64
	keys  map[string]map[int64]int64
}

// metadataRPC serves the data of Dask's Scheduler.get_profile_metadata: the numbers of samples by time, and by prefix
// and time.
func (s *Profiles) metadataRPC(ctx context.Context, _ *rpc.Request, in struct {
	Workers []any          `rpc:"workers,optional"`
	Start   float64        `rpc:"start,optional"`
	Stop    *float64       `rpc:"stop"`
	Cycle   *time.Duration `rpc:"profile_cycle_interval"`
}) (msgpack.Map, error) {
	cycle := s.Cycle
	if in.Cycle != nil && *in.Cycle > 0 {
		cycle = *in.Cycle
	}
	workers, err := s.addresses(ctx, in.Workers)
	if err != nil {
		return nil, err
	}
	sum := samples{cycle: cycle.Seconds(), all: map[int64]int64{}, keys: map[string]map[int64]int64{}}
	args := msgpack.MapOf("start", in.Start, "stop", nil)
	if in.Stop != nil {
		args.Set("stop", *in.Stop)
	}
	s.ask(ctx, "profile_metadata", workers, func(string) msgpack.Map { return slices.Clone(args) },
		func(_ string, body []byte) error { return sum.read(body) })
	return sum.result(), nil
}

// read adds {"counts": [(time, n), …], "keys": [(time, {prefix: n}), …]} of a worker.
func (s *samples) read(body []byte) error {
	r := msgpack.NewReader(body)
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		var name []byte
		if name, err = r.ReadName(); err != nil {
			break
		}
		switch string(name) {
		case "counts":
			err = s.each(&r, func(at int64) error {
				n, err := r.ReadInt()
				s.count(s.all, at, n)
				return err
			})
		case "keys":
			err = s.each(&r, func(at int64) error { return s.readKeys(&r, at) })
		default:
			err = r.Skip()
		}
	}
	return err
}

// each reads a list of pairs whose first values are times, and calls f to read the second.
func (s *samples) each(r *msgpack.Reader, f func(at int64) error) error {
	n, err := r.ReadArrayLen()
	if err == nil && n > maxCycles {
		return fmt.Errorf("%d cycles, want at most %d", n, maxCycles)
	}
	for ; err == nil && n > 0; n-- {
		var size int
		if size, err = r.ReadArrayLen(); err == nil && size != 2 {
			err = fmt.Errorf("cycle of %d values, want 2", size)
		}
		if err != nil {
			break
		}
		var t float64
		if t, err = r.ReadFloat(); err != nil {
			break
		}
		if !(math.Abs(t) < 1e12) {
			t = 0
		}
		err = f(int64(math.Floor(t / s.cycle)))
	}
	return err
}

func (s *samples) count(to map[int64]int64, at, n int64) {
	if _, ok := to[at]; ok || len(to) < maxTimes {
		to[at] += max(0, min(n, 1<<40))
	}
}

func (s *samples) readKeys(r *msgpack.Reader, at int64) error {
	n, err := r.ReadMapLen()
	if err == nil && n > maxPrefixes {
		return fmt.Errorf("%d prefixes in a cycle, want at most %d", n, maxPrefixes)
	}
	for ; err == nil && n > 0; n-- {
		var name []byte
		var count int64
		if name, err = r.ReadStringBytes(); err != nil {
			break
		}
		if count, err = r.ReadInt(); err != nil {
			break
		}
		to := s.keys[string(name)]
		if to == nil {
			if len(s.keys) >= maxKeys || len(name) > 1<<10 {
				continue
			}
			to = map[int64]int64{}
			s.keys[string(name)] = to
		}
		s.count(to, at, count)
	}
	return err
}

// result returns {"counts": [(time, n), …], "keys": {prefix: [[time, n], …]}} with a point for every time, as Dask.
func (s *samples) result() msgpack.Map {
	counts := []any{}
	for _, at := range slices.Sorted(maps.Keys(s.all)) {
		counts = append(counts, []any{float64(at) * s.cycle, s.all[at]})
	}
	times := map[int64]bool{}
	for _, byTime := range s.keys {
		for at := range byTime {
			times[at] = true
		}
	}
	order := slices.Sorted(maps.Keys(times))
	order = order[max(0, len(order)-maxTimes):]
	keys := msgpack.Map{}
	for _, name := range slices.SortedFunc(maps.Keys(s.keys), cmp.Compare[string]) {
		points := make([]any, len(order))
		for i, at := range order {
			points[i] = []any{float64(at) * s.cycle, s.keys[name][at]}
		}
		keys = append(keys, msgpack.Pair{Key: name, Value: points})
	}
	return msgpack.MapOf("counts", counts, "keys", keys)
}
