package clique

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/wire/msgpack"
)

// opStats counts the calls of one operation by the rank of a session.
type opStats struct {
	count, bytes, nanos atomic.Int64
}

// stats counts the operations of a session, for the dashboard of the scheduler.
type stats [collective.SendRecv + 1]opStats

// add counts a call. took is 0 for one that was only started.
func (s *stats) add(c *collective.Call, took time.Duration) {
	if int(c.Code) >= len(s) {
		return
	}
	o := &s[c.Code]
	o.count.Add(1)
	o.bytes.Add(max(sizeOf(&c.Send), sizeOf(&c.Recv)))
	o.nanos.Add(int64(took))
}

// sizeOf returns the length of memory in bytes.
func sizeOf(m *collective.Memory) int64 {
	if m.Buffer != nil {
		return int64(m.Buffer.Len())
	}
	return int64(len(m.Bytes))
}

// report returns a map from operations to [count, bytes, seconds].
func (s *stats) report() msgpack.Map {
	out := msgpack.Map{}
	for code := range s {
		o := &s[code]
		if n := o.count.Load(); n > 0 {
			out = append(out, msgpack.Pair{Key: collective.Code(code).String(),
				Value: []any{n, o.bytes.Load(), time.Duration(o.nanos.Load()).Seconds()}})
		}
	}
	return out
}

// maxReported bounds the cliques of a report.
const maxReported = 64

// reportName is the name of the report of a hub in the heartbeats of its worker.
const reportName = "cliques"

// report returns the cliques of the worker for its heartbeats: a list of [id, rank, size, backend, error, operations].
func (h *hub) report() any {
	h.mu.Lock()
	list := make([]*session, 0, len(h.sessions))
	for _, s := range h.sessions {
		list = append(list, s)
	}
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	out := []any{}
	for _, s := range list {
		s.mu.Lock()
		g, rank, size := s.engine, s.rank, len(s.roster.Ranks)
		s.mu.Unlock()
		if g == nil || len(out) == maxReported {
			continue
		}
		reason := ""
		if err := g.Err(); err != nil {
			reason = err.Error()
		}
		out = append(out, []any{s.id, rank, size, g.Backend(), reason, s.stats.report()})
	}
	return out
}
