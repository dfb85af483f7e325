package cluster

import (
	"errors"
	"fmt"
	"time"

	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/secure"
	"go.millstream.dev/worker"
)

// WorkerSpec specifies a worker process. It is sent to the process as JSON over its standard input, so that keys never
// appear on a command line or in the environment. Defaults are taken from Dask's configuration, which the process
// inherits from its parent.
type WorkerSpec struct {
	// Scheduler is the address of the scheduler.
	Scheduler string `json:"scheduler"`
	// Name is the name of the worker, unique in the cluster (default: its address).
	Name string `json:"name,omitempty"`
	// Listen is the address to listen on, such as tls://127.0.0.1:0 (default: the scheme of the scheduler, the
	// interface with a route to it, any port), Contact the address by which others reach it.
	Listen  string `json:"listen,omitempty"`
	Contact string `json:"contact,omitempty"`
	// Interface is the network interface whose address is announced (ib0, eth0).
	Interface string `json:"interface,omitempty"`
	// Threads is the number of tasks that run at once (default: the processors of the machine).
	Threads int `json:"threads,omitempty"`
	// MemoryLimit is in bytes; 0 means no limit.
	MemoryLimit int64 `json:"memory_limit,omitempty"`
	// Resources are those that tasks can require.
	Resources map[string]float64 `json:"resources,omitempty"`
	// LocalDirectory is the folder for spilled data (default: the system's temporary folder).
	LocalDirectory string `json:"local_directory,omitempty"`
	// DeathTimeout is the time without a scheduler after which the worker ends (default: never).
	DeathTimeout time.Duration `json:"death_timeout,omitempty"`
	// Lifetime is the time after which the worker retires (default: never); with LifetimeRestart its nanny then starts
	// another one.
	Lifetime        time.Duration `json:"lifetime,omitempty"`
	LifetimeRestart bool          `json:"lifetime_restart,omitempty"`
	// DataListen is the address on which the worker accepts data connections, such as ucxx://127.0.0.1:0; "auto" is UCX
	// on the host of Listen if UCX can be loaded; "" means no data connections. DataTrusted allows data connections to
	// other hosts, which are not encrypted.
	DataListen  string `json:"data_listen,omitempty"`
	DataTrusted bool   `json:"data_trusted,omitempty"`
	// Python makes the worker run Python tasks too, in a sidecar process (see worker.Python); Interpreter is the Python
	// interpreter (default: the first one found).
	Python      bool   `json:"python,omitempty"`
	Interpreter string `json:"interpreter,omitempty"`
	// Preload and PreloadArgv are those of worker.Python.
	Preload     []string `json:"preload,omitempty"`
	PreloadArgv []string `json:"preload_argv,omitempty"`
	// CPUs are the processors on which the process runs, such as 0-15,32-47 (default: unchanged).
	CPUs string `json:"cpus,omitempty"`
	// Device describes its GPU and how it is configured before the worker starts; nil means none.
	Device *DeviceSpec `json:"device,omitempty"`
	// PoolSize is the size in bytes of the pool of GPU memory of a worker without a Device (default: rmm.pool-size of
	// the configuration); without a GPU it is ignored with a warning.
	PoolSize int64 `json:"pool_size,omitempty"`
	// WarmUp are names of registered functions without parameters that the worker calls before it registers.
	WarmUp []string `json:"warm_up,omitempty"`
	// Dashboard is the host:port of its HTTP server; "" means none. DashboardHosts are the host names that it accepts
	// in requests.
	Dashboard      string   `json:"dashboard,omitempty"`
	DashboardHosts []string `json:"dashboard_hosts,omitempty"`
	// Nanny is the address of its nanny, if any.
	Nanny string `json:"nanny,omitempty"`
	// Identity is its certificate (default: the files of the configuration).
	Identity *secure.Identity `json:"identity,omitempty"`
	// UCX are the settings of UCX comms (default: those of the configuration).
	UCX *ucxcomm.Settings `json:"ucx,omitempty"`
	// Log specifies how it logs.
	Log LogSpec `json:"log"`
	// Validate checks all invariants after each event, for tests.
	Validate bool `json:"validate,omitempty"`
	// DeathToken identifies the process in reports to the scheduler; the nanny sets it.
	DeathToken string `json:"death_token,omitempty"`

	logs *worker.Logs // further records for get_logs; nil for none
}

// check returns an error if no worker can be started with the specification.
func (s *WorkerSpec) check() error {
	switch {
	case s.Scheduler == "":
		return errors.New("cluster: worker without the address of a scheduler")
	case s.Threads < 0:
		return fmt.Errorf("cluster: worker with %d threads", s.Threads)
	case s.MemoryLimit < 0:
		return fmt.Errorf("cluster: worker with a memory limit of %d bytes", s.MemoryLimit)
	}
	return nil
}
