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
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/proc/gcfloor"
	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/secure"
)

const schedulerLong = `Runs a scheduler, to which workers and clients connect: those of Millstream, and
Dask's, whose messages it speaks. The flags are those of ` + "`dask scheduler`" + `, and
DASK_* variables and Dask's configuration files count.

Security
  --tls-dir DIR makes certificates for the cluster in DIR, or uses those that
  are there, and prints what Python clients and workers need to use them.
  Addresses without encryption are served on this machine alone, unless
  --insecure says that the network can be trusted.

Durability
  --journal DIR keeps graphs and what clients wait for on disk. A scheduler that
  is killed and started again with the same DIR goes on where it was; Millstream
  clients and workers come back by themselves.

Python
  Graphs of Python clients that are more than plain calls (dask.array,
  dask.dataframe, dask.delayed, …) are opened by Python helpers next to the
  scheduler, and what clients run on it (run_on_scheduler, plugins) runs in
  another one. Helpers need what the clients' graphs import, as Dask's own
  scheduler does. They run in a sandbox: another user id if the scheduler is
  root, a read-only file system without its keys and journal, a private home and
  /tmp, limits on memory and processes. Opening graphs has no network;
  run_on_scheduler has the host's. The log line "Python helper sandbox" and
  millstream doctor show what the system allows. Where helpers would run as root
  or could reach keys and journal, they are not started, unless
  --unsafe-python-helpers accepts that.

Ctrl-C or SIGTERM ends the scheduler, and with it its workers (with --journal
they wait for the next one); a second Ctrl-C ends it at once.`

type schedulerFlags struct {
	serverFlags
	port        string
	contact     string
	prefix      string
	jupyter     bool
	anyBuild    bool
	journal     string
	idleTimeout string
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
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs, secure.Scheduler)
	fs.StringVar(&f.port, "port", "", "port to serve (default 8786; 0: any that is free)")
	fs.StringVar(&f.contact, "contact-address", "", "address to advertise to workers and clients (default: that of "+
		"the first listener)")
	fs.StringVar(&f.schedulerFile, "scheduler-file", "", "`file` to write the address and the paths of certificates "+
		"to, for workers and clients")
	f.addDashboard(fs, ":8787", "`host:port` of the HTTP server; without a host that of --host or the "+
		"loopback interface")
	fs.StringVar(&f.idleTimeout, "idle-timeout", "", "end after so long without work, such as 10m")
	fs.StringVar(&f.journal, "journal", "", "folder of the journal (default: none is kept)")
	f.python.add(fs)
	fs.StringVar(&f.prefix, "dashboard-prefix", "", "not here yet")
	fs.BoolVar(&f.anyBuild, "any-build", false, "let workers run tasks of clients with the same functions in another "+
		"build (rolling upgrades)")
	fs.BoolVar(&f.jupyter, "jupyter", false, "not here: this process runs no Python")
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
	case f.jupyter:
		return cmdline.Usagef("--jupyter: this process runs no Python")
	case f.prefix != "":
		return cmdline.Usagef("--dashboard-prefix: put a proxy in front of --dashboard-address that removes the prefix")
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
	// Every worker has a comm with it, and few of them carry frames of a GPU: no further connections for these.
	cfg.ListenConfig.Staged.Stripes, cfg.Dial.Staged.Stripes = 1, 1
	removePID, err := f.writePID()
	if err != nil {
		return err
	}
	defer removePID()
	raiseFileLimit()
	if err := pyproc.Hide(); err != nil {
		log.Warn("a Python process that a client has taken over might read this one's memory", "error", err)
	}
	return f.serve(ctx, cfg, log, stdout)
}

// config is the scheduler that the flags describe.
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
	cfg.ListenConfig.Interface = firstOf(f.iface)
	if f.contact != "" {
		cfg.Contact = f.contact
	}
	if f.idleTimeout != "" {
		if cfg.IdleTimeout, err = parseTimeout("--idle-timeout", f.idleTimeout); err != nil {
			return cfg, err
		}
	}
	cfg.Python, err = f.python.config()
	cfg.Python.Hide = f.secretFiles(c)
	return cfg, err
}

// addresses are those to serve. As with Dask, --protocol and --port may be lists.
func (f *schedulerFlags) addresses(log *slog.Logger) ([]string, error) {
	if address, err := f.byFile(); err != nil || address != "" {
		if f.port != "" {
			return nil, cmdline.Usagef("--address-file does without IP addresses: leave out --port")
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
		return nil, cmdline.Usagef("--protocol %s and --port %s: give as many ports as protocols", f.protocol, f.port)
	}
	if len(ifaces) > 1 && len(ifaces) != len(protocols) {
		return nil, cmdline.Usagef("--interface %s: give one, or as many as protocols", f.iface)
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

// at is element i of a list, or its only one.
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

// serve runs the scheduler until it ends by itself or ctx does.
func (f *schedulerFlags) serve(ctx context.Context, cfg scheduler.Config, log *slog.Logger, stdout io.Writer) error {
	gcfloor.Set(gcfloor.Scheduler)
	limitHeap()
	s, err := scheduler.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if cfg.Journal != "" {
		// What reading left behind is as large as the journal, and would stay until a collection minutes later.
		debug.FreeOSMemory()
	}
	for _, a := range s.Addresses() {
		fmt.Fprintf(stdout, "scheduler at %s\n", a)
	}
	if a := s.DashboardAddress(); a != "" {
		fmt.Fprintf(stdout, "dashboard at %s\n", browserURL(a, s.Address()))
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
		log.Info("scheduler ends", "cause", context.Cause(ctx))
		return s.Close()
	}
}

// filePaths returns the certificates that the scheduler file names.
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

// makeCertificates makes the files of a cluster, unless they are there, and says how to use
// them.
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
	fmt.Fprintf(stdout, "certificates are in %s: --tls-dir for workers, millstream.ConnectOptions{TLSDir: …} for Go "+
		"clients\nPython: %s\n", f.tlsDir, s.Python())
	for _, v := range s.Env() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(stdout, "  export %s=%s\n", name, shellQuote(value))
	}
	return nil
}

// shellQuote writes a value so that a shell reads it back.
func shellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-./:=@%+,", r))
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// raiseFileLimit lets the process have half of the descriptors that the system allows, as
// Dask's scheduler does: each peer takes some.
func raiseFileLimit() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < limit.Max/2 {
		limit.Cur = limit.Max / 2
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
}

// parseTimeout reads a time of a flag: "30s", or a number of seconds.
func parseTimeout(flag, text string) (time.Duration, error) {
	d, err := config.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("it is negative")
	}
	if err != nil {
		return 0, cmdline.Usagef("%s %s: want a time such as 30s, 10m or 2h (%v)", flag, text, err)
	}
	return d, nil
}
