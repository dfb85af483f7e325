package clique

import (
	"cmp"
	"slices"
	"strings"
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

// maxPast bounds the dissolved cliques of a report: the last ones.
const maxPast = 16

// reportName is the name of the report of a hub in the heartbeats of its worker.
const reportName = "cliques"

// report returns the cliques of the worker for its heartbeats: a list of [id, rank, size, backend, error, operations,
// end]. The end is the time when the clique was dissolved, in seconds since 1970, 0 before.
func (h *hub) report() any {
	h.mu.Lock()
	list := make([]*session, 0, len(h.sessions))
	for _, s := range h.sessions {
		list = append(list, s)
	}
	past := slices.Clone(h.past)
	h.mu.Unlock()
	slices.SortFunc(list, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	out := []any{}
	for _, s := range list {
		if x := s.report(); x != nil && len(out) < maxReported-len(past) {
			out = append(out, append(x, 0.0))
		}
	}
	for _, x := range slices.Backward(past) {
		out = append(out, x)
	}
	return out
}

// report returns the entry of a session in the report of its hub, without the end; nil if it was not formed.
func (s *session) report() []any {
	s.mu.Lock()
	g, rank, size := s.engine, s.rank, len(s.roster.Ranks)
	s.mu.Unlock()
	if g == nil {
		return nil
	}
	reason := ""
	// A rank that dissolves while tasks have joined fails the others with this reason.
	if err := g.Err(); err != nil && !strings.Contains(err.Error(), errDissolved.Error()) {
		reason = err.Error()
	}
	return []any{s.id, rank, size, g.Backend(), reason, s.stats.report()}
}

// keep appends the entry of a session that ends to the past of the hub.
func (h *hub) keep(s *session) {
	x := s.report()
	if x == nil {
		return
	}
	x = append(x, float64(time.Now().UnixMilli())/1000)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.past) == maxPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
	h.past = append(h.past, x)
}
