package workers

import (
	"context"
	"time"

	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// maxExecuting bounds the number of running tasks that are read from a heartbeat.
const maxExecuting = 4096

// heartbeatRPC serves heartbeat_worker: the periodic report of a worker.
func (s *Workers) heartbeatRPC(ctx context.Context, _ *rpc.Request, in struct {
	Address    string      `rpc:"address"`
	Resolve    any         `rpc:"resolve_address,optional"`
	Now        float64     `rpc:"now,optional"`
	Resources  msgpack.Map `rpc:"resources,optional"`
	HostInfo   any         `rpc:"host_info,optional"`
	Metrics    any         `rpc:"metrics,optional"`
	Executing  msgpack.Map `rpc:"executing,optional"`
	Extensions any         `rpc:"extensions,optional"`
}) (msgpack.Map, error) {
	supply, err := peers.Resources(in.Resources)
	if err != nil {
		return nil, &rpc.Exception{Type: "ValueError", Message: "heartbeat_worker: resources: " + err.Error()}
	}
	var executing []state.Executing
	for k, v := range in.Executing.All() {
		key, err := task.KeyOf(k)
		d, ok := val.Number(v)
		if err == nil && ok && len(executing) < maxExecuting {
			executing = append(executing, state.Executing{Key: key, For: time.Duration(d * float64(time.Second))})
		}
	}
	metrics := wire.Clone(in.Metrics)
	transfers, cliques := history.ReadTransfers(in.Extensions), peers.ReadCliques(in.Extensions)
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		w := s.ByAddress[commaddr.Normalize(in.Address)]
		if w == nil {
			s.Log.Warn("heartbeat of unregistered worker", "address", in.Address)
			return msgpack.MapOf("status", "missing"), nil
		}
		if in.Now > 0 {
			w.Delay = val.Seconds(s.Loop.Now()) - in.Now
		}
		if len(supply) > 0 {
			s.Apply(&state.SetResources{Worker: w.ID, Resources: supply})
		}
		s.heartbeat(w, metrics, executing)
		s.Transfers.Add(w.Address, transfers)
		f := s.feed()
		f.Begin(s.Loop.Now())
		f.Transfers(w, transfers)
		w.Recorded.Cliques = cliques
		return msgpack.MapOf("status", "OK", "time", val.Seconds(s.Loop.Now()), "heartbeat-interval", s.interval()), nil
	})
}

// heartbeat applies a worker's metrics to the state. It runs in the loop.
func (s *Workers) heartbeat(w *peers.Worker, metrics any, executing []state.Executing) {
	w.LastSeen = s.Loop.Now()
	ev := &s.beat
	*ev = state.Heartbeat{Worker: w.ID, Executing: executing}
	m, _ := metrics.(msgpack.Map)
	if m != nil {
		w.Metrics = m
		ev.Memory = val.Field(m, "memory")
		ev.Managed = val.Field(m, "managed_bytes")
		if spilled, ok := m.Get("spilled_bytes"); ok {
			d, _ := spilled.(msgpack.Map)
			ev.Spilled = val.Field(d, "disk")
		}
		if b, ok := m.Get("bandwidth"); ok {
			d, _ := b.(msgpack.Map)
			total, _ := d.Get("total")
			rate, _ := val.Number(total)
			ev.Bandwidth = w.ClampRate(s.Log, rate)
		}
		r := &w.Recorded
		cpu, _ := m.Get("cpu")
		r.CPU, _ = val.Number(cpu)
		if !(r.CPU >= 0 && r.CPU <= maxCPU) { // not a number
			r.CPU = 0
		}
		r.RSS, r.Managed, r.Spilled = plausible(ev.Memory), plausible(ev.Managed), plausible(ev.Spilled)
		r.GPU = gpuOf(m)
	}
	s.Apply(ev)
}

// gpuOf returns the GPU figures of a heartbeat, which have the names that Dask workers use (gpu_memory_used,
// gpu_utilization); nil if the worker reported none.
func gpuOf(m msgpack.Map) *peers.RecordedGPU {
	if !m.Has("gpu_memory_used") {
		return nil
	}
	own, _ := m.Get("device_memory")
	device, _ := own.(msgpack.Map)
	g := &peers.RecordedGPU{Used: plausible(val.Field(m, "gpu_memory_used")),
		Pinned: plausible(val.Field(device, "pinned"))}
	use, _ := m.Get("gpu_utilization")
	g.Utilization, _ = val.Number(use)
	if !(g.Utilization >= 0 && g.Utilization <= 100) { // not a number
		g.Utilization = 0
	}
	return g
}

// maxCPU bounds the reported use of processors, in percent of a core, and maxMemory that of memory in bytes.
const (
	maxCPU    = 1e6
	maxMemory = 1 << 50
)

// plausible returns a reported number of bytes, 0 for one that cannot be.
func plausible(n int64) int64 {
	if n < 0 || n > maxMemory {
		return 0
	}
	return n
}

// Tick removes workers whose heartbeats have stopped for too long. If such a worker resumes, it receives an order to
// close; until then its messages are ignored.
func (s *Workers) Tick() {
	if s.TTL < 0 {
		return
	}
	ttl := max(s.TTL, time.Duration(4*s.interval()*float64(time.Second)))
	var late []*peers.Worker
	for _, w := range s.ByAddress {
		if s.Loop.Now().Sub(w.LastSeen) > ttl {
			late = append(late, w)
		}
	}
	if len(late) == 0 {
		return
	}
	var addresses []any
	for _, w := range late {
		addresses = append(addresses, w.Address)
		w.MayReturn = true // unless the order to close arrives
		s.Remove(w,
			reasonTTL+": no heartbeat for "+s.Loop.Now().Sub(w.LastSeen).Round(time.Second).String(),
			false, true)
	}
	s.Topics.Publish(msgpack.MapOf("action", "worker-ttl-timed-out", "workers", addresses, "ttl", ttl.Seconds()),
		"scheduler")
}

// reasonTTL starts the reason of an order to close for a worker whose heartbeats stopped. If the worker was only slow
// or suspended, its nanny starts another one.
const reasonTTL = "worker-ttl"
