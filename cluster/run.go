package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/proc/gcfloor"
	"go.millstream.dev/ucx"
	"go.millstream.dev/worker"
)

// config returns the configuration of the worker, based on Dask's configuration.
func (s *WorkerSpec) config(log *slog.Logger) (worker.Config, error) {
	if err := s.check(); err != nil {
		return worker.Config{}, err
	}
	settings, err := config.Default()
	if err != nil {
		return worker.Config{}, err
	}
	cfg, err := worker.FromConfig(settings)
	if err != nil {
		return cfg, err
	}
	cfg.Scheduler, cfg.Name, cfg.Listen, cfg.Contact = s.Scheduler, s.Name, s.Listen, s.Contact
	cfg.Threads, cfg.MemoryLimit, cfg.DeathTimeout, cfg.Dashboard = s.Threads, s.MemoryLimit, s.DeathTimeout,
		s.Dashboard
	cfg.DashboardHosts = s.DashboardHosts
	cfg.Collectors = append(cfg.Collectors, devmem.Collector{}) // GPU memory of this process, if any
	cfg.LocalDirectory = cmp.Or(s.LocalDirectory, cfg.LocalDirectory)
	cfg.Validate = cfg.Validate || s.Validate
	cfg.Logger, cfg.Logs, cfg.Nanny = log, s.logs, s.Nanny
	if len(s.Resources) > 0 {
		cfg.Resources = s.Resources
	}
	cfg.Accept.Interface = s.Interface
	cfg.Python.Enabled = s.Python
	cfg.Python.Interpreter = cmp.Or(s.Interpreter, cfg.Python.Interpreter)
	if len(s.Preload) > 0 {
		cfg.Python.Preload, cfg.Python.PreloadArgv = s.Preload, s.PreloadArgv
	}
	if s.Identity != nil {
		cfg.Python.Security = worker.PythonSecurity(string(s.Identity.CA), string(s.Identity.Cert),
			string(s.Identity.Key))
		if cfg.Dial.TLS, err = s.Identity.Dial(); err != nil {
			return cfg, err
		}
		if cfg.Accept.TLS, err = s.Identity.Listen(); err != nil {
			return cfg, err
		}
	}
	ucxSettings, err := s.ucxSettings()
	if err != nil {
		return cfg, err
	}
	cfg.DataConnections = worker.DataConnections{Listen: s.dataListen(log), Trusted: s.DataTrusted,
		NoCUDAIPC: !ucxenv.Allows(cmp.Or(os.Getenv("UCX_TLS"), ucxSettings.Options["TLS"]), "cuda_ipc")}
	cfg.Network = s.network(ucxSettings)
	return cfg, nil
}

// dataListen returns the address for data connections, "" for none.
func (s *WorkerSpec) dataListen(log *slog.Logger) string {
	scheme, _ := commaddr.Parse(cmp.Or(s.Listen, s.Scheduler))
	switch {
	case s.DataListen == "":
		return ""
	case s.DataListen != "auto":
		return s.DataListen
	case scheme == "inproc" || scheme == "ucx" || scheme == "ucxx" || scheme == ucxcomm.FileScheme:
		return "" // the control connection is as fast
	}
	if err := ucx.Available(); err != nil {
		log.Info("no data connections: UCX not available", "error", err)
		return ""
	}
	if s.UCX != nil && !canConnectByIP(s.UCX.Options) {
		log.Warn("no data connections: UCX connects by IP addresses over tcp or "+
			"rdmacm, and neither is enabled", "UCX_TLS", s.UCX.Options["TLS"])
		return ""
	}
	if devices := os.Getenv("UCX_NET_DEVICES"); devices != "" && devices != ucxenv.LoopbackDevice() &&
		scheme == "tls" && !s.DataTrusted {
		log.Warn("no data connections: UCX would listen on devices that other hosts reach; unset UCX_NET_DEVICES, or "+
			"allow that with --data-connections trusted",
			"UCX_NET_DEVICES", devices)
		return ""
	}
	host := "127.0.0.1"
	if s.DataTrusted { // to other hosts; "" is the host of the worker's own address
		host = ""
		if h, _, err := comm.AddressHostPort(s.Listen); err == nil {
			host = h
		}
	}
	return "ucxx://" + net.JoinHostPort(host, "0")
}

// canConnectByIP reports whether UCX can connect by IP addresses with these options: without tcp in the list of
// transports it needs rdmacm.
func canConnectByIP(options map[string]string) bool {
	if strings.Contains(options["SOCKADDR_TLS_PRIORITY"], "rdmacm") {
		return true
	}
	list, without := strings.CutPrefix(options["TLS"], "^")
	names := strings.Split(list, ",")
	return list == "" || (slices.Contains(names, "tcp") || slices.Contains(names, "all")) != without
}

// ucxSettings returns the UCX settings of the specification, or else those of the configuration.
func (s *WorkerSpec) ucxSettings() (ucxcomm.Settings, error) {
	if s.UCX != nil {
		return *s.UCX, nil
	}
	c, err := config.Default()
	if err != nil {
		return ucxcomm.Settings{}, err
	}
	read, err := c.Settings(config.Overrides{})
	if err != nil {
		return ucxcomm.Settings{}, err
	}
	return ucxcomm.FromConfig(read), nil
}

// network returns the network of the worker and of its nanny: that of this machine, with UCX settings.
func (s *WorkerSpec) network(settings ucxcomm.Settings) comm.Network {
	scheme, _ := commaddr.Parse(cmp.Or(s.Listen, s.Scheduler))
	if !s.DataTrusted && scheme != "ucx" && scheme != "ucxx" && scheme != ucxcomm.FileScheme {
		// Data stays on this host: comms over the loopback interface need no other device, and must not listen on one.
		settings.Options = maps.Clone(settings.Options)
		maps.DeleteFunc(settings.Options, func(name, _ string) bool {
			return strings.TrimPrefix(name, "UCX_") == "NET_DEVICES"
		})
	}
	return ucxcomm.NewNetwork(settings)
}

// ErrRestart is returned by RunWorker when the worker has ended and must be replaced.
var ErrRestart = errors.New("cluster: worker must be restarted")

// RunWorker runs a worker in this process until it ends: ctx ends it forcibly, the channel of orders, which may be nil,
// gracefully: "retire" moves data to other workers first, "close" does not. ready is called when the worker is
// registered. The error is nil if the end was requested by this process or by the scheduler. The process should have no
// other purpose: RunWorker changes settings of the Go runtime.
func RunWorker(ctx context.Context, spec WorkerSpec, log *slog.Logger, orders <-chan string,
	ready func(WorkerInfo)) error {
	device, err := spec.prepare(ctx, log)
	defer device.close(log)
	if err != nil {
		return err
	}
	cfg, err := spec.config(log)
	if err != nil {
		return err
	}
	device.apply(&cfg)
	cfg.OwnProcess = true
	cfg.DeathToken = spec.DeathToken
	if os.Getenv("GOMAXPROCS") == "" && cfg.Threads > 0 {
		// With all processors busy, a goroutine that waits for the network wakes 17 ms late; with two more threads,
		// after 1.5 ms.
		runtime.GOMAXPROCS(cfg.Threads + 2)
	}
	gcfloor.Set(gcFloor(cfg.MemoryLimit))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := startWorker(ctx, cfg, orders)
	if err != nil || w == nil {
		return err
	}
	ready(WorkerInfo{Name: w.Name(), State: Running, Address: w.Address(), DataAddresses: w.DataAddresses(),
		HTTP: w.Dashboard(),
		PID:  os.Getpid(), Starts: 1})
	return serve(ctx, w, spec, log, orders)
}

// prepare configures the process for the worker. The order matters: threads that start later inherit the processors,
// and UCX uses the context of the GPU. The caller closes the GPU, which is nil without one, also after an error.
func (s *WorkerSpec) prepare(ctx context.Context, log *slog.Logger) (*gpu, error) {
	if s.CPUs != "" {
		if err := setAffinity(s.CPUs); err != nil {
			return nil, err
		}
	}
	spec := s.Device
	if spec == nil {
		var err error
		if spec, err = configuredDevice(s.PoolSize, thisGPUMachine, log); err != nil {
			return nil, err
		}
	}
	var device *gpu
	if spec != nil {
		var err error
		if device, err = spec.setUp(thisGPUMachine, log); err != nil {
			return nil, err
		}
	}
	return device, warmUp(ctx, s.WarmUp, log)
}

// gcFloor returns the size in bytes to which the heap of a worker grows before the first collection: a small part of
// the memory limit, if there is one.
func gcFloor(limit int64) int64 {
	const usual = 128 << 20
	if limit <= 0 {
		return usual
	}
	return min(usual, limit/16)
}

// startWorker starts the worker. It returns nil if an order to end arrives first.
func startWorker(ctx context.Context, cfg worker.Config, orders <-chan string) (*worker.Worker, error) {
	type result struct {
		w   *worker.Worker
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan result, 1)
	go func() {
		w, err := worker.Start(ctx, cfg)
		started <- result{w, err}
	}()
	select {
	case r := <-started:
		return r.w, r.err
	case <-orders:
		cancel()
		if r := <-started; r.err == nil {
			return nil, r.w.Close()
		}
		return nil, nil
	}
}

// serve waits for the end of a worker, and ends it by order.
func serve(ctx context.Context, w *worker.Worker, spec WorkerSpec, log *slog.Logger, orders <-chan string) error {
	var lifetime <-chan time.Time
	if spec.Lifetime > 0 {
		t := time.NewTimer(spec.Lifetime)
		defer t.Stop()
		lifetime = t.C
	}
	retired := make(chan error, 1)
	retiring, restart := false, false
	retire := func() {
		if !retiring {
			retiring = true
			go func() { retired <- w.Retire(ctx) }()
		}
	}
	for {
		select {
		case <-w.Done():
			return outcome(w.Err(), restart)
		case <-ctx.Done():
			_ = w.Close()
			return context.Cause(ctx)
		case <-lifetime:
			lifetime, restart = nil, spec.LifetimeRestart
			retire()
		case err := <-retired:
			if err != nil && ctx.Err() == nil {
				log.Warn("worker ends without moving its data", "error", err)
			}
			_ = w.Close()
		case op := <-orders:
			restart = false
			if op == "retire" && !retiring {
				retire()
				continue
			}
			_ = w.Close()
		}
	}
}

// outcome returns the result of RunWorker for the error of a worker.
func outcome(err error, restart bool) error {
	switch {
	case restart, errors.Is(err, worker.ErrRestart):
		return ErrRestart
	case err == nil, errors.Is(err, worker.ErrClosed), errors.Is(err, worker.ErrSchedulerClosed):
		return nil
	}
	return err
}

// workerRole runs in the worker process that a nanny has started.
func workerRole() int {
	c, err := newChild()
	if err != nil {
		childFailure("%v", err)
		return exitUsage
	}
	var spec WorkerSpec
	if err := c.orders.Decode(&spec); err != nil {
		childFailure("specification of the worker: %v", err)
		return exitUsage
	}
	log, logs, err := c.takeLogs(spec.Log)
	if err != nil {
		childFailure("%v", err)
		return exitUsage
	}
	spec.logs = logs
	orders := make(chan string)
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		for op := range c.await() {
			if op == "" {
				// The parent has ended or no longer needs the worker. A worker that does not end within a second exits.
				cancel(errors.New("parent process ended"))
				time.AfterFunc(time.Second, func() { os.Exit(c.reportEnd(eventClosed, nil)) })
				return
			}
			select {
			case orders <- op:
			case <-ctx.Done():
			}
		}
	}()
	err = RunWorker(ctx, spec, log, orders, func(i WorkerInfo) {
		c.report(event{Event: eventReady, Address: i.Address, DataAddresses: i.DataAddresses, HTTP: i.HTTP})
	})
	switch {
	case err == nil, ctx.Err() != nil:
		return c.reportEnd(eventClosed, nil)
	case errors.Is(err, ErrRestart):
		return c.reportEnd(eventRestart, nil)
	case errors.Is(err, worker.ErrSchedulerLost):
		return c.reportEnd(eventLost, err)
	}
	return c.reportEnd(eventFailed, err)
}

func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
