package transfer

import (
	"sync"

	"go.millstream.dev/internal/wire/msgpack"
)

// traffic measures the bandwidth of transfers from peers. Any goroutine may use it.
type traffic struct {
	mu        sync.Mutex // guards the fields below
	bandwidth float64    // bytes per second
	peers     map[string]measured
}

// measured is the bandwidth to one peer, in bytes per second, and the number of measured transfers.
type measured struct {
	rate  float64
	count int64
}

// startBandwidth is Dask's initial value (distributed.scheduler.bandwidth).
const startBandwidth = 100_000_000

// maxPeers bounds the table of peers.
const maxPeers = 1024

// record records a transfer that has ended, with the error that it ended with.
func (m *Manager) record(r *Record, err error) {
	if m.cfg.Observe != nil {
		m.cfg.Observe(r, reason(r, err))
	}
	m.records.Add(*r)
	m.unreported.add(r)
	m.traffic.observe(r)
}

// observe updates the bandwidth with a large transfer, as Dask does.
func (n *traffic) observe(r *Record) {
	if r.Error != "" || !r.Incoming || r.Bytes < 1_000_000 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	rate := float64(r.Bytes) / max(r.Took.Seconds(), 1e-6)
	n.bandwidth = 0.95*n.total() + 0.05*rate
	if n.peers == nil || len(n.peers) >= maxPeers {
		n.peers = map[string]measured{}
	}
	p := n.peers[r.Peer]
	if p.count == 0 {
		p.rate = rate
	}
	n.peers[r.Peer] = measured{0.95*p.rate + 0.05*rate, p.count + 1}
}

func (n *traffic) total() float64 {
	if n.bandwidth == 0 {
		return startBandwidth
	}
	return n.bandwidth
}

// Bandwidths returns the bandwidths for a heartbeat.
func (m *Manager) Bandwidths() msgpack.Map { return m.traffic.bandwidths() }

func (n *traffic) bandwidths() msgpack.Map {
	n.mu.Lock()
	defer n.mu.Unlock()
	peers := msgpack.Map{}
	for k, v := range n.peers {
		peers = append(peers, msgpack.Pair{Key: k, Value: []any{v.rate, v.count}})
	}
	return msgpack.MapOf("total", n.total(), "workers", peers, "types", msgpack.Map{})
}
