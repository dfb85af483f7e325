package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/bench/ucxbench"
	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/proc/stdio"
)

type demoFlags struct {
	parts      []string
	sizes      string
	transports []string
	json       bool
	keep       bool
}

// demoParts are the parts of the demo, in order.
var demoParts = []string{"cluster", "transports", "python"}

const demoSizes = "8,1KiB,64KiB,1MiB,8MiB"

func demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Run a cluster on this machine, and measure its transports",
		GroupID: groupStart,
		Long: `Show what works on this machine, in three parts.

cluster     Start a cluster of worker processes, with control connections over
            TLS and data over the fastest transport, that generates, parses,
            shuffles and aggregates a log of web requests. The result is
            verified.
transports  Start two processes and move host memory (and, with a GPU, device
            memory) between them over each available transport. All payloads
            are verified. The table shows the latency of one message and the
            bandwidth of a stream.
python      Exchange Dask messages with a Python process, if Dask is installed.

With --keep the dashboard of the cluster shows the run until Ctrl-C.

For comparable figures use ` + "`millstream bench`" + `.`,
		Example: `  millstream demo
  millstream demo --part cluster --keep
  millstream demo --transport shm --size 8,1MiB-64MiB*8`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(&f.parts, "part", nil, "parts to run: "+strings.Join(demoParts, ", ")+
		" (default: all; with --transport or --json: transports)")
	cmd.Flags().StringSliceVar(&f.transports, "transport", nil,
		"transports: "+strings.Join(ucxbench.SettingNames, ", ")+" (default: all available)")
	cmd.Flags().StringVar(&f.sizes, "size", demoSizes, "message sizes")
	cmd.Flags().BoolVar(&f.json, "json", false, "output as one JSON object per figure and line")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the cluster and its dashboard until Ctrl-C, if the output is a "+
		"terminal")
	cmd.AddCommand(demoCliqueCommand())
	return cmd
}

// demoTransport is a pair of columns in the table: a transport for one kind of memory.
type demoTransport struct {
	setting, mem string
	used         []string
	latency      map[int64]float64
	bandwidth    map[int64]float64
}

func (l demoTransport) title() string {
	if l.mem == ucxbench.MemCUDA {
		return "GPU " + l.setting
	}
	return l.setting
}

func (f *demoFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	for _, p := range f.parts {
		if !slices.Contains(demoParts, p) {
			return cmdline.Usagef("--part %s: want %s", p, strings.Join(demoParts, ", "))
		}
	}
	parts := f.parts
	if len(parts) == 0 {
		parts = demoParts
		if f.json || len(f.transports) > 0 {
			parts = []string{"transports"}
		}
	}
	var c *cluster.Cluster
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	for i, p := range demoParts {
		if !slices.Contains(parts, p) {
			continue
		}
		if i > 0 && p != parts[0] {
			fmt.Fprintln(stdout)
		}
		var err error
		switch p {
		case "cluster":
			c, err = demoCluster(ctx, stdout, stderr)
			if c != nil && !f.keep {
				err = c.Close()
				c = nil
			}
		case "transports":
			err = f.runTransports(ctx, stdout, stderr)
		case "python":
			err = demoPython(ctx, stdout)
		}
		if err != nil {
			return err
		}
	}
	if c != nil {
		f.show(ctx, c, stdout)
	}
	return nil
}

// show prints the address of the dashboard and, on a terminal, waits for Ctrl-C.
func (f *demoFlags) show(ctx context.Context, c *cluster.Cluster, stdout io.Writer) {
	fmt.Fprintf(stdout, "\ndashboard of the cluster at http://%s/\n", c.Scheduler().DashboardAddress())
	if !stdio.IsTerminal(stdout) {
		return
	}
	fmt.Fprintln(stdout, "Ctrl-C ends the cluster")
	<-ctx.Done()
}

// runTransports runs the part with two processes.
func (f *demoFlags) runTransports(ctx context.Context, stdout, stderr io.Writer) error {
	sizes, err := benchfmt.ParseSizes(f.sizes)
	if err != nil {
		return cmdline.Usage(err)
	}
	if slices.Contains(sizes, 0) {
		return cmdline.Usagef("--size: messages of 0 bytes have no bandwidth")
	}
	for _, name := range f.transports {
		if _, err := ucxbench.SettingEnv(name, ucxbench.MemHeap); err != nil {
			return cmdline.Usage(err)
		}
	}
	d := &demo{sizes: sizes, out: stdout, progress: benchfmt.NewProgress(stderr),
		starter: ucxbench.SelfStarter(demoPeerName)}
	if f.json {
		d.sink, d.out = benchfmt.NewJSONWriter(stdout), io.Discard
	}
	list := d.plan(f.transports)
	err = d.runAll(ctx, list)
	d.progress.Clear()
	d.table()
	return err
}

type demo struct {
	sizes    []int64
	out      io.Writer
	sink     benchfmt.Sink
	progress *benchfmt.Progress
	starter  ucxbench.Starter
	done     []demoTransport
	printed  bool
}

// plan returns the transports to measure: the chosen ones, or all that can work here.
func (d *demo) plan(chosen []string) []demoTransport {
	gpus, _ := findGPUs()
	names := chosen
	if len(names) == 0 {
		names = []string{"auto", "shm", "tcp"}
		if len(gpus) > 0 {
			names = append(names, "cuda_ipc")
		}
	}
	var list []demoTransport
	for _, name := range names {
		if name != "cuda_ipc" {
			list = append(list, demoTransport{setting: name, mem: ucxbench.MemHeap})
		}
		if name == "cuda_ipc" || name == "auto" && len(gpus) > 0 {
			list = append(list, demoTransport{setting: name, mem: ucxbench.MemCUDA})
		}
	}
	return list
}

// runAll measures all transports and continues after failures.
func (d *demo) runAll(ctx context.Context, list []demoTransport) error {
	var failed []error
	for i, t := range list {
		if err := d.run(ctx, t, i, len(list)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, ucxbench.ErrUnavailable) {
				return err
			}
			d.progress.Clear()
			fmt.Fprintf(d.out, "%-9s failed: %s\n", t.title(), cmdline.OneLine(err))
			failed = append(failed, fmt.Errorf("transport %s: %w", t.title(), err))
		}
	}
	return errors.Join(failed...)
}

// roundTime is how long each cell of the table is measured, so that the demo takes seconds.
const roundTime = 60 * time.Millisecond

func (d *demo) run(ctx context.Context, t demoTransport, index, total int) error {
	env, err := ucxbench.SettingEnv(t.setting, t.mem)
	if err != nil {
		return err
	}
	args := ucxbench.OpenArgs{Mode: "adaptive", Endpoint: ucxbench.EndpointLifeline, Device: -1}
	if t.mem == ucxbench.MemCUDA {
		args.Device = 0
	}
	steps := total * len(d.sizes) * 2
	step := index * len(d.sizes) * 2
	d.progress.Step(step, steps, "%s: connecting", t.title())
	begin := time.Now()
	pair, err := ucxbench.StartPair(ctx, d.starter, env, args)
	if err != nil {
		return err
	}
	defer pair.Close()
	d.progress.Clear()
	if !d.printed {
		fmt.Fprintf(d.out, "two processes, UCX %s (%s)\n", pair.Version, pair.Library)
		d.printed = true
	}
	fmt.Fprintf(d.out, "%-9s processes %d and %d connected in %v; transports: %s\n", t.title(),
		pair.PIDs[0], pair.PIDs[1], time.Since(begin).Round(time.Millisecond), strings.Join(pair.Transports, ", "))

	t.used = pair.Transports
	t.latency, t.bandwidth = map[int64]float64{}, map[int64]float64{}
	defer func() { d.done = append(d.done, t) }()
	for _, size := range d.sizes {
		for _, cell := range []struct {
			name string
			into map[int64]float64
		}{{"tag-lat", t.latency}, {"tag-bw", t.bandwidth}} {
			d.progress.Step(step, steps, "%s %s %s", t.title(), cell.name, benchfmt.FormatSize(size))
			step++
			f, err := pair.Measure(ctx, ucxbench.Cell{Case: cell.name, Setting: t.setting, Mode: args.Mode,
				Mem: t.mem, Size: size}, roundTime)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", cell.name, benchfmt.FormatSize(size), err)
			}
			cell.into[size] = f.Ours
			if d.sink != nil {
				if err := d.sink.Add(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// table prints sizes and transports. After an interruption it prints the results so far.
func (d *demo) table() {
	if len(d.done) == 0 {
		return
	}
	columns := []benchfmt.Column{{Name: "size", Right: true}}
	for _, t := range d.done {
		columns = append(columns, benchfmt.Column{Name: t.title() + " us", Right: true},
			benchfmt.Column{Name: "GB/s", Right: true})
	}
	var rows [][]string
	for _, size := range d.sizes {
		row := []string{benchfmt.FormatSize(size)}
		for _, t := range d.done {
			for _, cell := range []map[int64]float64{t.latency, t.bandwidth} {
				if v, ok := cell[size]; ok {
					row = append(row, benchfmt.FormatValue(v))
				} else {
					row = append(row, "-")
				}
			}
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(d.out)
	benchfmt.WriteColumns(d.out, "  ", columns, rows)
	fmt.Fprintln(d.out, "\nus: one-way latency of a message; GB/s: stream of messages, 32 in flight; all payloads "+
		"verified")
}

const demoPeerName = "demo-peer"

// demoPeerCommand is one of the two processes of a pair, which communicates with its parent over standard input and
// output.
func demoPeerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoPeerName,
		Short:  "Peer process of `demo`",
		Hidden: true,
		Args:   cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ucxbench.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), ucxbench.NewSide())
		},
	}
}

// demoPython exchanges messages with a Python process over Dask comms, if Dask is installed.
func demoPython(ctx context.Context, out io.Writer) error {
	program, err := benchpeer.FindProgram(commpeer.PeerName, benchpeer.ScriptComm, os.Environ())
	var missing *benchpeer.MissingError
	if err == nil {
		defer program.Close()
		// Use the interpreter that a scheduler would use, if there is one.
		if in, err := pyproc.Find(ctx, ""); err == nil {
			program.Python = in.Path
		}
	}
	if errors.As(err, &missing) {
		fmt.Fprintf(out, "skipped: no Python with Dask: %s; install it with `%s`\n", missing.Reason, missing.Fix)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "messages of Dask between Go and Python\n")
	t, err := commpeer.Converse(ctx, program.Start, "tcp://127.0.0.1:0", nil)
	if err != nil {
		return fmt.Errorf("exchange messages with Python: %w", err)
	}
	fmt.Fprintf(out, "  Go      connects to %s (Python %s, distributed %s)\n", t.Address, t.Python, t.Distributed)
	fmt.Fprintf(out, "  Go      sends %s\n", t.Sent)
	fmt.Fprintf(out, "  Python  receives %s with sum %.0f\n", t.Answer, t.Sum)
	fmt.Fprintf(out, "  Python  sends it back doubled in %.1f ms; all values verified\n",
		t.Took.Seconds()*1e3)
	fmt.Fprintf(out, "  both    exchange small messages: %.0f us round trip\n", t.RTT.Seconds()*1e6)
	return nil
}
