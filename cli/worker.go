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

const workerLong = `Runs workers that join a scheduler, Millstream's or Dask's. The flags are those
of ` + "`dask worker`" + `, and DASK_* variables and Dask's configuration files count;
DASK_SCHEDULER_ADDRESS is the scheduler where none is named.

Each worker is a process of its own that is started again when it dies. It runs
the functions that its program has registered: call cli.Serve() in your own
program, and ` + "`your-program worker ADDRESS`" + ` is this command with them.

Tasks of Python, in a Dask cluster or from Python clients, run in one process of
Python beside each worker, which starts with the first of them. Its interpreter
is that of --python, MILLSTREAM_PYTHON or VIRTUAL_ENV, or the first python3 on
PATH that has distributed. Without one, or with --no-python, they are refused.

Ctrl-C or SIGTERM moves the data of the workers to others and ends them, after
--retire-timeout by force; a second Ctrl-C ends everything at once.`

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
	sni                   string
	lanes                 string
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
			if len(args) > 1 {
				return cmdline.ExtraArgument(cmd, args[1], "one scheduler is enough, and there is nothing to preload")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var address string
			if len(args) > 0 {
				address = args[0]
			}
			return f.run(cmd.Context(), address, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	f.add(fs, secure.Worker)
	fs.StringVar(&f.schedulerFile, "scheduler-file", "", "`file` of the scheduler's --scheduler-file, with the "+
		"address and the certificates")
	fs.IntVar(&f.nthreads, "nthreads", 0, "tasks that a worker runs at once (default: the processors divided)")
	fs.StringVar(&f.nworkers, "nworkers", "1",
		"worker processes; negative: processors + 1 + this; auto: as the machine")
	fs.StringVar(&f.name, "name", "", "unique name; with --nworkers a number is appended")
	fs.StringVar(&f.memoryLimit, "memory-limit", "auto", "of each worker: bytes (4GB), a fraction (0.5), "+
		"auto, 0 for none")
	fs.StringVar(&f.resources, "resources", "", "that tasks may ask for, of each worker: \"GPU=2 MEM=10e9\"")
	fs.StringVar(&f.localDirectory, "local-directory", "", "where data is spilled to")
	fs.StringVar(&f.workerPort, "worker-port", "", "port, or range first:last (default: any that is free)")
	fs.StringVar(&f.listen, "listen-address", "", "address to serve, such as tls://0.0.0.0:9000")
	fs.StringVar(&f.contact, "contact-address", "", "address that others use, with --listen-address")
	fs.StringVar(&f.lanes, "lanes", "auto", "data over UCX: auto (this host), trusted (also to others), none")
	fs.StringVar(&f.deathTimeout, "death-timeout", "", "end after so long without a scheduler (default: wait)")
	fs.StringVar(&f.lifetime, "lifetime", "", "retire the worker after so long")
	fs.StringVar(&f.stagger, "lifetime-stagger", "", "vary --lifetime by up to so much")
	fs.BoolVar(&f.again, "lifetime-restart", false, "start another one then")
	fs.BoolVar(&f.notAgain, "no-lifetime-restart", false, "do not")
	fs.BoolVar(&f.nanny, "nanny", true, "each worker in a process that is started again when it dies")
	fs.BoolVar(&f.noNanny, "no-nanny", false, "one worker, in this process")
	fs.StringVar(&f.nannyPort, "nanny-port", "", "port of the nanny, or range first:last (default: any)")
	fs.StringVar(&f.retireTimeout, "retire-timeout", "30s", "how long data may take to move at the end")
	fs.StringVar(&f.python, "python", "", "interpreter for tasks of Python (default: found, see --help)")
	fs.BoolVar(&f.noPython, "no-python", false, "refuse tasks of Python")
	f.addDashboard(fs, ":0", "`host:port` of each worker's HTTP server; without a host that of --host or the "+
		"loopback interface")
	fs.StringVar(&f.class, "worker-class", "", "")
	fs.StringArrayVar(&f.preloadNanny, "preload-nanny", nil, "")
	fs.StringVar(&f.sni, "scheduler-sni", "", "")
	fs.String("dashboard-prefix", "", "")
	for _, name := range []string{"no-lifetime-restart", "worker-class", "preload-nanny", "scheduler-sni",
		"dashboard-prefix"} {
		_ = fs.MarkHidden(name)
	}
	f.ucx = addUCXFlags(fs)
	return cmd
}

func (f *workerFlags) run(ctx context.Context, address string, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	p, err := f.prepare(ctx, address, stderr)
	if err != nil {
		return err
	}
	defer p.undo()
	say := newAnnouncer(stdout)
	if f.noNanny || !f.nanny {
		return runAlone(ctx, p.specs[0], p.log, p.timeout, say)
	}
	listen, err := f.nannyAddress(&p.specs[0])
	if err != nil {
		return err
	}
	return runNannies(ctx, p.specs, nil, nannyConfig(listen, &p, stderr, say), p.timeout)
}

// workerStart is what the flags of a command that runs workers come to.
type workerStart struct {
	log     *slog.Logger
	all     *slog.Logger // log without its level: worker processes apply it to their own records
	env     []string     // of the workers' processes
	specs   []cluster.WorkerSpec
	timeout time.Duration // for data to move at the end
	undo    func()        // gives back what the flags have set and written
}

// prepare makes the settings of the flags count in this process, and writes its file.
func (f *workerFlags) prepare(ctx context.Context, address string, stderr io.Writer) (p workerStart, err error) {
	if p.log, err = f.log.New(stderr); err != nil {
		return p, cmdline.Usage(err)
	}
	if p.all, err = (cluster.LogSpec{Format: f.log.Format, Level: "debug"}).New(stderr); err != nil {
		return p, cmdline.Usage(err)
	}
	// The scheduler writes its file when the certificates are there.
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
	if p.timeout, err = parseTimeout("--retire-timeout", f.retireTimeout); err != nil {
		return p, err
	}
	removePID, err := f.writePID()
	if err != nil {
		return p, err
	}
	p.undo = func() {
		removePID()
		restore()
	}
	return p, nil
}

// nannyConfig is how the workers of a command are looked after.
func nannyConfig(listen string, p *workerStart, stderr io.Writer, say *announcer) cluster.NannyConfig {
	stderr = cluster.SharedWriter(stderr)
	return cluster.NannyConfig{
		Listen: listen,
		// Tasks may print; results of this command are what it says itself.
		Stdout: stderr, Stderr: stderr, Env: p.env, Logger: p.log, WorkerLogger: p.all, Changed: say.changed,
		StartTimeout: -1, // the scheduler may come later, as with `dask worker`
	}
}

// announcer prints where workers are, once for each address.
type announcer struct {
	mu   sync.Mutex
	w    io.Writer
	seen map[string]bool
}

func newAnnouncer(w io.Writer) *announcer { return &announcer{w: w, seen: map[string]bool{}} }

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
		line += " lanes " + strings.Join(i.DataAddresses, " ")
	}
	fmt.Fprintln(a.w, line)
}

// runAlone runs one worker in this process.
func runAlone(ctx context.Context, spec cluster.WorkerSpec, log *slog.Logger, timeout time.Duration,
	say *announcer) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	orders := make(chan string, 1)
	stop := context.AfterFunc(ctx, func() {
		orders <- "retire"
		time.AfterFunc(timeout, cancel)
	})
	defer stop()
	err := cluster.RunWorker(run, spec, log, orders, say.changed)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("the worker's data did not move to others within --retire-timeout %v", timeout)
	}
	return err
}

// runNannies looks after workers until they have all ended, or ctx ends. env, where it is not
// nil, are the variables that each has beside those of cfg.
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
			endNannies(nannies[:i], timeout)
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
		cfg.Logger.Info("workers end", "cause", context.Cause(ctx))
		endNannies(nannies, timeout)
		return nil
	}
	var errs []error
	for _, n := range nannies {
		errs = append(errs, n.Err())
	}
	return errors.Join(errs...)
}

// endNannies retires all workers, and kills those that take too long.
func endNannies(nannies []*cluster.Nanny, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var all sync.WaitGroup
	for _, n := range nannies {
		all.Go(func() { _ = n.Retire(ctx) })
	}
	all.Wait()
}
