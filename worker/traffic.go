package worker

import (
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// traffic counts transfers of data, in both directions, and how quick they are.
type traffic struct {
	incoming, incomingTotal, incomingBytes                     atomic.Int64
	outgoing, outgoingTotal, outgoingBytes, outgoingBytesTotal atomic.Int64
	interval                                                   atomic.Int64 // between heartbeats, ns

	mu        sync.Mutex // owns what follows
	bandwidth float64    // bytes per second
	peers     map[string]measured
	delay     float64 // seconds to the scheduler and back
}

// measured is the bandwidth to one peer, in bytes per second, and of how many transfers.
type measured struct {
	rate  float64
	count int64
}

// startBandwidth is Dask's guess (distributed.scheduler.bandwidth).
const startBandwidth = 100_000_000

// maxPeers bounds what is remembered about peers.
const maxPeers = 1024

// transferred notes a transfer that has ended.
func (w *Worker) transferred(t *Transfer) {
	w.transfers.Add(*t)
	w.unreported.add(t)
	if t.Error != "" || !t.Incoming || t.Bytes < 1_000_000 {
		return // as Dask, learn from large ones only
	}
	n := &w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	rate := float64(t.Bytes) / max(t.Took.Seconds(), 1e-6)
	n.bandwidth = 0.95*n.total() + 0.05*rate
	if n.peers == nil || len(n.peers) >= maxPeers {
		n.peers = map[string]measured{}
	}
	p := n.peers[t.Peer]
	if p.count == 0 {
		p.rate = rate
	}
	n.peers[t.Peer] = measured{0.95*p.rate + 0.05*rate, p.count + 1}
}

func (n *traffic) total() float64 {
	if n.bandwidth == 0 {
		return startBandwidth
	}
	return n.bandwidth
}

// latency notes a round trip to the scheduler.
func (n *traffic) latency(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = 0.95*n.delay + 0.05*d.Seconds()
}

func (n *traffic) latencySeconds() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delay
}

// bandwidths is the part of a heartbeat that the scheduler learns the network from.
func (n *traffic) bandwidths() msgpack.Map {
	n.mu.Lock()
	defer n.mu.Unlock()
	peers := msgpack.Map{}
	for k, v := range n.peers {
		peers = append(peers, msgpack.Pair{Key: k, Value: []any{v.rate, v.count}})
	}
	return msgpack.MapOf("total", n.total(), "workers", peers, "types", msgpack.Map{})
}
