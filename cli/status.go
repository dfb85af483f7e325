package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/cli/internal/report"
	"go.millstream.dev/cli/internal/top"
	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// statusReport is the output of `millstream status --json`.
type statusReport struct {
	Address string `json:"address"`
	ID      string `json:"id"`
	// Started is when the scheduler started.
	Started time.Time      `json:"started"`
	Threads int64          `json:"threads"`
	Memory  int64          `json:"memory"`
	Workers []statusWorker `json:"workers"`
	// Tasks are counts by state; for a Dask scheduler, those that the workers report.
	Tasks map[string]int64 `json:"tasks"`
}

type statusWorker struct {
	Address string `json:"address"`
	Name    string `json:"name"`
	Status  string `json:"status"`
	Threads int64  `json:"threads"`
	// Executing is the number of running tasks, InMemory that of results.
	Executing int64 `json:"executing"`
	InMemory  int64 `json:"in_memory"`
	// Memory is that of the process in bytes; MemoryLimit is 0 without a limit.
	Memory      int64   `json:"memory"`
	MemoryLimit int64   `json:"memory_limit"`
	CPU         float64 `json:"cpu_percent"`
}

func statusCommand() *cobra.Command {
	var asJSON bool
	var wait time.Duration
	trust := serverFlags{role: secure.Client}
	cmd := &cobra.Command{
		Use:     "status [SCHEDULER]",
		Short:   "Show the workers, tasks and memory of a running cluster",
		GroupID: groupCluster,
		Long: `Show the workers of a Millstream or Dask scheduler, the number of tasks in each
state, and memory. The default address is DASK_SCHEDULER_ADDRESS.`,
		Example: `  millstream status tcp://127.0.0.1:8786
  millstream status tls://10.0.0.1:8786 --tls-dir certs
  millstream status --scheduler-file scheduler.json --json | jq .tasks`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdline.ExtraArgument(cmd, args[1], "pass one scheduler")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := trust.check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			address, err := trust.target(ctx, append(args, "")[0])
			if err != nil {
				return err
			}
			r, err := readStatus(ctx, address)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				enc := json.NewEncoder(out)
				enc.SetIndent("", "  ")
				return enc.Encode(r)
			}
			r.write(out)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "output as JSON")
	cmd.Flags().DurationVar(&wait, "timeout", 10*time.Second, "time limit for the reply")
	cmd.Flags().StringVar(&trust.tlsDir, "tls-dir", "", "`folder` with the certificates of the cluster")
	cmd.Flags().StringVar(&trust.schedulerFile, "scheduler-file", "", "scheduler `file` (scheduler --scheduler-file)")
	trust.log.Format, trust.log.Level = "text", "info"
	return cmd
}

// target returns the address of the scheduler of a command line, and applies its certificates to this process, which
// ends with the command.
func (f *serverFlags) target(ctx context.Context, address string) (string, error) {
	if f.schedulerFile != "" {
		if address != "" {
			return "", cmdline.Usagef("pass either %s or --scheduler-file %s", address, f.schedulerFile)
		}
		file, err := readSchedulerFile(ctx, f.schedulerFile, 0)
		if err != nil {
			return "", err
		}
		address = file.Address
		if t := file.TLS; t != nil && f.tlsDir == "" {
			f.caFile, f.cert, f.key, f.tlsDir = t.CAFile, t.ClientCert, t.ClientKey, t.Dir
		}
	}
	if address == "" {
		c, err := config.Default()
		if err != nil {
			return "", err
		}
		if address, err = c.String("scheduler-address", ""); err != nil {
			return "", err
		}
	}
	if address == "" {
		return "", cmdline.Usagef("no scheduler; pass an address or --scheduler-file, or set DASK_SCHEDULER_ADDRESS")
	}
	_, _, err := f.apply()
	return address, err
}

func readStatus(ctx context.Context, address string) (*statusReport, error) {
	var id msgpack.Map
	if err := callScheduler(ctx, address, "identity", wire.NewDict("n_workers", -1), &id); err != nil {
		return nil, err
	}
	return newStatus(id), nil
}

// source asks a scheduler about its cluster.
type source struct {
	address string
	pool    *rpc.Pool
	failed  atomic.Pointer[error] // reason of the last failed attempt to connect, which the deadline hides
}

func newSource(address string) (*source, error) {
	c, err := config.Default()
	if err != nil {
		return nil, err
	}
	dial, _, err := comm.FromConfig(c, secure.Client)
	if err != nil {
		return nil, err
	}
	network, err := networkOf(c)
	if err != nil {
		return nil, err
	}
	s := &source{address: address}
	dial.Retrying = func(err error) { s.failed.Store(&err) }
	s.pool = rpc.NewPool(network, rpc.PoolConfig{Dial: dial})
	return s, nil
}

// call sends a request to the scheduler.
func (s *source) call(ctx context.Context, op string, args, reply any) error {
	err := s.pool.Call(ctx, commaddr.Normalize(s.address), op, args, reply)
	if err == nil {
		return nil
	}
	if cause := s.failed.Load(); cause != nil && ctx.Err() != nil {
		return fmt.Errorf("scheduler at %s: connection timed out: %w; check that the scheduler is running", s.address,
			*cause)
	}
	return fmt.Errorf("scheduler at %s: %w", s.address, err)
}

// callScheduler sends one request to a scheduler.
func callScheduler(ctx context.Context, address, op string, args, reply any) error {
	s, err := newSource(address)
	if err != nil {
		return err
	}
	defer s.pool.Close()
	return s.call(ctx, op, args, reply)
}

// newStatus converts the identity of a scheduler.
func newStatus(id msgpack.Map) *statusReport {
	r := &statusReport{Address: id.GetString("address"), ID: id.GetString("id"), Threads: integer(id, "total_threads"),
		Memory:  integer(id, "total_memory"),
		Workers: []statusWorker{}, Tasks: map[string]int64{}}
	if v, ok := id.Get("started"); ok {
		seconds, _ := v.(float64)
		r.Started = time.UnixMilli(int64(seconds * 1e3)).UTC()
	}
	var threads, memory int64
	for _, p := range submap(id, "workers") {
		d, _ := p.Value.(msgpack.Map)
		m := submap(d, "metrics")
		counts := submap(m, "task_counts")
		w := statusWorker{Address: fmt.Sprint(p.Key), Status: d.GetString("status"), Threads: integer(d, "nthreads"),
			MemoryLimit: integer(d, "memory_limit"),
			Memory:      integer(m, "memory"), Executing: integer(counts, "executing"),
			InMemory: integer(counts, "memory")}
		if n, ok := d.Get("name"); ok && n != nil {
			w.Name = fmt.Sprint(n)
		}
		if v, ok := m.Get("cpu"); ok {
			w.CPU, _ = v.(float64)
		}
		threads, memory = threads+w.Threads, memory+w.MemoryLimit
		for _, c := range counts {
			r.Tasks[fmt.Sprint(c.Key)] += integer(counts, fmt.Sprint(c.Key))
		}
		r.Workers = append(r.Workers, w)
	}
	r.Threads, r.Memory = cmp.Or(r.Threads, threads), cmp.Or(r.Memory, memory)
	if own := submap(id, "millstream"); own != nil {
		clear(r.Tasks)
		for _, c := range submap(own, "tasks") {
			r.Tasks[fmt.Sprint(c.Key)], _ = c.Value.(int64)
		}
	}
	slices.SortFunc(r.Workers, func(a, b statusWorker) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Address, b.Address))
	})
	return r
}

func submap(m msgpack.Map, key string) msgpack.Map {
	v, _ := m.Get(key)
	d, _ := v.(msgpack.Map)
	return d
}

func integer(m msgpack.Map, key string) int64 {
	v, _ := m.Get(key)
	n, _ := v.(int64)
	return n
}

func (r *statusReport) write(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("scheduler", "%s, up %v", r.Address, time.Since(r.Started).Round(time.Second))
	line("workers", "%d with %s and %s of memory", len(r.Workers), count(int(r.Threads), "thread"),
		benchfmt.FormatSize(r.Memory))
	states := []string{}
	for _, name := range slices.Sorted(maps.Keys(r.Tasks)) {
		if r.Tasks[name] > 0 {
			states = append(states, fmt.Sprintf("%d %s", r.Tasks[name], name))
		}
	}
	if len(states) == 0 {
		states = []string{"none"}
	}
	line("tasks", "%s", strings.Join(states, ", "))
	if len(r.Workers) == 0 {
		return
	}
	fmt.Fprintln(w)
	columns := []benchfmt.Column{{Name: "worker"}, {Name: "address"}, {Name: "status"}, {Name: "threads", Right: true},
		{Name: "running", Right: true},
		{Name: "results", Right: true}, {Name: "CPU %", Right: true}, {Name: "memory", Right: true},
		{Name: "limit", Right: true}}
	var rows [][]string
	for _, x := range r.Workers {
		limit := "none"
		if x.MemoryLimit > 0 {
			limit = benchfmt.FormatSize(x.MemoryLimit)
		}
		rows = append(rows, []string{x.Name, x.Address, x.Status, fmt.Sprint(x.Threads), fmt.Sprint(x.Executing),
			fmt.Sprint(x.InMemory),
			fmt.Sprintf("%.0f", x.CPU), benchfmt.FormatSize(x.Memory), limit})
	}
	benchfmt.WriteColumns(w, "  ", columns, rows)
}

func reportCommand() *cobra.Command {
	var o report.Options
	var wait time.Duration
	trust := serverFlags{role: secure.Client}
	cmd := &cobra.Command{
		Use:     "report [SCHEDULER]",
		Short:   "Write the dashboard of a cluster into one HTML file",
		GroupID: groupCluster,
		Long: `Write the pages of the dashboard, with the tasks and transfers of its history,
into one HTML file that opens without a server and without network. The source
is a running scheduler with a dashboard (default DASK_SCHEDULER_ADDRESS), or a
history on disk (scheduler --dashboard-history, or the folder dashboard of its
journal). A report has the latest 300,000 tasks and transfers. --trace writes all
of them for chrome://tracing and Perfetto; --import makes a report of such a
file, also of other programs.`,
		Example: `  millstream report tcp://127.0.0.1:8786
  millstream report tls://10.0.0.1:8786 --tls-dir certs --since 10m -o run.html
  millstream report --history journal/dashboard -o run.html
  millstream report tcp://127.0.0.1:8786 --trace run.json
  millstream report --import run.json -o run.html`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdline.ExtraArgument(cmd, args[1], "pass one scheduler")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := trust.check(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			address := append(args, "")[0]
			if o.History != "" && o.Import != "" {
				return cmdline.Usagef("--history excludes --import")
			}
			if o.Trace != "" && o.Arrow != "" {
				return cmdline.Usagef("--trace excludes --arrow")
			}
			if o.History == "" && o.Import == "" {
				address, err := trust.target(ctx, address)
				if err != nil {
					return err
				}
				o.Call = func(ctx context.Context, op string, args, reply any) error {
					return callScheduler(ctx, address, op, args, reply)
				}
			} else if address != "" || trust.schedulerFile != "" {
				return cmdline.Usagef("--history and --import exclude a scheduler")
			}
			return report.Write(ctx, o, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.History, "history", "", "`folder` of a history, instead of a scheduler")
	fs.StringVar(&o.Import, "import", "", "`file` with a trace of Chrome or Perfetto, or an Arrow stream (.arrow), "+
		"instead of a scheduler")
	fs.StringVar(&o.Trace, "trace", "", "`file` for a trace of Chrome and Perfetto instead of a report")
	fs.StringVar(&o.Arrow, "arrow", "", "`file` for an Arrow stream instead of a report")
	fs.StringVarP(&o.Output, "output", "o", "millstream-report.html", "`file` to write; - is the standard output")
	fs.DurationVar(&o.Since, "since", 0, "time before now from which tasks are included (default: all)")
	fs.DurationVar(&wait, "timeout", time.Minute, "time limit")
	fs.StringVar(&trust.tlsDir, "tls-dir", "", "`folder` with the certificates of the cluster")
	fs.StringVar(&trust.schedulerFile, "scheduler-file", "", "scheduler `file` (scheduler --scheduler-file)")
	trust.log.Format, trust.log.Level = "text", "info"
	return cmd
}

func topCommand() *cobra.Command {
	var asJSON, once bool
	var wait, interval time.Duration
	var sort string
	trust := serverFlags{role: secure.Client}
	cmd := &cobra.Command{
		Use:     "top [SCHEDULER]",
		Short:   "Show workers, tasks, memory, GPUs and transfers of a running cluster, live",
		GroupID: groupCluster,
		Long: `Show a live view of a Millstream or Dask cluster: tasks by state, memory, GPUs,
transfers by transport, failures, and a table of workers. It asks the scheduler
over its own protocol, so it needs no dashboard. The default address is
DASK_SCHEDULER_ADDRESS.

Without a terminal, with --once and with --json it prints one snapshot, with
rates over one interval of at most a second.

Keys: q quits, p pauses, + and - change the interval, j and k or the arrows
scroll, r reverses the order. These sort the workers:
  n name     s status   h threads  t running tasks   w ready tasks
  e results  c CPU      m memory   l memory limit    d disk
  g GPU      u GPU memory          b network         a address`,
		Example: `  millstream top tcp://127.0.0.1:8786
  millstream top tls://10.0.0.1:8786 --tls-dir certs --sort m
  millstream top --scheduler-file scheduler.json --json | jq .tasks`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cmdline.ExtraArgument(cmd, args[1], "pass one scheduler")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			key := []rune(sort + " ")[0]
			switch {
			case len(sort) != 1 || !top.Sorts(key):
				return cmdline.Usagef("--sort %s: want one of the keys in `millstream top --help`", sort)
			case interval < 100*time.Millisecond:
				return cmdline.Usagef("--interval %v: want at least 100ms", interval)
			}
			if err := trust.check(); err != nil {
				return err
			}
			ctx := cmd.Context()
			address, err := trust.target(ctx, append(args, "")[0])
			if err != nil {
				return err
			}
			source, err := newSource(address)
			if err != nil {
				return err
			}
			defer source.pool.Close()
			fetch := func(ctx context.Context, last *top.Snapshot) (*top.Snapshot, error) {
				ctx, cancel := context.WithTimeout(ctx, wait)
				defer cancel()
				return source.snapshot(ctx, last)
			}
			first, err := fetch(ctx, nil)
			if err != nil {
				return err
			}
			view := top.View{Sort: key, Interval: interval}
			in, isIn := top.IsTerminal(cmd.InOrStdin())
			out, isOut := top.IsTerminal(cmd.OutOrStdout())
			if isIn && isOut && !once && !asJSON {
				t, err := top.OpenTerminal(in, out)
				if err != nil {
					return err
				}
				return top.Run(ctx, t, first, fetch, view)
			}
			return printTop(ctx, cmd.OutOrStdout(), first, fetch, view, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one snapshot as JSON")
	cmd.Flags().BoolVar(&once, "once", false, "print one snapshot")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two snapshots")
	cmd.Flags().StringVar(&sort, "sort", "n", "`key` of the column that sorts the workers")
	cmd.Flags().DurationVar(&wait, "timeout", 10*time.Second, "time limit for each reply")
	cmd.Flags().StringVar(&trust.tlsDir, "tls-dir", "", "`folder` with the certificates of the cluster")
	cmd.Flags().StringVar(&trust.schedulerFile, "scheduler-file", "", "scheduler `file` (scheduler --scheduler-file)")
	trust.log.Format, trust.log.Level = "text", "info"
	return cmd
}

// snapshot returns a snapshot of the cluster; last is the previous one, nil at first.
func (s *source) snapshot(ctx context.Context, last *top.Snapshot) (*top.Snapshot, error) {
	var id, prefixes msgpack.Map
	if err := s.call(ctx, "identity", wire.NewDict("n_workers", -1), &id); err != nil {
		return nil, err
	}
	if _, ours := id.Get("millstream"); !ours {
		// Dask's identity has no tasks. A release without this op leaves the counts to the workers.
		_ = s.call(ctx, "get_task_prefix_states", wire.NewDict(), &prefixes)
	}
	return top.New(time.Now(), id, prefixes, last), nil
}

// printTop prints a snapshot that follows first by one interval, of at most a second, so that it has rates.
func printTop(ctx context.Context, w io.Writer, first *top.Snapshot, fetch top.Fetch, v top.View, asJSON bool) error {
	t := time.NewTimer(min(v.Interval, time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	last, err := fetch(ctx, first)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(last)
	}
	if f, ok := top.IsTerminal(w); ok {
		v.Width = top.Width(f)
	}
	for _, line := range last.Lines(v) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
