package cluster

import (
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/secure"
	"go.millstream.dev/worker"
)

// WorkerSpec is all that the process of a worker is told. It travels to the process as
// JSON over its standard input, so keys never stand on a command line or in the
// environment. Whatever it leaves open comes from Dask's configuration, which a process
// inherits from the one that starts it.
type WorkerSpec struct {
	// Scheduler is the scheduler's address.
	Scheduler string `json:"scheduler"`
	// Name is the worker's, unique in the cluster (default: its address).
	Name string `json:"name,omitempty"`
	// Listen is the address to serve, such as tls://127.0.0.1:0 (default: the scheduler's
	// scheme, the interface that faces it, any port), Contact what others use to reach it.
	Listen  string `json:"listen,omitempty"`
	Contact string `json:"contact,omitempty"`
	// Interface is the network interface whose address is announced (ib0, eth0).
	Interface string `json:"interface,omitempty"`
	// Threads is how many tasks run at once (default: the processors of the machine).
	Threads int `json:"threads,omitempty"`
	// MemoryLimit in bytes; 0 is no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// Resources that tasks may ask for.
	Resources map[string]float64 `json:"resources,omitempty"`
	// LocalDirectory is where data is spilled to (default: the system's temporary folder).
	LocalDirectory string `json:"local_directory,omitempty"`
	// DeathTimeout ends a worker that has had no scheduler for so long (default: never).
	DeathTimeout time.Duration `json:"death_timeout,omitempty"`
	// Lifetime retires the worker after so long (default: never); with LifetimeRestart its
	// nanny then starts another.
	Lifetime        time.Duration `json:"lifetime,omitempty"`
	LifetimeRestart bool          `json:"lifetime_restart,omitempty"`
	// DataListen is the address on which the worker accepts data connections, such as ucxx://127.0.0.1:0; "auto" is UCX
	// on the host of Listen if UCX can be loaded; "" means no data connections. DataTrusted allows data connections to
	// other hosts, which are not encrypted.
	DataListen  string `json:"data_listen,omitempty"`
	DataTrusted bool   `json:"data_trusted,omitempty"`
	// Python has the worker run tasks of Python too, in a process beside it (see
	// worker.Python); Interpreter is that of Python (default: one that is found).
	Python      bool   `json:"python,omitempty"`
	Interpreter string `json:"interpreter,omitempty"`
	// CPUs are the processors that the process runs on, such as 0-15,32-47 (default: those
	// that it is given).
	CPUs string `json:"cpus,omitempty"`
	// Device is its GPU, and what is set up on it before the worker starts; nil is none.
	Device *DeviceSpec `json:"device,omitempty"`
	// PoolSize is that of a pool of GPU memory in a worker without a Device, in bytes (default:
	// rmm.pool-size of the configuration); where there is no GPU the log says that it is ignored.
	PoolSize int64 `json:"pool_size,omitempty"`
	// WarmUp are names of registered functions without parameters that it calls before it
	// joins the cluster.
	WarmUp []string `json:"warm_up,omitempty"`
	// Dashboard is the host:port of its HTTP server; "" is none. DashboardHosts are names that
	// it answers to.
	Dashboard      string   `json:"dashboard,omitempty"`
	DashboardHosts []string `json:"dashboard_hosts,omitempty"`
	// Nanny is the address of its nanny, if that has one.
	Nanny string `json:"nanny,omitempty"`
	// Identity is its certificate; without one the files that the configuration names.
	Identity *secure.Identity `json:"identity,omitempty"`
	// UCX are the settings of UCX comms (default: what the configuration says).
	UCX *ucxcomm.Settings `json:"ucx,omitempty"`
	// Log says what it logs.
	Log LogSpec `json:"log"`
	// Validate checks every invariant after each event: for tests.
	Validate bool `json:"validate,omitempty"`
	// DeathToken identifies the process in reports to the scheduler; the nanny makes it.
	DeathToken string `json:"death_token,omitempty"`

	logs *worker.Logs // what get_logs answers besides the worker's own records; nil for none
}

// check finds what no worker can be started with.
func (s *WorkerSpec) check() error {
	switch {
	case s.Scheduler == "":
		return errors.New("cluster: a worker needs the address of a scheduler")
	case s.Threads < 0:
		return fmt.Errorf("cluster: a worker cannot have %d threads", s.Threads)
	case s.MemoryLimit < 0:
		return fmt.Errorf("cluster: a worker cannot have a memory limit of %d bytes", s.MemoryLimit)
	}
	return nil
}
