package peernet

import (
	"errors"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/task"
)

// ErrNoPeers is returned by Of for a host without connections.
var ErrNoPeers = errors.New("peernet: worker has no connections to other processes")

// Peers has the connections of a worker's tasks. A worker sets Network and Dial before its first use; its methods are
// safe for concurrent use. It must not be copied.
type Peers struct {
	// Network and Dial specify how to connect to the scheduler and to other workers.
	Network comm.Network
	Dial    comm.DialConfig
	// Address is where other processes open channels with this one; "" is the address of the worker. A process that
	// takes part in cliques next to a Dask worker has a listener of its own.
	Address string

	mu       sync.Mutex
	channels map[string]Acceptor // guarded by mu
	closed   bool                // guarded by mu
}

// Of returns the connections of a host, which the worker has stored there. The error is ErrNoPeers if there are none.
func Of(h *task.Host) (*Peers, error) {
	if p, ok := h.Peers.(*Peers); ok && p != nil {
		return p, nil
	}
	return nil, ErrNoPeers
}

// Close stops serving channels; open ones stay open. It may be called twice. The host calls it.
func (p *Peers) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.channels = true, nil
	return nil
}
