package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"go.millstream.dev/cluster"
	"go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/proc/gcfloor"
	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

const schedulerLong = `Run a scheduler for Millstream and Dask clients and workers. The flags are those
of ` + "`dask scheduler`" + `; DASK_* variables and the configuration files of Dask apply.

Security
  --tls-dir DIR creates certificates for the cluster in DIR, or uses existing
  ones, and prints the settings for Python clients and workers. Without
  encryption the scheduler listens on this machine only, unless --insecure is
  set for a trusted network.

  On the loopback interface HTTP requests need no token. On any other address
  every page except /health needs the token that the printed link contains
  (--dashboard-token, --dashboard-token-file, or a random one), as ?token= or as
  "Authorization: Bearer TOKEN"; with certificates the pages are served over
  https, and client certificates of the cluster are accepted, too.

Durability
  --journal DIR keeps graphs and the requests of clients on disk. A scheduler
  that is killed and restarted with the same DIR continues where it was;
  Millstream clients and workers reconnect automatically.

Python
  Graphs of Python clients that are more than plain calls (dask.array,
  dask.dataframe, dask.delayed, …) are opened by Python helpers next to the
  scheduler; functions of clients that run on the scheduler (run_on_scheduler,
  plugins) run in another helper. Helpers need the packages that the graphs
  import, as the scheduler of Dask does. They run in a sandbox: another user ID
  if the scheduler is root, a read-only file system without keys and journal, a
  private home and /tmp, limits on memory and processes. Helpers that open
  graphs have no network; the one for run_on_scheduler has that of the host. The
  log line "Python helper sandbox" and millstream doctor show what is in force.
  If helpers would run as root, or could read keys and journal, they are not
  started unless --unsafe-python-helpers is set.

Ctrl-C or SIGTERM stops the scheduler and its workers (with --journal they wait
for the next scheduler); a second Ctrl-C stops it immediately.`

type schedulerFlags struct {
	serverFlags
	port        string
	contact     string
	prefix      string
	jupyter     bool
	anyBuild    bool
	journal     string
	idleTimeout string
	history     string
	historySize string
	python      pythonFlags
}

func schedulerCommand() *cobra.Command {
	f := &schedulerFlags{}
	cmd := &cobra.Command{
		Use:     "scheduler",
		Version: Version(),
		Short:   "Run a scheduler",
		GroupID: groupCluster,
		Long:    schedulerLong,
		Example: `  millstream scheduler --tls-dir certs
  millstream scheduler --host 127.0.0.1 --port 0 --scheduler-file sched.json
  millstream scheduler --protocol ucxx --interface ib0 --insecure
  millstream scheduler --address-file $XDG_RUNTIME_DIR/scheduler`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(f.preload) == 0 {
				return cmdline.NoArgs(cmd, args)
			}
			f.preloadArgv = append(f.preloadArgv, args...)
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs, secure.Scheduler)
	fs.StringVar(&f.port, "port", "", "port to listen on (default 8786; 0: any free port)")
	fs.StringVar(&f.contact, "contact-address", "", "address to advertise to workers and clients (default: address of "+
		"the first listener)")
	fs.StringVar(&f.schedulerFile, "scheduler-file", "", "`file` for the address and the paths of certificates, "+
		"for workers and clients")
	f.addDashboard(fs, ":8787", "`host:port` of the HTTP server; the default host is that of --host, or the "+
		"loopback interface")
	fs.StringVar(&f.history, "dashboard-history", "", "`folder` of the history that the dashboard shows (default: "+
		"in that of --journal; without a journal in memory)")
	fs.StringVar(&f.historySize, "dashboard-history-size", "", "limit of the history on disk, such as 10GB "+
		"(default 1GiB)")
	fs.StringVar(&f.idleTimeout, "idle-timeout", "", "idle time after which the scheduler stops, such as 10m")
	fs.StringVar(&f.journal, "journal", "", "folder of the journal (default: no journal)")
	f.python.add(fs)
	fs.StringVar(&f.prefix, "dashboard-prefix", "", "not supported")
	fs.BoolVar(&f.anyBuild, "any-build", false, "accept clients and workers of different builds with the same "+
		"functions "+
		"(rolling upgrades)")
	fs.BoolVar(&f.jupyter, "jupyter", false, "not supported: this process runs no Python")
	fs.Bool("show", true, "")
	fs.Bool("no-show", false, "")
	fs.Bool("no-jupyter", false, "")
	fs.String("use-xheaders", "", "")
	for _, name := range []string{"dashboard-prefix", "jupyter", "no-jupyter", "show", "no-show", "use-xheaders"} {
		_ = fs.MarkHidden(name)
	}
	f.ucx = addUCXFlags(fs)
	return cmd
}

func (f *schedulerFlags) check() error {
	switch {
	case len(f.preload) > 0 && f.python.off:
		return cmdline.Usagef("--preload %s and --no-python exclude each other", f.preload[0])
	case f.jupyter:
		return cmdline.Usagef("--jupyter is not supported: this process runs no Python")
	case f.prefix != "":
		return cmdline.Usagef("--dashboard-prefix is not supported; use a proxy that removes the prefix")
	}
	return f.serverFlags.check()
}

func (f *schedulerFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	log, err := f.log.New(stderr)
	if err != nil {
		return cmdline.Usage(err)
	}
	if f.tlsDir != "" {
		if err := f.makeCertificates(stdout); err != nil {
			return err
		}
	}
	_, restore, err := f.apply()
	if err != nil {
		return err
	}
	defer restore()
	if err := warnUnsupported(secure.Scheduler, log); err != nil {
		return err
	}
	ucx, settings, err := f.ucxSettings()
	if err != nil {
		return err
	}
	cfg, err := f.config(log)
	if err != nil {
		return err
	}
	pool, closePool := cluster.SchedulerPool(settings, log)
	defer closePool()
	cfg.Network = ucxcomm.NewNetwork(*ucx)
	cfg.ListenConfig.Device, cfg.Dial.Device = pool, pool
	cfg.Collectors = append(cfg.Collectors, devmem.Collector{})
	// Every worker has a comm with the scheduler, and few of them carry GPU frames: open no further connections for
	// these.
	cfg.ListenConfig.Staged.Stripes, cfg.Dial.Staged.Stripes = 1, 1
	removePID, err := f.writePID()
	if err != nil {
		return err
	}
	defer removePID()
	raiseFileLimit()
	if err := pyproc.Hide(); err != nil {
		log.Warn("cannot protect the memory of this process from Python processes", "error", err)
	}
	return f.serve(ctx, cfg, log, stdout)
}

// config returns the configuration of the scheduler for the flags.
func (f *schedulerFlags) config(log *slog.Logger) (scheduler.Config, error) {
	c, err := config.Default()
	if err != nil {
		return scheduler.Config{}, err
	}
	cfg, err := scheduler.FromConfig(c)
	if err != nil {
		return cfg, err
	}
	if cfg.Listen, err = f.addresses(log); err != nil {
		return cfg, err
	}
	cfg.AnyBuild = cfg.AnyBuild || f.anyBuild
	cfg.Dashboard, cfg.Journal, cfg.Logger = f.httpBeside(cfg.Listen[0]), f.journal, log
	cfg.DashboardHosts = f.dashboardHosts
	if cfg.DashboardToken == "" && cfg.Dashboard != "" && httpguard.NeedsToken(cfg.Dashboard) {
		cfg.DashboardToken = httpguard.NewToken()
	}
	cfg.ListenConfig.Interface = firstOf(f.iface)
	if f.contact != "" {
		cfg.Contact = f.contact
	}
	if f.history != "" {
		cfg.DashboardHistory = f.history
	}
	if f.historySize != "" {
		cfg.DashboardHistorySize, err = config.ParseBytes(f.historySize)
		if err != nil || cfg.DashboardHistorySize <= 0 {
			return cfg, cmdline.Usagef("--dashboard-history-size %s: want a size such as 10GB", f.historySize)
		}
	}
	if f.idleTimeout != "" {
		if cfg.IdleTimeout, err = parseTimeout("--idle-timeout", f.idleTimeout); err != nil {
			return cfg, err
		}
	}
	python, err := f.python.config()
	python.Preload, python.PreloadArgv = cfg.Python.Preload, cfg.Python.PreloadArgv
	if len(f.preload) > 0 {
		python.Preload, python.PreloadArgv = f.preload, f.preloadArgv
	}
	python.Hide = f.secretFiles(c)
	cfg.Python = python
	return cfg, err
}

// addresses returns the addresses to listen on. As in Dask, --protocol and --port may be lists.
func (f *schedulerFlags) addresses(log *slog.Logger) ([]string, error) {
	if address, err := f.byFile(); err != nil || address != "" {
		if f.port != "" {
			return nil, cmdline.Usagef("--address-file excludes --port")
		}
		return []string{address}, err
	}
	scheme, err := f.scheme()
	if err != nil {
		return nil, err
	}
	protocols, ports, ifaces := strings.Split(scheme, ","), strings.Split(f.port, ","), strings.Split(f.iface, ",")
	if len(ports) > 1 && len(ports) != len(protocols) || len(protocols) > 1 && f.port != "" &&
		len(ports) != len(protocols) {
		return nil, cmdline.Usagef("--protocol %s and --port %s: pass as many ports as protocols", f.protocol, f.port)
	}
	if len(ifaces) > 1 && len(ifaces) != len(protocols) {
		return nil, cmdline.Usagef("--interface %s: pass one, or as many as protocols", f.iface)
	}
	var out []string
	for i, p := range protocols {
		port, fallback := at(ports, i), 0
		if i == 0 {
			fallback = 8786
		} else if len(ports) == 1 {
			port = ""
		}
		address, err := commaddr.ForListener(p, f.host, port, at(ifaces, i), fallback)
		if err != nil {
			return nil, cmdline.Usage(err)
		}
		if err := f.guard(address, log); err != nil {
			return nil, err
		}
		out = append(out, address)
	}
	return out, nil
}

// at returns element i of a list, or its only element.
func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return list[0]
}

func firstOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	return first
}

// limitHeap sets the soft memory limit of the Go runtime to nine tenths of the memory of the machine or the control
// group, so that a container is not killed because of garbage. GOMEMLIMIT takes precedence.
func limitHeap() {
	if total := sysmem.Total(); total > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(total / 10 * 9)
	}
}

// serve runs the scheduler until it ends or ctx does.
func (f *schedulerFlags) serve(ctx context.Context, cfg scheduler.Config, log *slog.Logger, stdout io.Writer) error {
	gcfloor.Set(gcfloor.Scheduler)
	limitHeap()
	s, err := scheduler.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if cfg.Journal != "" {
		// Reading the journal leaves garbage of its size, which would stay until a collection minutes later.
		debug.FreeOSMemory()
	}
	for _, a := range s.Addresses() {
		fmt.Fprintf(stdout, "scheduler at %s\n", a)
	}
	if a := s.DashboardAddress(); a != "" {
		fmt.Fprintf(stdout, "dashboard at %s\n", dashboardLink(a, s.Address(), &cfg))
	}
	if f.schedulerFile != "" {
		tls, err := f.filePaths()
		if err == nil {
			err = writeSchedulerFile(f.schedulerFile, s.Identity(), tls)
		}
		if err != nil {
			return err
		}
		defer os.Remove(f.schedulerFile)
	}
	select {
	case <-s.Done():
		return s.Err()
	case <-ctx.Done():
		log.Info("scheduler stopping", "cause", context.Cause(ctx))
		return s.Close()
	}
}

// filePaths returns the certificates for the scheduler file.
func (f *schedulerFlags) filePaths() (*cluster.SchedulerFileTLS, error) {
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
	trust, err := secure.FromConfig(c)
	if err != nil {
		return nil, err
	}
	if f.tlsDir != "" {
		files, err := secure.FilesIn(f.tlsDir)
		if err != nil {
			return nil, fmt.Errorf("--tls-dir: %w", err)
		}
		trust = *files
	}
	return cluster.NewSchedulerFileTLS(f.tlsDir, trust), nil
}

// makeCertificates creates the certificates of a cluster unless they exist, and prints how to use them.
func (f *schedulerFlags) makeCertificates(stdout io.Writer) error {
	if !exists(filepath.Join(f.tlsDir, "ca.pem")) {
		ca, err := secure.NewCA(secure.CAConfig{})
		if err != nil {
			return err
		}
		if _, err := ca.WriteFiles(f.tlsDir); err != nil {
			return fmt.Errorf("--tls-dir: %w", err)
		}
	}
	s, err := secure.FilesIn(f.tlsDir)
	if err != nil {
		return fmt.Errorf("--tls-dir: %w", err)
	}
	fmt.Fprintf(stdout, "certificates in %s: use --tls-dir for workers, millstream.ConnectOptions{TLSDir: …} for Go "+
		"clients\nPython: %s\n", f.tlsDir, s.Python())
	for _, v := range s.Env() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(stdout, "  export %s=%s\n", name, cmdline.Quote(value))
	}
	return nil
}

// raiseFileLimit raises the limit of open files to half of the hard limit, as the scheduler of Dask does.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max/2 {
		limit.Cur = limit.Max / 2
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// parseTimeout parses the value of a flag: "30s", or a number of seconds.
func parseTimeout(flag, text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	if err != nil {
		return 0, cmdline.Usagef("%s %s: want a time such as 30s, 10m or 2h (%v)", flag, text, err)
	}
	return d, nil
}
