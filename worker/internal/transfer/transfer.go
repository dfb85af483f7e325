// Package transfer moves results between a worker and its peers: it fetches the dependencies of tasks, serves get_data,
// opens data connections next to the control connections, and records transfers and their bandwidth.
package transfer

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// Config configures a Manager.
type Config struct {
	Logger  *slog.Logger
	Network comm.Network
	// Dial configures connections to peers, Accept the listener of the data connection.
	Dial   comm.DialConfig
	Accept comm.ListenConfig
	// Listen is the address of the data connection, "" for none: then peers do not read the memory of this process
	// either. Trusted allows data connections to other hosts.
	Listen  string
	Trusted bool
	// Outgoing bounds the number of concurrent transfers to peers.
	Outgoing int
	// AckTimeout is the time in which a peer must acknowledge data; one second per MiB is added.
	AckTimeout time.Duration
	// Records is the number of transfers that are recorded.
	Records int
	// Observe, if not nil, is called with each transfer that has ended, for metrics; reason is one of Reasons if the
	// transfer failed, otherwise "".
	Observe func(r *Record, reason string)
	// Data holds the results.
	Data *store.Store
	// NoCUDAIPC excludes the mapping of GPU memory, here and by peers.
	NoCUDAIPC bool
	// Table, if not nil, has the results in GPU memory that peers on this machine may copy without a request.
	Table *peermem.Table
	// Worker has the functions of the worker.
	Worker Worker
}

// Worker has the functions of a worker that a Manager uses. All fields must be set.
type Worker struct {
	// Context ends when the worker closes.
	Context context.Context
	// Go starts a goroutine for which the worker waits when it closes.
	Go func(func())
	// Paused reports whether the worker is short of memory: it then serves one peer at a time.
	Paused func() bool
	// Lost is called with a result that cannot be read back from disk.
	Lost func(key task.Key, err error)
	// Encode encodes values that are held outside of the process. It returns the remaining entries of held and releases
	// the others.
	Encode func(held []*store.Entry) []*store.Entry
	// IsActor reports whether a result is an actor, which cannot be moved.
	IsActor func(key task.Key) bool
	// Room waits until the values of a Fetch fit into memory. Deliver takes over a Fetch that has ended.
	Room    func(f *Fetch)
	Deliver func(f *Fetch)
}

// Manager moves results. Any goroutine may use it.
type Manager struct {
	cfg     Config
	w       Worker
	log     *slog.Logger
	data    *store.Store
	address string // of the worker; set by Listen

	peers       *rpc.Pool      // control connections
	dataPeers   *dataconn.Book // data connections; nil without an own one
	memory      peermem.Peers  // peers on this machine
	server      *rpc.Server
	own         string // address of the own data connection
	invitations *secure.Invitations

	outgoing, outgoingTotal, outgoingBytes, outgoingBytesTotal atomic.Int64

	traffic    traffic
	records    *record.Ring[Record]
	unreported reportLog
}

// New returns a Manager. It serves no data connection before Listen.
func New(cfg Config) *Manager {
	dial := cfg.Dial.To(secure.Worker)
	dial.Timeout = dialTimeout(dial.Timeout)
	m := &Manager{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Data,
		peers:   rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: dial}),
		records: record.NewRing[Record](cfg.Records)}
	if !cfg.NoCUDAIPC {
		m.memory.Device = dial.Device
	}
	return m
}

// dialTimeout returns the timeout of connecting to a peer. Peers that the scheduler reports are already listening: a
// rejected connection means that the peer is dead.
func dialTimeout(configured time.Duration) time.Duration {
	const limit = 3 * time.Second
	if configured > 0 {
		return min(configured, limit)
	}
	return limit
}

// Address returns the address of the own data connection, "" without one.
func (m *Manager) Address() string { return m.own }

// StopServing closes the own data connection.
func (m *Manager) StopServing() {
	if m.server != nil {
		_ = m.server.Close()
	}
}

// Close closes all connections to peers.
func (m *Manager) Close() {
	m.StopServing()
	if m.dataPeers != nil {
		_ = m.dataPeers.Close()
	}
	_ = m.peers.Close()
	m.memory.Close()
}

// Records returns the last transfers, oldest first.
func (m *Manager) Records() []Record { return m.records.All() }

// Counts are counters of outgoing transfers.
type Counts struct {
	// Open and OpenBytes count the transfers in progress.
	Open, OpenBytes int64
	// Total and TotalBytes count all transfers since the start.
	Total, TotalBytes int64
}

// Counts returns the counters of outgoing transfers.
func (m *Manager) Counts() Counts {
	return Counts{Open: m.outgoing.Load(), OpenBytes: m.outgoingBytes.Load(), Total: m.outgoingTotal.Load(),
		TotalBytes: m.outgoingBytesTotal.Load()}
}

// Echo sends data to a peer, which sends it back.
func (m *Manager) Echo(ctx context.Context, peer string, data []byte) error {
	reply, err := m.peers.Do(ctx, peer, "echo", msgpack.MapOf("op", "echo", "data", wire.Serialize{Value: data}))
	if err == nil {
		reply.Release()
	}
	return err
}
