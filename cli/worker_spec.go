package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.millstream.dev/cluster"
	"go.millstream.dev/comm"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/worker"
)

// check checks the flags without access to the machine.
func (f *workerFlags) check() error {
	alone := f.noNanny || !f.nanny
	switch {
	case len(f.preloadNanny) > 0 && f.noPython:
		return cmdline.Usagef("--preload-nanny %s and --no-python exclude each other", f.preloadNanny[0])
	case len(f.preloadNanny) > 0 && alone:
		return cmdline.Usagef("--preload-nanny %s and --no-nanny exclude each other", f.preloadNanny[0])
	case len(f.preloadNannyArgv) > 0 && len(f.preloadNanny) == 0:
		return cmdline.Usagef("--preload-nanny-argv %s needs --preload-nanny", f.preloadNannyArgv[0])
	case len(f.preload) > 0 && f.noPython:
		return cmdline.Usagef("--preload %s and --no-python exclude each other", f.preload[0])
	case f.class != "" && f.class != "dask.distributed.Worker":
		return cmdline.Usagef("--worker-class %s is a Python class; use `dask worker`", f.class)
	case f.sni != "":
		return cmdline.Usagef("--scheduler-sni is not supported: host names in the certificates of a cluster are  " +
			"not checked")
	case f.python != "" && f.noPython:
		return cmdline.Usagef("--python and --no-python exclude each other")
	case f.contact != "" && f.listen == "":
		return cmdline.Usagef("--contact-address needs --listen-address")
	case f.listen != "" && (f.workerPort != "" || f.host != "" || f.iface != ""):
		return cmdline.Usagef("--listen-address excludes --host, --interface and --worker-port")
	case f.nthreads < 0:
		return cmdline.Usagef("--nthreads %d: want at least 1, or 0 for the default", f.nthreads)
	case f.again && f.notAgain:
		return cmdline.Usagef("--lifetime-restart and --no-lifetime-restart exclude each other")
	case f.nannyPort != "" && alone:
		return cmdline.Usagef("--nanny-port and --no-nanny exclude each other")
	case f.again && alone:
		return cmdline.Usagef("--lifetime-restart and --no-nanny exclude each other")
	case f.dataConnections != "auto" && f.dataConnections != "trusted" && f.dataConnections != "none":
		return cmdline.Usagef("--data-connections %s: want auto, trusted or none", f.dataConnections)
	}
	workers, _, err := f.numbers()
	if err != nil {
		return err
	}
	switch {
	case workers > 1 && alone:
		return cmdline.Usagef("--no-nanny supports one worker, not %d", workers)
	case workers > 1 && f.listen != "":
		return cmdline.Usagef("--listen-address supports one worker, not %d; use --host and --worker-port", workers)
	}
	return f.serverFlags.check()
}

// numbers returns the number of workers, and of threads of each.
func (f *workerFlags) numbers() (workers, threads int, err error) {
	cpus := cluster.CPUs()
	if f.nworkers == "auto" {
		workers, threads = cluster.Layout(cpus)
		return workers, cmp.Or(f.nthreads, threads), nil
	}
	if workers, err = strconv.Atoi(f.nworkers); err != nil {
		return 0, 0, cmdline.Usagef("--nworkers %s: want a number or auto", f.nworkers)
	}
	if workers < 0 {
		workers = cpus + 1 + workers
	}
	if workers <= 0 {
		return 0, 0, cmdline.Usagef("--nworkers %s: no workers on %d processors", f.nworkers, cpus)
	}
	return workers, cmp.Or(f.nthreads, max(1, cpus/workers)), nil
}

// specs returns the specifications of the workers.
func (f *workerFlags) specs(address string, log *slog.Logger) ([]cluster.WorkerSpec, error) {
	workers, threads, err := f.numbers()
	if err != nil {
		return nil, err
	}
	spec := cluster.WorkerSpec{
		Name: f.name, Listen: f.listen, Contact: f.contact, Interface: f.iface, Threads: threads,
		LocalDirectory: f.localDirectory, Log: f.log, DataTrusted: f.dataConnections == "trusted",
	}
	spec.Python, spec.Interpreter = !f.noPython, f.python
	spec.Preload, spec.PreloadArgv = f.preload, f.preloadArgv
	if f.dataConnections != "none" {
		spec.DataListen = "auto"
	}
	if spec.MemoryLimit, err = worker.ParseMemoryLimit(f.memoryLimit, threads); err != nil {
		return nil, cmdline.Usage(fmt.Errorf("--memory-limit: %w", err))
	}
	if f.resources != "" {
		if spec.Resources, err = worker.ParseResources(f.resources); err != nil {
			return nil, cmdline.Usage(fmt.Errorf("--resources: %w", err))
		}
	}
	if spec.DeathTimeout, err = f.schedulerTimeout(); err != nil {
		return nil, err
	}
	if spec.UCX, _, err = f.ucxSettings(); err != nil {
		return nil, err
	}
	flags, err := f.ucx.overrides()
	if err != nil {
		return nil, err
	}
	spec.PoolSize = flags.RMM.PoolSize // the process reads the environment itself
	if spec.Scheduler, err = f.scheduler(address); err != nil {
		return nil, err
	}
	if err := f.listenAddress(&spec, log); err != nil {
		return nil, err
	}
	spec.DashboardHosts = f.dashboardHosts
	spec.Dashboard = f.httpBeside(cmp.Or(spec.Listen, spec.Scheduler))
	specs := make([]cluster.WorkerSpec, workers)
	for i := range specs {
		specs[i] = spec
		if spec.Name != "" && workers > 1 {
			specs[i].Name = spec.Name + "-" + strconv.Itoa(i)
		}
		if specs[i].Lifetime, specs[i].LifetimeRestart, err = f.life(); err != nil {
			return nil, err
		}
	}
	return specs, nil
}

// schedulerTimeout returns how long the worker waits for a scheduler; 0 means no limit.
func (f *workerFlags) schedulerTimeout() (time.Duration, error) {
	if f.deathTimeout == "" {
		return 0, nil
	}
	return parseTimeout("--death-timeout", f.deathTimeout)
}

// fromFile waits for the scheduler file and returns its address. It uses the certificates that the file names unless a
// flag is set.
func (f *workerFlags) fromFile(ctx context.Context, address string) (string, error) {
	if address != "" {
		return "", cmdline.Usagef("pass either %s or --scheduler-file %s", address, f.schedulerFile)
	}
	wait, err := f.schedulerTimeout()
	if err != nil {
		return "", err
	}
	file, err := readSchedulerFile(ctx, f.schedulerFile, wait)
	if err != nil {
		return "", err
	}
	if file.TLS != nil && f.tlsDir == "" && f.caFile == "" && exists(filepath.Join(file.TLS.Dir, "worker-key.pem")) {
		f.tlsDir = file.TLS.Dir
	}
	return file.Address, nil
}

// scheduler returns the address of the scheduler from the command line or the configuration.
func (f *workerFlags) scheduler(address string) (string, error) {
	file, err := f.byFile()
	if err != nil {
		return "", err
	}
	if file != "" && address != "" {
		return "", cmdline.Usagef("pass either %s or --address-file %s", address, f.addressFile)
	}
	address = cmp.Or(address, file)
	if address == "" {
		c, err := config.Default()
		if err != nil {
			return "", err
		}
		if address, err = c.String("scheduler-address", ""); err != nil {
			return "", err
		}
	}
	if address == "" || address == "null" {
		return "", cmdline.Usagef("no scheduler; pass an address, such as tls://10.0.0.1:8786, " +
			"--scheduler-file, or set DASK_SCHEDULER_ADDRESS")
	}
	if !strings.Contains(address, "://") {
		scheme, err := f.scheme()
		if err != nil {
			return "", err
		}
		address = cmp.Or(scheme, commaddr.DefaultScheme) + "://" + address
	}
	if isFile(address) {
		return address, nil
	}
	if _, _, err := comm.AddressHostPort(address); err != nil {
		return "", cmdline.Usage(fmt.Errorf("scheduler %s: %w", address, err))
	}
	return address, nil
}

// listenAddress sets the address of the worker. The default is the interface toward the scheduler, with the scheme of
// the scheduler.
func (f *workerFlags) listenAddress(spec *cluster.WorkerSpec, log *slog.Logger) error {
	if f.listen != "" {
		if _, _, err := comm.AddressHostPort(f.listen); err != nil && !isFile(f.listen) {
			return cmdline.Usage(fmt.Errorf("--listen-address: %w", err))
		}
		return f.guard(f.listen, log)
	}
	if f.host == "" && f.iface == "" && f.workerPort == "" && f.protocol == "" {
		return f.guard(spec.Scheduler, log)
	}
	scheme, _ := commaddr.Parse(spec.Scheduler)
	host := f.host
	if host == "" && f.iface == "" {
		local, err := comm.LocalAddressFor(context.Background(), spec.Scheduler)
		if err != nil {
			return err
		}
		_, host = commaddr.Parse(local)
	}
	if f.protocol != "" {
		scheme = f.protocol
	} else if strings.Contains(host, "://") {
		scheme = ""
	}
	address, err := commaddr.ForListener(scheme, host, f.workerPort, f.iface, 0)
	if err != nil {
		return cmdline.Usage(err)
	}
	spec.Listen, spec.Interface = address, f.iface
	return f.guard(address, log)
}

// nannyAddress returns the address of the nannies, next to the workers, on --nanny-port.
func (f *workerFlags) nannyAddress(spec *cluster.WorkerSpec) (string, error) {
	scheme, host := commaddr.Parse(cmp.Or(spec.Listen, spec.Scheduler))
	if scheme == "inproc" {
		return "", nil
	}
	if spec.Listen == "" || scheme == ucxcomm.FileScheme {
		local, err := comm.LocalAddressFor(context.Background(), cmp.Or(spec.Listen, spec.Scheduler))
		if err != nil {
			return "", err
		}
		_, host = commaddr.Parse(local)
	} else if h, _, err := comm.AddressHostPort(spec.Listen); err == nil {
		host = h
	}
	address, err := commaddr.ForListener(scheme, host, f.nannyPort, "", 0)
	if err != nil {
		return "", cmdline.Usage(fmt.Errorf("--nanny-port: %w", err))
	}
	return address, nil
}

// nannyPreload returns the preloads of nannies and their arguments, from the flags or distributed.nanny.
func (f *workerFlags) nannyPreload() (modules, argv []string, err error) {
	c, err := config.Default()
	if err != nil || f.noPython {
		return nil, nil, err
	}
	modules, argv = f.preloadNanny, f.preloadNannyArgv
	if len(modules) == 0 {
		modules, err = c.Strings("distributed.nanny.preload", nil)
	}
	if err == nil && len(argv) == 0 {
		argv, err = c.Strings("distributed.nanny.preload-argv", nil)
	}
	return modules, argv, err
}

// life returns the lifetime of a worker and whether it restarts, from the flags or distributed.worker.lifetime.
func (f *workerFlags) life() (time.Duration, bool, error) {
	c, err := config.Default()
	if err != nil {
		return 0, false, err
	}
	text := func(flag, key string) string {
		if v := c.Get(key, nil); flag == "" && v != nil {
			return fmt.Sprint(v)
		}
		return flag
	}
	lifetime := text(f.lifetime, "distributed.worker.lifetime.duration")
	if lifetime == "" {
		return 0, false, nil
	}
	d, err := parseTimeout("--lifetime", lifetime)
	if err != nil {
		return 0, false, err
	}
	if stagger := text(f.stagger, "distributed.worker.lifetime.stagger"); stagger != "" {
		s, err := parseTimeout("--lifetime-stagger", stagger)
		if err != nil {
			return 0, false, err
		}
		d = max(time.Second, d+time.Duration((2*rand.Float64()-1)*float64(s)))
	}
	again, err := c.Bool("distributed.worker.lifetime.restart", false)
	return d, (again || f.again) && !f.notAgain && f.nanny && !f.noNanny, err
}
