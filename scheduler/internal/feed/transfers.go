package feed

import (
	"cmp"
	"slices"
	"strings"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/peers"
)

// Bounds of what workers choose: names of transports, peers that are not workers, pairs of workers in the matrix.
const (
	maxTransports = 64
	maxPeers      = 4096
	maxPairs      = 1 << 16
	maxOfWorker   = 8 // transports that are listed for one worker
)

// others is the name of what exceeds a bound.
const others = "(others)"

// transportID is a transport in the store.
type transportID struct {
	id   uint32
	name string
}

// pairs are the totals of transfers by pair of workers and transport. The loop owns it.
type pairs struct {
	totals     map[pairKey]*pairTotal
	last       map[[2]string]string // transport of the last transfer of which it is known, by sender and receiver
	transports map[string]transportID
	peers      map[string]uint32 // IDs in the store
}

type pairKey struct{ from, to, transport string }

type pairTotal struct {
	dashboard.Transport
	scheme string // of the last transfer
}

func newPairs() pairs {
	return pairs{map[pairKey]*pairTotal{}, map[[2]string]string{}, map[string]transportID{},
		map[string]uint32{}}
}

// add adds a transfer.
func (p *pairs) add(from, to, transport, scheme string, bytes int64, seconds float64) {
	k := pairKey{from, to, transport}
	t := p.totals[k]
	if t == nil {
		if len(p.totals) >= maxPairs {
			return
		}
		t = new(pairTotal)
		p.totals[k] = t
	}
	t.scheme = scheme
	t.Bytes += bytes
	t.Seconds += seconds
	t.Count++
}

// transport returns the ID of a transport, whose name a worker has chosen.
func (f *Feed) transport(name string) transportID {
	if t, ok := f.pairs.transports[name]; ok {
		return t
	}
	if len(f.pairs.transports) >= maxTransports {
		name = others
		if t, ok := f.pairs.transports[name]; ok {
			return t
		}
	}
	name = strings.Clone(name)
	t := transportID{f.store.Transport(name), name}
	f.pairs.transports[name] = t
	return t
}

// peer returns the ID of the peer at an address, which a worker has chosen.
func (f *Feed) peer(address string) uint32 {
	if w := f.find(address); w != nil {
		return f.worker(w)
	}
	if id, ok := f.pairs.peers[address]; ok {
		return id
	}
	if len(f.pairs.peers) >= maxPeers {
		address = others
		if id, ok := f.pairs.peers[address]; ok {
			return id
		}
	}
	address = strings.Clone(address)
	id := f.store.Worker(address, "")
	f.pairs.peers[address] = id
	return id
}

// Transfers records the transfers of a worker's heartbeat. Both ends report a transfer: the incoming one is recorded.
// An outgoing one is recorded if the peer is not a Millstream worker, which reports it.
func (f *Feed) Transfers(w *peers.Worker, r history.TransferReport) {
	if f == nil {
		return
	}
	for i := range r.List {
		t := &r.List[i]
		from, to := t.Peer, w.Address
		if !t.Incoming {
			from, to = w.Address, t.Peer
		}
		name := t.Transport
		pair := [2]string{from, to}
		switch {
		case name != "":
			if len(f.pairs.last) < maxPairs || f.pairs.last[pair] != "" {
				f.pairs.last[pair] = name
			}
		case strings.HasPrefix(t.Scheme, "ucx"): // a short message, whose transport the worker has not queried
			name = f.pairs.last[pair]
		}
		transport := f.transport(cmp.Or(name, t.Scheme))
		if r := &w.Recorded; len(r.Transports) < maxOfWorker && !slices.Contains(r.Transports, transport.name) {
			r.Transports = append(r.Transports, transport.name)
		}
		if peer := f.find(t.Peer); !t.Incoming && peer != nil && peer.Incarnation != "" {
			continue
		}
		if t.Incoming {
			f.totals.Moved[transport.name] += t.Bytes
		}
		f.pairs.add(from, to, transport.name, t.Scheme, t.Bytes, t.Duration)
		if start, stop, ok := f.times(w, t.Start, t.Start+t.Duration); ok {
			f.batch.Transfer(f.worker(w), f.peer(t.Peer), t.Incoming, transport.id, t.Bytes, t.Keys, start, stop)
			f.added(0)
		}
	}
}

// Bandwidth returns the matrix of transfers, without reasons, and the totals of transports. It runs in the loop.
func (f *Feed) Bandwidth() dashboard.Bandwidth {
	b := dashboard.Bandwidth{Workers: []string{}, Pairs: []dashboard.Pair{},
		Transports: map[string]dashboard.Transport{}}
	if f == nil {
		return b
	}
	for k, t := range f.pairs.totals {
		p := dashboard.Pair{From: k.from, To: k.to, Transport: k.transport, Scheme: t.scheme, Bytes: t.Bytes,
			Seconds: t.Seconds, Count: t.Count}
		if t.Seconds > 0 {
			p.Rate = float64(t.Bytes) / t.Seconds
		}
		b.Pairs = append(b.Pairs, p)
		all := b.Transports[k.transport]
		b.Transports[k.transport] = dashboard.Transport{Bytes: all.Bytes + t.Bytes, Seconds: all.Seconds + t.Seconds,
			Count: all.Count + t.Count}
	}
	slices.SortFunc(b.Pairs, func(x, y dashboard.Pair) int {
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To), cmp.Compare(x.Transport, y.Transport))
	})
	return b
}

// Forget removes the pairs of a worker that has left for long.
func (f *Feed) Forget(address string) {
	if f == nil {
		return
	}
	for k := range f.pairs.totals {
		if k.from == address || k.to == address {
			delete(f.pairs.totals, k)
		}
	}
	for k := range f.pairs.last {
		if k[0] == address || k[1] == address {
			delete(f.pairs.last, k)
		}
	}
}
