package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"strconv"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
)

// source implements dashboard.Source.
type source struct {
	*Inspector
	walk  edgeWalk // owner: the loop
	paths paths
}

// Identity implements dashboard.Source.
func (s *source) Identity() dashboard.Identity {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return dashboard.Identity{Version: version, Scheduler: s.Contact(), ID: s.ID, Started: val.Seconds(s.Started())}
}

// Counts implements dashboard.Source.
func (s *source) Counts(ctx context.Context) (dashboard.Counts, error) {
	return loop.Ask(ctx, s.Loop, func() (dashboard.Counts, error) {
		totals := s.Feed.Totals()
		c := dashboard.Counts{Tasks: map[string]int{}, Workers: len(s.Inspector.Workers.ByAddress),
			Threads: s.State.TotalThreads(), Finished: totals.Finished, Moved: maps.Clone(totals.Moved),
			Failures: totals.Failures}
		for _, st := range state.TaskStates() {
			c.Tasks[st.String()] = s.State.Count(st)
		}
		for _, w := range s.Inspector.Workers.ByAddress {
			c.Memory += w.Recorded.RSS
		}
		return c, nil
	})
}

// Workers implements dashboard.Source. The loop copies what changes; metrics of heartbeats do not.
func (s *source) Workers(ctx context.Context) ([]dashboard.Worker, error) {
	type entry struct {
		w       *peers.Worker
		metrics any
		row     dashboard.Worker
	}
	list, err := loop.Ask(ctx, s.Loop, func() ([]entry, error) {
		out := make([]entry, 0, len(s.Inspector.Workers.ByAddress))
		now := s.Loop.Now()
		for sw := range s.State.Workers() {
			w, ok := sw.Data.(*peers.Worker)
			if !ok {
				continue
			}
			r := &w.Recorded
			out = append(out, entry{w, w.Metrics, dashboard.Worker{
				Address: w.Address, Name: peers.NameText(w.Name), Host: w.Host, Status: sw.Status().String(),
				Threads: sw.Threads(), CPU: r.CPU, Processing: sw.NumProcessing(), Held: sw.NumHeld(),
				LastSeen:   max(now.Sub(w.LastSeen).Seconds(), 0),
				Transports: slices.Clone(r.Transports),
				Memory: dashboard.WorkerMemory{Managed: r.Managed, Spilled: r.Spilled, Limit: sw.MemoryLimit(),
					RSS: r.RSS, Unmanaged: max(r.RSS-r.Managed, 0)},
			}})
		}
		return out, nil
	})
	rows := make([]dashboard.Worker, len(list))
	for i := range list {
		e := &list[i]
		rows[i] = e.row
		m, _ := e.metrics.(msgpack.Map)
		counts := submap(m, "task_counts")
		rows[i].Ready = val.Field(counts, "ready") + val.Field(counts, "constrained")
		rows[i].Executing = val.Field(counts, "executing") + val.Field(counts, "long-running")
		rows[i].Device = deviceOf(m, e.w.Extra)
		versions, _ := e.w.Versions.(msgpack.Map)
		packages := submap(versions, "packages")
		rows[i].Version = cmp.Or(packages.GetString("millstream"), packages.GetString("distributed"))
		services, _ := e.w.Services.(msgpack.Map)
		if port := val.Field(services, "dashboard"); port > 0 && port < 1<<16 {
			rows[i].Dashboard = "http://" + net.JoinHostPort(e.w.Host, strconv.FormatInt(port, 10))
		}
		if rows[i].Transports == nil {
			rows[i].Transports = []string{}
		}
	}
	return rows, err
}

// submap returns the map under a name; nil for none.
func submap(m msgpack.Map, name string) msgpack.Map {
	v, _ := m.Get(name)
	out, _ := v.(msgpack.Map)
	return out
}

// deviceOf returns the GPU of a worker: from the names that Dask's monitor has in metrics and the worker has in its
// identity, and from device_memory of Millstream workers.
func deviceOf(metrics, extra msgpack.Map) *dashboard.Device {
	gpu, own := submap(extra, "gpu"), submap(metrics, "device_memory")
	if !metrics.Has("gpu_memory_used") && len(gpu) == 0 && len(own) == 0 {
		return nil
	}
	d := &dashboard.Device{Used: val.Field(metrics, "gpu_memory_used"),
		Total: cmp.Or(val.Field(metrics, "gpu_memory_total"), val.Field(gpu, "memory-total")),
		Limit: val.Field(own, "limit"), Pinned: val.Field(own, "pinned")}
	use, _ := metrics.Get("gpu_utilization")
	d.Utilization, _ = val.Number(use)
	if !(d.Utilization >= 0 && d.Utilization <= 100) {
		d.Utilization = 0
	}
	return d
}

// maxProgress bounds the prefixes of the page of progress; those with the least time are left out.
const maxProgress = 1000

// Progress implements dashboard.Source.
func (s *source) Progress(ctx context.Context) ([]dashboard.Prefix, error) {
	list, err := loop.Ask(ctx, s.Loop, func() ([]dashboard.Prefix, error) {
		out := []dashboard.Prefix{}
		index := map[*state.Prefix]int{}
		of := func(p *state.Prefix) *dashboard.Prefix {
			i, ok := index[p]
			if !ok {
				i = len(out)
				index[p] = i
				runs, total := p.Finished()
				out = append(out, dashboard.Prefix{Name: p.Name(), Seconds: total.Seconds(), Forgotten: runs})
			}
			return &out[i]
		}
		for g := range s.State.Groups() {
			p := of(g.Prefix())
			p.Waiting += g.Count(state.Waiting)
			p.Queued += g.Count(state.Queued)
			p.NoWorker += g.Count(state.NoWorkerState)
			p.Processing += g.Count(state.Processing)
			p.Memory += g.Count(state.Memory)
			p.Erred += g.Count(state.Erred)
			p.Released += g.Count(state.Released)
			p.Bytes += g.NBytes()
		}
		for p := range s.State.Prefixes() {
			of(p)
		}
		return out, nil
	})
	for i := range list { // runs whose tasks are still known are not forgotten
		p := &list[i]
		p.Forgotten = max(p.Forgotten-int64(p.Memory)-int64(p.Released), 0)
	}
	active := func(p *dashboard.Prefix) int { return p.Waiting + p.Queued + p.NoWorker + p.Processing }
	slices.SortFunc(list, func(a, b dashboard.Prefix) int {
		return cmp.Or(cmp.Compare(min(active(&b), 1), min(active(&a), 1)), cmp.Compare(b.Seconds, a.Seconds),
			cmp.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), maxProgress)], err
}

// Bandwidth implements dashboard.Source.
func (s *source) Bandwidth(ctx context.Context) (dashboard.Bandwidth, error) {
	b, err := loop.Ask(ctx, s.Loop, func() (dashboard.Bandwidth, error) {
		b := s.Feed.Bandwidth()
		for sw := range s.State.Workers() {
			b.Workers = append(b.Workers, sw.Address())
		}
		return b, nil
	})
	if err == nil {
		s.paths.explain(ctx, s.describeWorker, b.Pairs)
	}
	return b, err
}

// Story implements dashboard.Source.
func (s *source) Story(ctx context.Context, text string) ([]dashboard.Step, error) {
	keys := keysOf(text)
	if len(keys) == 0 {
		return []dashboard.Step{}, nil
	}
	return loop.Ask(ctx, s.Loop, func() ([]dashboard.Step, error) {
		out := []dashboard.Step{}
		for _, t := range s.State.Story(keys...) {
			out = append(out, dashboard.Step{Time: t.When.UnixMicro(), From: t.From.String(), To: t.To.String(),
				Stimulus: t.Cause + "-" + strconv.FormatUint(t.Event, 10)})
		}
		if t := taskOf(s.State, text); t != nil && len(out) > 0 {
			last := &out[len(out)-1]
			if w := t.ProcessingOn(); w != nil {
				last.Worker = w.Address()
			} else if t.NumHolders() > 0 {
				last.Worker = t.Holder(0).Address()
			}
		}
		return out, nil
	})
}

// maxLogLines is the number of lines of a log that the page shows.
const maxLogLines = 1000

// Profile implements dashboard.Source.
func (s *source) Profile(ctx context.Context, q dashboard.ProfileQuery) (*profile.View, error) {
	return s.Inspector.Profile(ctx, q)
}

// Stacks implements dashboard.Source.
func (s *source) Stacks(ctx context.Context, worker string) ([]dashboard.Stack, error) {
	return s.Inspector.Stacks(ctx, worker)
}

// Logs implements dashboard.Source.
func (s *source) Logs(ctx context.Context, worker string) ([]dashboard.LogLine, error) {
	var pairs []any
	if worker == "" {
		pairs = s.Lines(maxLogLines)
	} else {
		known, err := loop.Ask(ctx, s.Loop, func() (bool, error) {
			return s.Inspector.Workers.ByAddress[worker] != nil, nil
		})
		if err != nil {
			return nil, err
		}
		if !known {
			return nil, fmt.Errorf("%w: %.100q", dashboard.ErrNoWorker, worker)
		}
		if err := s.Pool.Call(ctx, worker, "get_logs", msgpack.MapOf("n", maxLogLines), &pairs); err != nil {
			return nil, err
		}
	}
	out := []dashboard.LogLine{}
	for _, p := range pairs {
		list, _ := p.([]any)
		if len(list) < 2 {
			continue
		}
		level, _ := list[0].(string)
		text, _ := list[1].(string)
		out = append(out, dashboard.LogLine{Level: level, Text: text})
	}
	return out[max(0, len(out)-maxLogLines):], nil
}

// Bounds of Path: tasks of the chain, and dependencies that are looked at.
const (
	maxPath     = 10_000
	maxPathDeps = 200_000
)

// Path implements dashboard.Source.
func (s *source) Path(ctx context.Context, last string, stop func(string) (int64, bool)) ([]string, error) {
	return loop.Ask(ctx, s.Loop, func() ([]string, error) {
		path := []string{last}
		looked := 0
		for t := taskOf(s.State, last); t != nil && len(path) < maxPath && looked < maxPathDeps; {
			var next *state.Task
			var name string
			latest := int64(-1)
			n := min(t.NumDeps(), maxPathDeps)
			looked += n
			for i := range n {
				text := t.Dep(i).Key().String()
				if at, ok := stop(text); ok && at > latest {
					next, name, latest = t.Dep(i), text, at
				}
			}
			if t = next; t != nil {
				path = append(path, name)
			}
		}
		return path, nil
	})
}
