package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/secure"
)

// Config configures a scheduler. Its zero value listens on tcp://:8786 with the defaults of Dask and without TLS.
type Config struct {
	// Listen are the addresses to serve, such as tcp://:8786 or inproc:// (default tcp://:8786).
	Listen []string
	// Contact is the address to advertise to workers and clients (default that of the first listener;
	// distributed.scheduler.contact-address).
	Contact string
	// Network opens the comms (default comm.Default).
	Network comm.Network
	// ListenConfig and Dial configure the comms, TLS included.
	ListenConfig comm.ListenConfig
	Dial         comm.DialConfig
	// ID identifies the scheduler (default "Scheduler-" and a random part).
	ID string
	// Dashboard is the address, host:port, on which the HTTP server listens, with /health, /metrics and /millstream/…;
	// "" for none (--dashboard-address, default :8787). Without a host it is the loopback interface; 0.0.0.0:8787 is
	// all interfaces.
	Dashboard string
	// DashboardHosts are names that the HTTP server accepts in the Host header, in addition to IP addresses, localhost
	// and the host name of the machine (--dashboard-hosts).
	DashboardHosts []string
	// DashboardToken is the secret that HTTP requests must have, at least 16 letters and digits (--dashboard-token,
	// millstream.dashboard.token). By default the loopback interface needs none, and a server on another address has a
	// random token, which is not known: set one. "none" admits every request. With certificates in ListenConfig, a
	// server that is not on the loopback interface uses TLS, and accepts client certificates of the cluster as well.
	DashboardToken string
	// DashboardHistory is the folder of the history of tasks and transfers that the dashboard shows (default: the
	// folder dashboard in that of the journal; without a journal the history is kept in memory;
	// millstream.dashboard.history). DashboardHistorySize bounds its size in bytes; the oldest part is dropped
	// (default 1 GiB; millstream.dashboard.history-size).
	DashboardHistory     string
	DashboardHistorySize int64
	// Collectors are further metrics of the process that /metrics serves, such as those of its GPU memory (default
	// none).
	Collectors []prometheus.Collector
	// Journal is the directory of the journal; "" for none.
	Journal string
	// Reattach is how long a scheduler that was started from a journal waits for its workers before it recomputes
	// results that they may still hold (default 5 s, or until all workers are back), and how long scattered data is
	// kept after its only worker has lost its connection. Forget is how long a Millstream client that has lost its
	// connection, or its scheduler, may stay away before its futures are released (default 1 min).
	Reattach, Forget time.Duration
	// AllowedFailures is the number of lost workers that may have been running a task before the task fails (default 3,
	// negative: none; distributed.scheduler.allowed-failures).
	AllowedFailures int
	// WorkerTTL is how long a worker may send no heartbeat before it is removed (default 5 min, negative: no limit;
	// distributed.scheduler.worker-ttl).
	WorkerTTL time.Duration
	// IdleTimeout is how long the scheduler may be idle before it closes (default no limit;
	// distributed.scheduler.idle-timeout).
	IdleTimeout time.Duration
	// NoWorkersTimeout is how long a task may wait for a worker that can run it before the task fails (default no
	// limit; distributed.scheduler.no-workers-timeout).
	NoWorkersTimeout time.Duration
	// UnrunnableAfter is how long tasks that no running worker can run may wait before a warning is logged and sent to
	// Millstream clients (default 3 s, negative: never; millstream.scheduler.unrunnable-after). The warning is repeated
	// after intervals that double.
	UnrunnableAfter time.Duration
	// Closed declares that no workers will join whose program and resources differ from those of the present workers,
	// as in a cluster of one program: tasks that none of them can run because of missing functions, build, Python or
	// resources fail at once instead of waiting. See Scheduler.Open.
	Closed bool
	// AnyBuild lets workers run tasks of clients that have the same functions in another build of the program, for
	// rolling upgrades (default false; millstream.any-build). Functions whose code has changed then return the results
	// of the build that ran them.
	AnyBuild bool
	// NoStealing turns work stealing off (distributed.scheduler.work-stealing). StealingInterval is the time between
	// two rounds of stealing (default 1 s, at least 10 ms; distributed.scheduler.work-stealing-interval).
	NoStealing       bool
	StealingInterval time.Duration
	// ReplicaInterval is the interval at which the active memory manager drops replicas of results that no task needs
	// (default 2 s, negative: only on request of a client; distributed.scheduler.active-memory-manager.interval and
	// start). Replicas that a Go client has requested are kept.
	ReplicaInterval time.Duration
	// RecentToOld is the time after which memory of workers that is not that of results counts as permanent (default
	// 30 s; distributed.worker.memory.recent-to-old-time).
	RecentToOld time.Duration
	// Saturation is the number of root tasks per thread that a worker receives before the rest is queued (default 1.1,
	// math.Inf(1) for no queue; distributed.scheduler.worker-saturation).
	Saturation float64
	// RootishGroups and RootishTasks bound the dependencies of root tasks: the groups of tasks that their group depends
	// on, and the tasks in those (default 5 and 5; distributed.scheduler.rootish-taskgroup and
	// rootish-taskgroup-dependencies).
	RootishGroups, RootishTasks int
	// RebalanceSenderMin is the fraction of its memory limit from which on Client.rebalance moves results away from a
	// worker, and RebalanceRecipientMax that up to which a worker receives results (default none;
	// distributed.worker.memory.rebalance.sender-min and recipient-max).
	RebalanceSenderMin, RebalanceRecipientMax float64
	// Bandwidth is the initial estimate of the bandwidth between workers, in bytes per second (default 100 MB/s;
	// distributed.scheduler.bandwidth).
	Bandwidth float64
	// DataSize is the assumed size of a result of unknown size, in bytes (default 1 KiB;
	// distributed.scheduler.default-data-size).
	DataSize int64
	// TaskDuration is the assumed duration of a task before the first of its prefix has run (default 500 ms;
	// distributed.scheduler.unknown-task-duration). TaskDurations are those of known prefixes
	// (distributed.scheduler.default-task-durations).
	TaskDuration  time.Duration
	TaskDurations map[string]time.Duration
	// LeaseTimeout is how long a lease of a semaphore or lock is valid without a refresh, unless its owner specifies a
	// timeout (default 30 s; distributed.scheduler.locks.lease-timeout). LeaseInterval is the interval at which leases
	// are checked (default 10 s; distributed.scheduler.locks.lease-validation-interval).
	LeaseTimeout, LeaseInterval time.Duration
	// LogLength is the number of events that are kept for each topic, and the number of transitions of tasks (default
	// 1000; distributed.admin.low-level-log-length).
	LogLength int
	// EventsDelay is how long the events of a disconnected peer are kept (default 1 h;
	// distributed.scheduler.events-cleanup-delay).
	EventsDelay time.Duration
	// TaskStream and Transfers are the numbers of completed tasks and of transfers between workers that are kept for
	// the dashboard (default 100,000, as distributed.scheduler.dashboard.tasks.task-stream-length, and 10,000).
	TaskStream, Transfers int
	// ProfileInterval is the time between samples of the call stacks of the scheduler (default 10 ms, negative: no
	// samples; distributed.worker.profile.interval and enabled), at least a tenth of ProfileCycle, and longer where
	// samples would take more than 0.5 % of a processor. ProfileCycle is the resolution in time of profiles (default 1
	// s; distributed.worker.profile.cycle). LogLength cycles are kept.
	ProfileInterval, ProfileCycle time.Duration
	// Python configures the Python processes that open graphs of Python clients.
	Python PythonConfig
	// Blocked are ops that are rejected (distributed.scheduler.blocked-handlers).
	Blocked []string
	// Validate checks the whole state after each event, for tests (distributed.scheduler.validate).
	Validate bool
	// Outgoing is the number of bytes that may wait for one peer that does not read before the peer is disconnected
	// (default 1 GiB).
	Outgoing int64
	// OutgoingTotal is the number of bytes that may wait for all peers together; above it the peer with the most
	// waiting bytes is disconnected (default 4 GiB; millstream.scheduler.outgoing).
	OutgoingTotal int64
	// EventBytes is the number of bytes of events that are kept for all topics, an eighth of them at most for one topic
	// (default 64 MiB; millstream.scheduler.events).
	EventBytes int64
	// PrimitiveBytes is the number of bytes that variables, queues, datasets, locks, metadata and plugins may hold
	// together; further ones are rejected (default 1 GiB; millstream.scheduler.primitives).
	PrimitiveBytes int64
	// Logger receives the log messages of the scheduler (default slog.Default).
	Logger *slog.Logger

	// httpAPI serves Dask's API over HTTP even if no token is needed: distributed.scheduler.http.routes has
	// distributed.http.scheduler.api.
	httpAPI bool
	// maxRecord is the largest record of the journal in bytes. Tests set it.
	maxRecord int
	// flood is the number of messages per second of one client above which a warning is logged. Tests set it.
	flood int
	// releaseStep is the number of keys of a client that are released at once. Tests set it.
	releaseStep int
}

// releaseStep is the default of Config.releaseStep.
const releaseStep = 4096

// FromConfig returns a Config with the settings of Dask configuration. The caller sets fields that have flags only,
// such as addresses and the journal.
func FromConfig(c *config.Config) (Config, error) {
	var out Config
	var errs []error
	duration := func(key string, to *time.Duration) {
		if c.Get(key, nil) == nil {
			return
		}
		d, err := c.Duration(key, 0)
		errs = append(errs, err)
		*to = d
	}
	const at = "distributed.scheduler."
	duration(at+"worker-ttl", &out.WorkerTTL)
	if e, ok := c.Entry(at + "worker-ttl"); ok && e.Value == nil {
		out.WorkerTTL = -1 // null in Dask: no limit
	}
	duration(at+"idle-timeout", &out.IdleTimeout)
	duration(at+"no-workers-timeout", &out.NoWorkersTimeout)
	duration("millstream.scheduler.unrunnable-after", &out.UnrunnableAfter)
	duration(at+"work-stealing-interval", &out.StealingInterval)
	duration(at+"active-memory-manager.interval", &out.ReplicaInterval)
	duration("distributed.worker.memory.recent-to-old-time", &out.RecentToOld)
	duration(at+"unknown-task-duration", &out.TaskDuration)
	duration(at+"locks.lease-timeout", &out.LeaseTimeout)
	duration(at+"locks.lease-validation-interval", &out.LeaseInterval)
	duration(at+"events-cleanup-delay", &out.EventsDelay)

	var err error
	add := func() { errs = append(errs, err) }
	out.Contact, err = c.String(at+"contact-address", "")
	if c.Get(at+"contact-address", nil) == nil {
		out.Contact, err = "", nil
	}
	add()
	failures, err := c.Int(at+"allowed-failures", 3)
	add()
	out.AllowedFailures = int(failures)
	if failures == 0 {
		out.AllowedFailures = -1
	}
	out.Bandwidth, err = c.Float(at+"bandwidth", 0)
	add()
	for key, to := range map[string]*int{"rootish-taskgroup": &out.RootishGroups,
		"rootish-taskgroup-dependencies": &out.RootishTasks} {
		n, err := c.Int(at+key, 0)
		if err == nil && (n < 0 || n > math.MaxInt32) {
			err = fmt.Errorf("scheduler: %s is %d: use a non-negative number", at+key, n)
		}
		errs = append(errs, err)
		*to = int(n)
	}
	for key, to := range map[string]*float64{"sender-min": &out.RebalanceSenderMin,
		"recipient-max": &out.RebalanceRecipientMax} {
		key = "distributed.worker.memory.rebalance." + key
		if *to, err = c.Float(key, 0); err == nil && !(*to >= 0 && *to <= 1) {
			err = fmt.Errorf("scheduler: %s is %v: use a fraction from 0 to 1", key, *to)
		}
		add()
	}
	out.DataSize, err = c.Bytes(at+"default-data-size", 0)
	add()
	const own = "millstream.scheduler."
	for key, to := range map[string]*int64{"outgoing": &out.OutgoingTotal, "events": &out.EventBytes,
		"primitives": &out.PrimitiveBytes} {
		if c.Get(own+key, nil) != nil {
			*to, err = c.Bytes(own+key, 0)
			add()
		}
	}
	if c.Get("millstream.dashboard.history", nil) != nil {
		out.DashboardHistory, err = c.String("millstream.dashboard.history", "")
		add()
	}
	if c.Get("millstream.dashboard.history-size", nil) != nil {
		out.DashboardHistorySize, err = c.Bytes("millstream.dashboard.history-size", 0)
		add()
	}
	if manage, err := managesReplicas(c); err != nil || !manage {
		errs = append(errs, err)
		out.ReplicaInterval = -1
	}
	steal, err := c.Bool(at+"work-stealing", true)
	add()
	out.NoStealing = !steal
	if text, ok := c.Get(at+"worker-saturation", nil).(string); ok && text == "inf" {
		out.Saturation = math.Inf(1)
	} else {
		out.Saturation, err = c.Float(at+"worker-saturation", 0)
		add()
	}
	out.Validate, err = c.Bool(at+"validate", false)
	add()
	if c.Get("millstream.any-build", nil) != nil {
		out.AnyBuild, err = c.Bool("millstream.any-build", false)
		add()
	}
	out.Blocked, err = c.Strings(at+"blocked-handlers", nil)
	add()
	out.Python.Preload, err = c.Strings(at+"preload", nil)
	add()
	out.Python.PreloadArgv, err = c.Strings(at+"preload-argv", nil)
	add()
	if c.Get(at+"http.routes", nil) != nil {
		routes, err := c.Strings(at+"http.routes", nil)
		errs = append(errs, err)
		out.httpAPI = slices.Contains(routes, "distributed.http.scheduler.api")
	}
	log, err := c.Int("distributed.admin.low-level-log-length", 0)
	add()
	out.LogLength = int(log)
	length, err := c.Int(at+"dashboard.tasks.task-stream-length", 0)
	add()
	out.TaskStream = int(length)
	out.ProfileInterval, out.ProfileCycle, err = profile.FromConfig(c)
	add()
	if m, ok := c.Get(at+"default-task-durations", nil).(*config.Map); ok {
		out.TaskDurations = map[string]time.Duration{}
		for e := range m.All() {
			name, _ := e.Key.(string)
			d, err := c.Duration(at+"default-task-durations."+name, 0)
			errs = append(errs, err)
			out.TaskDurations[name] = d
		}
	}
	text := func(key string) string {
		if c.Get(key, nil) == nil {
			return ""
		}
		s, err := c.String(key, "")
		errs = append(errs, err)
		return s
	}
	out.DashboardToken, err = httpguard.Token(text("millstream.dashboard.token"),
		text("millstream.dashboard.token-file"))
	add()
	out.Dial, out.ListenConfig, err = comm.FromConfig(c, secure.Scheduler)
	add()
	if err := errors.Join(errs...); err != nil {
		return Config{}, fmt.Errorf("scheduler: configuration: %w", err)
	}
	return out, nil
}

// managesReplicas reports whether the active memory manager runs at the start, with the policy ReduceReplicas.
func managesReplicas(c *config.Config) (bool, error) {
	const at = "distributed.scheduler.active-memory-manager."
	if start, err := c.Bool(at+"start", true); err != nil || !start {
		return false, err
	}
	policies, ok := c.Get(at+"policies", nil).(config.List)
	return !ok || slices.ContainsFunc(policies, func(v any) bool {
		m, _ := v.(*config.Map)
		e, _ := m.Entry("class")
		return e.Value == "distributed.active_memory_manager.ReduceReplicas"
	}), nil
}

// withDefaults returns c with defaults in unset fields.
func (c Config) withDefaults() Config {
	if len(c.Listen) == 0 {
		c.Listen = []string{"tcp://:8786"}
	}
	if c.Network == nil {
		c.Network = comm.Default
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Reattach = cmp.Or(c.Reattach, 5*time.Second)
	c.Forget = cmp.Or(c.Forget, time.Minute)
	c.AllowedFailures = cmp.Or(c.AllowedFailures, 3)
	c.WorkerTTL = cmp.Or(c.WorkerTTL, 5*time.Minute)
	c.StealingInterval = max(cmp.Or(c.StealingInterval, time.Second), 10*time.Millisecond)
	c.ReplicaInterval = cmp.Or(c.ReplicaInterval, 2*time.Second)
	c.RecentToOld = cmp.Or(c.RecentToOld, 30*time.Second)
	c.UnrunnableAfter = cmp.Or(c.UnrunnableAfter, 3*time.Second)
	c.Saturation = cmp.Or(c.Saturation, 1.1)
	c.Bandwidth = cmp.Or(c.Bandwidth, 100e6)
	c.DataSize = cmp.Or(c.DataSize, 1024)
	c.TaskDuration = cmp.Or(c.TaskDuration, 500*time.Millisecond)
	c.LeaseTimeout = cmp.Or(c.LeaseTimeout, 30*time.Second)
	c.LeaseInterval = cmp.Or(c.LeaseInterval, 10*time.Second)
	c.LogLength = cmp.Or(c.LogLength, 1000)
	c.EventsDelay = cmp.Or(c.EventsDelay, time.Hour)
	c.TaskStream = cmp.Or(c.TaskStream, 100_000)
	c.Transfers = cmp.Or(c.Transfers, 10_000)
	c.Python.GraphTimeout = cmp.Or(c.Python.GraphTimeout, 10*time.Minute)
	c.Outgoing = cmp.Or(c.Outgoing, 1<<30)
	c.OutgoingTotal = cmp.Or(c.OutgoingTotal, 4<<30)
	c.EventBytes = cmp.Or(c.EventBytes, 64<<20)
	c.PrimitiveBytes = cmp.Or(c.PrimitiveBytes, 1<<30)
	c.flood = cmp.Or(c.flood, floodRate)
	c.releaseStep = cmp.Or(c.releaseStep, releaseStep)
	return c
}

// PythonConfig configures the Python processes of the scheduler. They open graphs that are more than calls of
// functions; the graphs of submit and map need no Python.
type PythonConfig struct {
	// Interpreter is the Python program (default MILLSTREAM_PYTHON, that of VIRTUAL_ENV, or the first on PATH that
	// imports distributed; --python).
	Interpreter string
	// Off runs no Python at all: graphs that need Python fail (--no-python).
	Off bool
	// Processes is the number of processes that open graphs (default the number of CPUs, at least 2). Each serves one
	// client. While all of them are busy for seconds, up to four times as many are started.
	Processes int
	// Idle is the time for which an idle process is kept (default 1 min).
	Idle time.Duration
	// GraphTimeout is the maximum time to open one graph (default 10 min; --graph-timeout).
	GraphTimeout time.Duration
	// Memory bounds the private memory of a process in bytes (default half of the memory of the machine or its cgroup;
	// negative: none; --helper-memory), Disk its private folders (default 512 MiB; --helper-disk), and MaxProcesses the
	// number of processes and threads in it (default 256; negative: none).
	Memory, Disk, MaxProcesses int64
	// Preload are Python modules, paths of .py files or URLs that run in the process of functions of clients when the
	// scheduler starts: dask_setup is called with the facade of the scheduler, dask_teardown before it closes
	// (distributed.scheduler.preload; --preload). PreloadArgv are the arguments of a dask_setup that is a click command
	// (distributed.scheduler.preload-argv; --preload-argv).
	Preload, PreloadArgv []string
	// Hide are files and folders that the processes must not read, such as keys. The journal is always hidden.
	Hide []string
	// AllowUnsafe starts the processes even if they would run as root, or if Hide and the journal cannot be hidden from
	// them (--unsafe-python-helpers).
	AllowUnsafe bool
}
