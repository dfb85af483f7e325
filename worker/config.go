package worker

import (
	"log/slog"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/task"
)

// Config describes a worker. Only Scheduler must be set.
type Config struct {
	// Scheduler is the address of the scheduler, such as tls://10.0.0.1:8786.
	Scheduler string
	// Listen is the address to serve, such as tcp://0.0.0.0:0 (default: the scheduler's
	// scheme, the interface that faces it, any port).
	Listen string
	// Contact is what others use to reach the worker (default: what the listener says).
	Contact string
	// Name is the worker's name, unique in the cluster (default: its address). A whole
	// number travels as one, as Dask's clusters number their workers.
	Name string
	// Threads is how many tasks run at once (default: the processors of the machine).
	Threads int
	// MemoryLimit is what the process may use in bytes; 0 is no limit. See AutoMemory for
	// Dask's default.
	MemoryLimit int64
	// Device, if not nil, is the memory of a device above the host's: results that are made
	// there stay up to its limit. (--device-memory-limit)
	// If it has a Memory, what others send to that device is received into it.
	Device *store.DeviceConfig
	// GPU, if not nil, is what tasks are given by task.CurrentDevice.
	GPU *task.Device
	// Memory are the fractions of the limit at which something is done.
	Memory Memory
	// Resources that tasks may ask for (distributed.worker.resources).
	Resources map[string]float64
	// LocalDirectory is where data is spilled to, in a folder of its own that is removed at
	// the end (default: the system's folder for temporary files; temporary-directory).
	LocalDirectory string
	// DeathTimeout ends a worker that has had no scheduler for so long, at the start and
	// after the connection was lost (default: it waits for ever; --death-timeout).
	DeathTimeout time.Duration
	// CancelGrace is how long the function of a cancelled task may take to return before the worker goes on
	// without it, with another thread in its place (default 5 s, negative: for ever).
	CancelGrace time.Duration
	// Lifetime ends the worker gracefully after so long, 0 never
	// (distributed.worker.lifetime.duration).
	Lifetime time.Duration
	// Nanny is the address of a nanny, for Dask's dashboards; usually empty.
	Nanny string
	// DataConnections configures the data connections between Millstream workers.
	DataConnections DataConnections
	// Incoming and Outgoing bound how many transfers of data run at once (default 10 and
	// 50, distributed.worker.connections.incoming and outgoing).
	Incoming, Outgoing int
	// AckTimeout is how long a peer that has asked for data may take to acknowledge it, besides a second for
	// each MiB, before its connection is closed (default 1 min).
	AckTimeout time.Duration
	// MessageBytes is how much is asked for in one transfer (default 50 MB,
	// distributed.worker.transfer.message-bytes-limit).
	MessageBytes int64
	// Blocked are ops that the worker refuses (distributed.worker.blocked-handlers).
	Blocked []string
	// Dashboard is the host:port of the HTTP server with /metrics, /health and
	// /millstream/…; "" is none (--dashboard-address). Without a host it is the loopback
	// interface.
	Dashboard string
	// DashboardHosts are names that the HTTP server answers to in the Host header, in addition
	// to IP addresses, localhost and the name of the machine (--dashboard-hosts).
	DashboardHosts []string
	// Collectors are further metrics at /metrics.
	Collectors []prometheus.Collector
	// OwnProcess tells that nothing but the worker lives in the process: it then gives Go's
	// garbage collector the memory limit, and ends itself above Memory.Terminate.
	OwnProcess bool
	// DeathToken, if not empty, is the secret by which a nanny reports to the scheduler how the process of
	// the worker ended (scheduler.DeathOp): the scheduler waits a moment for the report before it removes a
	// worker whose connection was lost.
	DeathToken string
	// Python says how tasks of Python are run (default: they are refused).
	Python Python
	// Network is what it connects through (default comm.Default).
	Network comm.Network
	// Dial and Accept say how, with the certificates.
	Dial   comm.DialConfig
	Accept comm.ListenConfig
	// Validate checks every invariant of the state after each event
	// (distributed.worker.validate).
	Validate bool
	// Records is how many transfers and how many tasks are remembered (default 10,000).
	Records int
	// Logger gets what the worker has to say (default slog.Default).
	Logger *slog.Logger
	// Logs, if not nil, holds further lines that get_logs answers, such as the output of tasks.
	Logs *Logs
}

// Memory are fractions of the memory limit; 0 stands for the default and a negative one
// turns the step off (false in Dask).
type Memory struct {
	// Target of data that is kept: above it the least recently used goes to disk (default
	// 0.6, distributed.worker.memory.target).
	Target float64
	// Spill is when the process's memory makes data go to disk (default 0.7,
	// distributed.worker.memory.spill).
	Spill float64
	// Pause is when no more tasks are started (default 0.8,
	// distributed.worker.memory.pause).
	Pause float64
	// Terminate is when the worker ends (default 0.95, distributed.worker.memory.terminate).
	Terminate float64
	// Transfer bounds what is under way to the worker (default 0.1,
	// distributed.worker.memory.transfer).
	Transfer float64
	// MaxSpill bounds the bytes on disk; 0 is no bound (distributed.worker.memory.max-spill).
	MaxSpill int64
	// Compression of what is spilled (default auto,
	// distributed.worker.memory.spill-compression).
	Compression string
	// Interval is how often the process's memory is looked at (default 100 ms,
	// distributed.worker.memory.monitor-interval).
	Interval time.Duration
	// Usage measures the process's memory in bytes (default: what the system says). It is
	// for workers that share a process.
	Usage func() int64
}

// DataConnections configures the second, faster connections between Millstream workers, over which results are fetched.
type DataConnections struct {
	// Listen is the address on which the worker accepts data connections, such as ucxx://127.0.0.1:0, or ucxx://:0 for
	// the host of the worker's own address; "" means none.
	Listen string
	// Trusted allows data connections to other hosts. They are not encrypted.
	Trusted bool
}

// GoResource is the resource that every worker of Millstream has: as much as threads, unless
// its configuration says otherwise. Tasks of Dask's graphs that need Go ask for it
// (resources={"go": 1}), and Dask's own workers then do not get them.
const GoResource = "go"

func withGo(resources map[string]float64, threads int) map[string]float64 {
	if _, ok := resources[GoResource]; ok {
		return resources
	}
	out := maps.Clone(resources)
	if out == nil {
		out = map[string]float64{}
	}
	out[GoResource] = float64(threads)
	return out
}
