package history

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// Transfer is one transfer of results between two workers, as one of them reported it with its heartbeat.
type Transfer struct {
	Worker   string `json:"worker"`
	Peer     string `json:"peer"`
	Incoming bool   `json:"incoming"`
	Scheme   string `json:"scheme"`
	// Transport is that of UCX, "" if it is not known.
	Transport string  `json:"transport"`
	Bytes     int64   `json:"bytes"`
	Keys      int64   `json:"keys"`
	Start     float64 `json:"start"`    // seconds since 1970
	Duration  float64 `json:"duration"` // seconds
}

// Transfers is a ring of the latest transfers. The loop owns it.
type Transfers struct {
	ring    []Transfer
	limit   int
	count   int64
	schemes map[string]SchemeTotal
	// transports are the same by transport.
	transports map[string]SchemeTotal
	loop       loop.Loop
}

// SchemeTotal are the totals of the transfers over one scheme since the start.
type SchemeTotal struct {
	Bytes, Transfers int64
	Seconds          float64
}

// maxSchemes bounds the number of schemes, whose names workers choose.
const maxSchemes = 64

// NewTransfers returns a ring of at most limit transfers.
func NewTransfers(to loop.Loop, limit int) *Transfers {
	return &Transfers{loop: to, limit: max(limit, 0), schemes: map[string]SchemeTotal{},
		transports: map[string]SchemeTotal{}}
}

// Add keeps the transfers that a worker has reported.
func (l *Transfers) Add(worker string, r TransferReport) {
	for _, t := range r.List {
		t.Worker = worker
		l.count++
		if t.Incoming { // each transfer is reported by both ends; count one of them
			one := SchemeTotal{Bytes: t.Bytes, Transfers: 1, Seconds: t.Duration}
			sum(l.schemes, t.Scheme, one)
			sum(l.transports, cmp.Or(t.Transport, t.Scheme), one)
		}
		if l.limit == 0 {
			continue
		}
		if len(l.ring) < l.limit {
			l.ring = append(l.ring, t)
		} else {
			l.ring[(l.count-1)%int64(l.limit)] = t
		}
	}
	for scheme, t := range r.more {
		sum(l.schemes, scheme, t)
		sum(l.transports, scheme, t)
	}
}

// sum adds to a total of bounded totals.
func sum(to map[string]SchemeTotal, name string, t SchemeTotal) {
	total, known := to[name]
	if !known && len(to) >= maxSchemes {
		return
	}
	to[name] = SchemeTotal{total.Bytes + t.Bytes, total.Transfers + t.Transfers, total.Seconds + t.Seconds}
}

// list returns the transfers, oldest first.
func (l *Transfers) list() []Transfer {
	out := make([]Transfer, 0, len(l.ring))
	for i := l.count - int64(len(l.ring)); i < l.count; i++ {
		out = append(out, l.ring[i%int64(l.limit)])
	}
	return out
}

// TransferReport is the part of a heartbeat about transfers.
type TransferReport struct {
	List []Transfer
	more map[string]SchemeTotal // incoming transfers that are not listed, by scheme
}

// Bounds of one report. A worker lists fewer.
const (
	maxTransfers  = 4096
	maxPeerName   = 256
	maxSchemeName = 32
)

// ReadTransfers reads extensions.millstream of a worker's heartbeat: "transfers", a list of [start, stop, bytes,
// scheme, peer, direction, number of keys, transport], and "more-transfers", a map from schemes to [number, bytes,
// seconds] of incoming transfers that are not listed. Malformed entries are ignored.
func ReadTransfers(extensions any) (r TransferReport) {
	ext, _ := extensions.(msgpack.Map)
	ours, _ := ext.Get("millstream")
	m, _ := ours.(msgpack.Map)
	v, _ := m.Get("transfers")
	list, _ := v.([]any)
	for _, x := range list[:min(len(list), maxTransfers)] {
		f, _ := x.([]any)
		if len(f) < 7 {
			continue
		}
		start, ok1 := val.Number(f[0])
		stop, ok2 := val.Number(f[1])
		bytes, ok3 := val.Integer(f[2])
		scheme, ok4 := f[3].(string)
		peer, ok5 := f[4].(string)
		direction, _ := f[5].(string)
		keys, _ := val.Integer(f[6])
		transport := ""
		if len(f) > 7 {
			transport, _ = f[7].(string)
		}
		if ok1 && ok2 && ok3 && ok4 && ok5 && plausible(1, bytes, stop-start) {
			r.List = append(r.List, Transfer{Peer: boundedName(peer, maxPeerName), Incoming: direction != "outgoing",
				Scheme: boundedName(scheme, maxSchemeName), Transport: boundedName(transport, maxSchemeName),
				Bytes: bytes, Keys: keys, Start: start, Duration: stop - start})
		}
	}
	v, _ = m.Get("more-transfers")
	more, _ := v.(msgpack.Map)
	for k, v := range more.All() {
		scheme, ok := k.(string)
		f, _ := v.([]any)
		if !ok || len(f) < 3 || len(r.more) == maxSchemes {
			continue
		}
		n, ok1 := val.Integer(f[0])
		bytes, ok2 := val.Integer(f[1])
		seconds, ok3 := val.Number(f[2])
		if ok1 && ok2 && ok3 && plausible(n, bytes, seconds) {
			if r.more == nil {
				r.more = map[string]SchemeTotal{}
			}
			r.more[boundedName(scheme, maxSchemeName)] = SchemeTotal{Bytes: bytes, Transfers: n, Seconds: seconds}
		}
	}
	return r
}

// plausible reports whether figures may be added to counters, which must not decrease.
func plausible(n, bytes int64, seconds float64) bool {
	const most = 1 << 50
	return n >= 0 && n < most && bytes >= 0 && bytes < most && seconds >= 0 && seconds < most // false for NaN
}

// JSON returns the transfers that are kept.
func (l *Transfers) JSON(ctx context.Context) ([]byte, error) {
	list, err := loop.Ask(ctx, l.loop, func() ([]Transfer, error) { return l.list(), nil })
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"transfers": list})
}

// boundedName returns a bounded copy of a worker's text that is valid in JSON and metrics.
func boundedName(s string, most int) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), most)], "\ufffd"))
}

// Totals returns the totals of each scheme.
func (l *Transfers) Totals() map[string]SchemeTotal { return maps.Clone(l.schemes) }

// Transports returns the totals of the transfers since the start by transport, by scheme where that is not known.
func (l *Transfers) Transports() map[string]SchemeTotal { return maps.Clone(l.transports) }
