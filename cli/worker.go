package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/secure"
)

const workerLong = `Run workers of a Millstream or Dask scheduler. The flags are those of
` + "`dask worker`" + `; DASK_* variables and the configuration files of Dask apply.
DASK_SCHEDULER_ADDRESS is the default scheduler.

Each worker is a separate process that is restarted if it crashes. It runs the
functions that its program has registered: call cli.Serve() in your program, and
` + "`your-program worker ADDRESS`" + ` is this command with your functions.

Python tasks, in a Dask cluster or from Python clients, run in one Python
process next to each worker, which starts with the first of them. Its
interpreter is that of --python, MILLSTREAM_PYTHON or VIRTUAL_ENV, that of the
virtual environment of this program, or the first python3 on PATH that has
distributed. Without one, or with --no-python, Python
tasks fail.

Ctrl-C or SIGTERM moves the data of the workers to other workers and stops them,
by force after --retire-timeout; a second Ctrl-C stops them immediately.`

// workerFlags are the flags of `worker`.
type workerFlags struct {
	serverFlags
	workerPort, nannyPort string
	listen, contact       string
	nthreads              int
	nworkers              string
	name                  string
	memoryLimit           string
	nanny, noNanny        bool
	localDirectory        string
	resources             string
	deathTimeout          string
	lifetime, stagger     string
	again, notAgain       bool
	class                 string
	preloadNanny          []string
	preloadNannyArgv      []string
	sni                   string
	dataConnections       string
	retireTimeout         string
	python                string
	noPython              bool
}

func workerCommand() *cobra.Command { return workerCommandFor(&workerFlags{}) }

func workerCommandFor(f *workerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "worker [SCHEDULER]",
		Version: Version(),
		Short:   "Run workers that join a scheduler",
		GroupID: groupCluster,
		Long:    workerLong,
		Example: `  millstream worker tls://10.0.0.1:8786 --tls-dir certs --nworkers auto
  millstream worker --scheduler-file sched.json --resources "GPU=2 MEM=10e9"`,
		Args: func(cmd *cobra.Command, args []string) error {
			n := 1
			if f.schedulerFile != "" {
				n = 0
			}
			switch {
			case len(args) <= n:
			case len(f.preload) > 0:
				f.preloadArgv = append(f.preloadArgv, args[n:]...)
			case len(args) > 1:
				return cmdline.ExtraArgument(cmd, args[1], "pass one scheduler")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var address string
			if len(args) > 0 && (f.schedulerFile == "" || len(f.preload) == 0) {
				address = args[0]
			}
			return f.run(cmd.Context(), address, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs, secure.Worker)
	fs.StringVar(&f.schedulerFile, "scheduler-file", "", "scheduler `file` (scheduler --scheduler-file), with the "+
		"address and the certificates")
	fs.IntVar(&f.nthreads, "nthreads", 0, "number of concurrent tasks of each worker (default: processors / workers)")
	fs.StringVar(&f.nworkers, "nworkers", "1",
		"number of worker processes; negative: processors + 1 + this; auto: chosen for the machine")
	fs.StringVar(&f.name, "name", "", "unique name; with --nworkers a number is appended")
	fs.StringVar(&f.memoryLimit, "memory-limit", "auto", "memory limit of each worker: bytes (4GB), a fraction (0.5), "+
		"auto, or 0 for none")
	fs.StringVar(&f.resources, "resources", "", "resources of each worker: \"GPU=2 MEM=10e9\"")
	fs.StringVar(&f.localDirectory, "local-directory", "", "folder for spilled data")
	fs.StringVar(&f.workerPort, "worker-port", "", "port or range first:last (default: any free port)")
	fs.StringVar(&f.listen, "listen-address", "", "address to listen on, such as tls://0.0.0.0:9000")
	fs.StringVar(&f.contact, "contact-address", "", "address to advertise; needs --listen-address")
	fs.StringVar(&f.dataConnections, "data-connections", "auto",
		"data connections over UCX: auto (this host), trusted (all hosts), none")
	fs.StringVar(&f.deathTimeout, "death-timeout", "", "time without a scheduler after which the worker stops "+
		"(default: no limit)")
	fs.StringVar(&f.lifetime, "lifetime", "", "time after which the worker retires (default: no limit)")
	fs.StringVar(&f.stagger, "lifetime-stagger", "", "maximum random change of --lifetime")
	fs.BoolVar(&f.again, "lifetime-restart", false, "restart of the worker after --lifetime")
	fs.BoolVar(&f.notAgain, "no-lifetime-restart", false, "no restart after --lifetime")
	fs.BoolVar(&f.nanny, "nanny", true, "nanny that restarts each worker process if it crashes")
	fs.BoolVar(&f.noNanny, "no-nanny", false, "single worker in this process")
	fs.StringVar(&f.nannyPort, "nanny-port", "", "port or range first:last of the nannies (default: any free port)")
	fs.StringVar(&f.retireTimeout, "retire-timeout", "30s", "time limit for moving data at the end")
	fs.StringVar(&f.python, "python", "", "interpreter for Python tasks (default: searched for, see above)")
	fs.BoolVar(&f.noPython, "no-python", false, "no Python tasks")
	f.addDashboard(fs, ":0", "`host:port` of the HTTP server of each worker; the default host is that of --host, or "+
		"the "+
		"loopback interface")
	fs.StringVar(&f.class, "worker-class", "", "")
	fs.StringArrayVar(&f.preloadNanny, "preload-nanny", nil, "Python module, .py `file` or URL whose dask_setup runs "+
		"in a Python process of each nanny; may be repeated")
	fs.StringArrayVar(&f.preloadNannyArgv, "preload-nanny-argv", nil, "argument of a dask_setup of --preload-nanny "+
		"that is a click command; may be repeated")
	fs.StringVar(&f.sni, "scheduler-sni", "", "")
	fs.String("dashboard-prefix", "", "")
	for _, name := range []string{"no-lifetime-restart", "worker-class", "scheduler-sni", "dashboard-prefix"} {
		_ = fs.MarkHidden(name)
	}
	f.ucx = addUCXFlags(fs)
	return cmd
}

func (f *workerFlags) run(ctx context.Context, address string, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	stderr = cluster.SharedWriter(stderr) // for two loggers and the output of worker processes
	p, err := f.prepare(ctx, address, stderr)
	if err != nil {
		return err
	}
	defer p.undo()
	announce := newAnnouncer(stdout, p.link)
	if f.noNanny || !f.nanny {
		return runAlone(ctx, p.specs[0], p.log, p.timeout, announce)
	}
	listen, err := f.nannyAddress(&p.specs[0])
	if err != nil {
		return err
	}
	cfg, err := f.nannyConfig(listen, &p, stderr, announce)
	if err != nil {
		return err
	}
	return runNannies(ctx, p.specs, nil, cfg, p.timeout)
}

// workerStart is the result of the flags of a command that runs workers.
type workerStart struct {
	log     *slog.Logger
	all     *slog.Logger // log at all levels: worker processes filter their own records
	env     []string     // environment of the worker processes
	specs   []cluster.WorkerSpec
	timeout time.Duration               // time limit for moving data at the end
	undo    func()                      // removes the files and settings of the flags
	link    func(address string) string // URL of an HTTP server that needs a token; nil if they need none
}

// prepare applies the flags to this process and writes the PID file.
func (f *workerFlags) prepare(ctx context.Context, address string, stderr io.Writer) (p workerStart, err error) {
	if p.log, err = f.log.New(stderr); err != nil {
		return p, cmdline.Usage(err)
	}
	if p.all, err = (cluster.LogSpec{Format: f.log.Format, Level: "debug"}).New(stderr); err != nil {
		return p, cmdline.Usage(err)
	}
	// The scheduler writes its file after the certificates.
	if f.schedulerFile != "" {
		if address, err = f.fromFile(ctx, address); err != nil {
			return p, err
		}
	}
	env, restore, err := f.apply()
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			restore()
		}
	}()
	p.env = env
	if err := warnUnsupported(secure.Worker, p.log); err != nil {
		return p, err
	}
	if p.specs, err = f.specs(address, p.log); err != nil {
		return p, err
	}
	link, env, restoreToken, err := workerToken(p.specs[0].Dashboard)
	if err != nil {
		return p, err
	}
	p.link, p.env = link, append(p.env, env...)
	defer func() {
		if err != nil {
			restoreToken()
		}
	}()
	if p.timeout, err = parseTimeout("--retire-timeout", f.retireTimeout); err != nil {
		return p, err
	}
	removePID, err := f.writePID()
	if err != nil {
		return p, err
	}
	p.undo = func() {
		removePID()
		restoreToken()
		restore()
	}
	return p, nil
}

// nannyConfig returns the configuration of the nannies.
func (f *workerFlags) nannyConfig(listen string, p *workerStart, stderr io.Writer,
	announce *announcer) (cluster.NannyConfig, error) {
	preload, argv, err := f.nannyPreload()
	return cluster.NannyConfig{
		Preload: preload, PreloadArgv: argv,
		Listen: listen,
		// Tasks may print; standard output is for the output of this command.
		Stdout: stderr, Stderr: stderr, Env: p.env, Logger: p.log, WorkerLogger: p.all, Changed: announce.changed,
		StartTimeout: -1, // the scheduler may start later, as with `dask worker`
	}, err
}

// announcer prints the addresses of workers, each once.
type announcer struct {
	mu   sync.Mutex
	w    io.Writer
	seen map[string]bool
	link func(address string) string // nil for none
}

func newAnnouncer(w io.Writer, link func(string) string) *announcer {
	return &announcer{w: w, seen: map[string]bool{}, link: link}
}

func (a *announcer) changed(i cluster.WorkerInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i.State != cluster.Running || a.seen[i.Address] {
		return
	}
	a.seen[i.Address] = true
	line := "worker at " + i.Address + " pid " + strconv.Itoa(i.PID)
	if i.Name != "" && i.Name != i.Address {
		line = "worker " + i.Name + line[len("worker"):]
	}
	if len(i.DataAddresses) > 0 {
		line += " data " + strings.Join(i.DataAddresses, " ")
	}
	fmt.Fprintln(a.w, line)
	if a.link != nil && i.HTTP != "" {
		fmt.Fprintln(a.w, "worker dashboard at", a.link(i.HTTP))
	}
}

// runAlone runs one worker in this process.
func runAlone(ctx context.Context, spec cluster.WorkerSpec, log *slog.Logger, timeout time.Duration,
	announce *announcer) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	orders := make(chan string, 1)
	stop := context.AfterFunc(ctx, func() {
		orders <- "retire"
		time.AfterFunc(timeout, cancel)
	})
	defer stop()
	err := cluster.RunWorker(run, spec, log, orders, announce.changed)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("data of the worker not moved within --retire-timeout %v", timeout)
	}
	return err
}

// runNannies runs workers until all have ended, or ctx ends. env, if not nil, has further variables for each.
func runNannies(ctx context.Context, specs []cluster.WorkerSpec, env [][]string, cfg cluster.NannyConfig,
	timeout time.Duration) error {
	nannies := make([]*cluster.Nanny, len(specs))
	for i, spec := range specs {
		own := cfg
		if env != nil {
			own.Env = append(slices.Clone(cfg.Env), env[i]...)
		}
		n, err := cluster.StartNanny(spec, own)
		if err != nil {
			retireWorkers(nannies[:i], timeout)
			return err
		}
		nannies[i] = n
	}
	ended := make(chan struct{})
	go func() {
		for _, n := range nannies {
			<-n.Done()
		}
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		cfg.Logger.Info("workers stopping", "cause", context.Cause(ctx))
		retireWorkers(nannies, timeout)
		return nil
	}
	var errs []error
	for _, n := range nannies {
		errs = append(errs, n.Err())
	}
	return errors.Join(errs...)
}

// retireWorkers retires all workers, and kills those that exceed the timeout.
func retireWorkers(nannies []*cluster.Nanny, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nannies {
		all.Go(func() { _ = n.Retire(ctx) })
	}
	all.Wait()
}
