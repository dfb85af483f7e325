package ucx

import (
	"sync/atomic"

	"go.millstream.dev/ucx/internal/obs"
	"go.millstream.dev/ucx/internal/ucp"
)

// OpStats counts one kind of operation of a worker.
type OpStats struct {
	Count uint64 // operations submitted to UCX
	Bytes uint64 // bytes they named (vectors are not counted)
}

// WorkerStats is a snapshot of a worker's counters since its creation. Counting
// costs nothing extra: whoever makes progress writes them anyway.
type WorkerStats struct {
	Ops       map[string]OpStats // by operation, "tag send"
	Errors    uint64             // operations that failed
	InFlight  int64              // operations that UCX has not finished
	Endpoints int                // open endpoints

	Drives      uint64 // calls into the progress loop
	Progress    uint64 // turns of it
	SpinsWon    uint64 // waits that ended while spinning
	SpinsLost   uint64 // waits that went to sleep
	Parks       uint64 // goroutines that slept for a completion
	Arms        uint64 // times the event descriptor was armed
	RingSubmits uint64 // operations handed to another goroutine that held the token

	Messages        uint64 // active messages that arrived
	MessageBytes    uint64
	MessagesDropped uint64 // refused for want of room, their endpoints failed
	EndpointErrors  uint64
}

// Stats returns the worker's counters. It may be called at any time from any
// goroutine; the numbers of one snapshot are not taken at one instant. After Close
// it returns the zero value.
func (w *Worker) Stats() WorkerStats {
	// The slot keeps the worker's memory from being freed under the reads.
	s, _, err := w.drv.takeSlot()
	if err != nil {
		return WorkerStats{}
	}
	defer w.drv.putSlot(s)
	c := &w.drv.c.Stats
	out := WorkerStats{
		Ops: map[string]OpStats{}, Errors: load(&c.Errors), InFlight: atomic.LoadInt64(&w.drv.c.Inflight),
		Drives: load(&c.Drives), Progress: load(&c.ProgressCalls), SpinsWon: load(&c.SpinsWon),
		SpinsLost: load(&c.SpinsLost),
		Parks:     w.drv.parks.Load(), Arms: load(&c.Arms), RingSubmits: load(&c.RingSubmits),
		Messages:     load(&c.AMReceived),
		MessageBytes: load(&c.AMBytes), MessagesDropped: load(&c.AMDropped), EndpointErrors: load(&c.EPErrors),
	}
	for op := ucp.OpTagSend; op < ucp.OpCall; op++ {
		if n := load(&c.Ops[op]); n > 0 {
			out.Ops[op.String()] = OpStats{Count: n, Bytes: load(&c.Bytes[op])}
		}
	}
	out.Endpoints = w.peers.count()
	return out
}

// load reads a counter that the token holder writes with plain stores in C.
func load(p *uint64) uint64 { return atomic.LoadUint64(p) }

// Counters returns the snapshot as named values for a metrics exporter.
func (s WorkerStats) Counters() []obs.Counter {
	out := []obs.Counter{
		{Name: "ucx_operation_errors_total", Value: s.Errors},
		{Name: "ucx_drives_total", Value: s.Drives},
		{Name: "ucx_progress_total", Value: s.Progress},
		{Name: "ucx_spins_won_total", Value: s.SpinsWon},
		{Name: "ucx_spins_lost_total", Value: s.SpinsLost},
		{Name: "ucx_parks_total", Value: s.Parks},
		{Name: "ucx_arms_total", Value: s.Arms},
		{Name: "ucx_ring_submits_total", Value: s.RingSubmits},
		{Name: "ucx_messages_total", Value: s.Messages},
		{Name: "ucx_message_bytes_total", Value: s.MessageBytes},
		{Name: "ucx_messages_dropped_total", Value: s.MessagesDropped},
		{Name: "ucx_endpoint_errors_total", Value: s.EndpointErrors},
	}
	for op := ucp.OpTagSend; op < ucp.OpCall; op++ {
		if o, ok := s.Ops[op.String()]; ok {
			out = append(out, obs.Counter{Name: "ucx_operations_total", Label: op.String(), Value: o.Count},
				obs.Counter{Name: "ucx_bytes_total", Label: op.String(), Value: o.Bytes})
		}
	}
	return out
}
