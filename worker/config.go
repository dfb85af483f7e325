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

// Config configures a Worker. Only Scheduler must be set.
type Config struct {
	// Scheduler is the address of the scheduler, such as tls://10.0.0.1:8786.
	Scheduler string
	// Listen is the address to listen on, such as tcp://0.0.0.0:0 (default: the scheme of the scheduler, the interface
	// that faces it, any port).
	Listen string
	// Contact is the address under which other processes reach the worker (default: the address of the listener).
	Contact string
	// Name is the name of the worker, unique in the cluster (default: its address). A decimal integer is sent as a
	// number, because Dask clusters number their workers.
	Name string
	// Threads is the maximum number of tasks that run at once (default: the number of processors).
	Threads int
	// MemoryLimit is the maximum memory of the process in bytes; 0 means no limit. See AutoMemory for Dask's default.
	MemoryLimit int64
	// Device, if not nil, configures device memory for results: results made there stay there up to its limit
	// (--device-memory-limit). If its Memory is set, data for that device is received into it.
	Device *store.DeviceConfig
	// GPU, if not nil, is the device that task.CurrentDevice returns to tasks.
	GPU *task.Device
	// Memory specifies the fractions of the limit at which the worker spills, pauses or terminates.
	Memory Memory
	// Resources are the resources that tasks may require (distributed.worker.resources).
	Resources map[string]float64
	// LocalDirectory is the directory for spilled data, which is kept in a subdirectory that Close removes (default:
	// the directory of the system for temporary files; temporary-directory).
	LocalDirectory string
	// DeathTimeout closes a worker that has had no scheduler for this duration, at the start or after the connection
	// was lost (default: no limit; --death-timeout).
	DeathTimeout time.Duration
	// CancelGrace is how long the function of a canceled task may take to return. Afterwards the worker starts another
	// thread in its place (default 5 s, negative: no limit).
	CancelGrace time.Duration
	// Lifetime is the duration after which the worker retires; 0 means never (distributed.worker.lifetime.duration).
	Lifetime time.Duration
	// Nanny is the address of a nanny, for Dask's dashboards; usually empty.
	Nanny string
	// DataConnections configures the data connections between Millstream workers.
	DataConnections DataConnections
	// Incoming and Outgoing bound the number of concurrent transfers of data (default 10 and 50,
	// distributed.worker.connections.incoming and outgoing).
	Incoming, Outgoing int
	// AckTimeout is how long a peer may take to acknowledge data that it has requested, plus one second per MiB, before
	// its connection is closed (default 1 min).
	AckTimeout time.Duration
	// MessageBytes is the number of bytes requested in one transfer (default 50 MB,
	// distributed.worker.transfer.message-bytes-limit).
	MessageBytes int64
	// Blocked are ops that the worker rejects (distributed.worker.blocked-handlers).
	Blocked []string
	// Dashboard is the host:port of the HTTP server with /metrics, /health and /millstream/…; "" means no server
	// (--dashboard-address). Without a host the server listens on the loopback interface.
	Dashboard string
	// DashboardHosts are names that the HTTP server accepts in the Host header, in addition to IP addresses, localhost
	// and the name of the machine (--dashboard-hosts).
	DashboardHosts []string
	// DashboardToken is the secret that HTTP requests must have, at least 16 letters and digits (--dashboard-token,
	// millstream.dashboard.token). By default the loopback interface needs none, and a server on another address has a
	// random token, which is not known: set one. "none" admits every request. With certificates in Accept, a
	// server that is not on the loopback interface uses TLS, and accepts client certificates of the cluster as well.
	DashboardToken string
	// Collectors are further collectors for /metrics.
	Collectors []prometheus.Collector
	// OwnProcess indicates that the process runs nothing but the worker: the worker then sets the memory limit of the
	// Go runtime, and closes above Memory.Terminate.
	OwnProcess bool
	// DeathToken, if not empty, is the secret with which a nanny reports the exit of the worker's process to the
	// scheduler (scheduler.DeathOp). The scheduler waits briefly for this report before it removes a worker whose
	// connection was lost.
	DeathToken string
	// Python specifies how Python tasks are run (default: they are rejected).
	Python Python
	// Network is the network to connect through (default comm.Default).
	Network comm.Network
	// Dial and Accept configure outgoing and incoming connections, with their certificates.
	Dial   comm.DialConfig
	Accept comm.ListenConfig
	// Validate checks every invariant of the state after each event (distributed.worker.validate).
	Validate bool
	// Records is the number of transfers and of tasks that are recorded (default 10,000).
	Records int
	// ProfileInterval is the time between samples of the call stacks of tasks (default 10 ms, negative: no samples;
	// distributed.worker.profile.interval and enabled). It is longer where samples would take more than 0.5 % of a
	// processor. ProfileCycle is the resolution in time of the profile (default 1 s; distributed.worker.profile.cycle),
	// and ProfileLength the number of cycles that are kept (default 1000; distributed.admin.low-level-log-length).
	ProfileInterval, ProfileCycle time.Duration
	ProfileLength                 int
	// Logger receives the log of the worker (default slog.Default).
	Logger *slog.Logger
	// Logs, if not nil, holds further lines that get_logs returns, such as the output of tasks.
	Logs *Logs
}

// Memory specifies thresholds as fractions of the memory limit; 0 selects the default and a negative value disables the
// threshold (false in Dask).
type Memory struct {
	// Target is the size of stored data above which the least recently used results are spilled (default 0.6,
	// distributed.worker.memory.target).
	Target float64
	// Spill is the memory of the process above which results are spilled (default 0.7,
	// distributed.worker.memory.spill).
	Spill float64
	// Pause is the memory of the process above which no more tasks are started (default 0.8,
	// distributed.worker.memory.pause).
	Pause float64
	// Terminate is the memory of the process above which the worker closes (default 0.95,
	// distributed.worker.memory.terminate).
	Terminate float64
	// Transfer bounds the data that is being received (default 0.1, distributed.worker.memory.transfer).
	Transfer float64
	// MaxSpill bounds the bytes on disk; 0 means no bound (distributed.worker.memory.max-spill).
	MaxSpill int64
	// Compression is the compression of spilled data (default auto, distributed.worker.memory.spill-compression).
	Compression string
	// Interval is how often the memory of the process is measured (default 100 ms,
	// distributed.worker.memory.monitor-interval).
	Interval time.Duration
	// Usage returns the memory of the process in bytes (default: measured by the operating system). It is for workers
	// that share a process.
	Usage func() int64
}

// DataConnections configures the second, faster connections between Millstream workers, over which results are fetched.
type DataConnections struct {
	// Listen is the address on which the worker accepts data connections, such as ucxx://127.0.0.1:0, or ucxx://:0 for
	// the host of the worker's own address; "" means none.
	Listen string
	// Trusted allows data connections to other hosts. They are not encrypted.
	Trusted bool
	// NoCUDAIPC specifies that the worker neither maps results in memory of its GPU that other workers hold, nor lets
	// them map its own: the setting for UCX without cuda_ipc.
	NoCUDAIPC bool
}

// GoResource is a resource of every Millstream worker; its default amount is the number of threads. Tasks of Dask
// graphs that need Go require it (resources={"go": 1}), so that they do not run on Dask workers.
const GoResource = "go"

// addGoResource returns resources with GoResource.
func addGoResource(resources map[string]float64, threads int) map[string]float64 {
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
