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

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/bench/ucxbench"
	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/proc/cmdline"
)

type demoFlags struct {
	parts []string
	sizes string
	lanes []string
	json  bool
}

// demoParts are the parts of the demo, in their order.
var demoParts = []string{"cluster", "lanes", "python"}

const demoSizes = "8,1KiB,64KiB,1MiB,8MiB"

func demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "A cluster on this machine computes; memory moves over every lane",
		GroupID: groupStart,
		Long: `Shows what works on this machine, in three parts.

cluster  Starts a cluster of worker processes, control over TLS and data over the
         fastest lane, and lets it make, parse, shuffle and add up a log of web
         requests. The result is checked against the rows themselves.
lanes    Starts two processes that find each other and moves host memory (and,
         with a GPU, device memory) between them over each lane that there is.
         Every payload is verified. The table shows the latency of one message
         and the bandwidth of a stream of them.
python   Talks to a Python process in Dask's messages, if Dask is there.

For figures to compare with, use ` + "`millstream bench`" + `.`,
		Example: `  millstream demo
  millstream demo --part cluster
  millstream demo --lane shm --size 8,1MiB-64MiB*8`,
		Args: cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(&f.parts, "part", nil, "parts: "+strings.Join(demoParts, ", ")+
		" (default: all; with --lane or --json: lanes)")
	cmd.Flags().StringSliceVar(&f.lanes, "lane", nil, "lanes: "+strings.Join(ucxbench.SettingNames, ", ")+
		" (default: all that this machine has)")
	cmd.Flags().StringVar(&f.sizes, "size", demoSizes, "message sizes")
	cmd.Flags().BoolVar(&f.json, "json", false, "one JSON object per figure and line, as `bench` does")
	cmd.AddCommand(demoCliqueCommand())
	return cmd
}

// demoLane is one column pair of the table.
type demoLane struct {
	setting, mem string
	lanes        []string
	latency      map[int64]float64
	bandwidth    map[int64]float64
}

func (l demoLane) title() string {
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
		if f.json || len(f.lanes) > 0 {
			parts = []string{"lanes"}
		}
	}
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
			err = demoCluster(ctx, stdout, stderr)
		case "lanes":
			err = f.runLanes(ctx, stdout, stderr)
		case "python":
			err = demoPython(ctx, stdout)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runLanes is the part between two processes.
func (f *demoFlags) runLanes(ctx context.Context, stdout, stderr io.Writer) error {
	sizes, err := benchfmt.ParseSizes(f.sizes)
	if err != nil {
		return cmdline.Usage(err)
	}
	if slices.Contains(sizes, 0) {
		return cmdline.Usagef("--size: a message of 0 bytes has no bandwidth")
	}
	for _, name := range f.lanes {
		if _, err := ucxbench.SettingEnv(name, ucxbench.MemHeap); err != nil {
			return cmdline.Usage(err)
		}
	}
	d := &demo{sizes: sizes, out: stdout, progress: benchfmt.NewProgress(stderr),
		starter: ucxbench.SelfStarter(demoPeerName)}
	if f.json {
		d.sink, d.out = benchfmt.NewJSONWriter(stdout), io.Discard
	}
	lanes := d.plan(f.lanes)
	err = d.runAll(ctx, lanes)
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
	done     []demoLane
	greeted  bool
}

// plan lists the lanes to show; without a choice, all that can work here.
func (d *demo) plan(chosen []string) []demoLane {
	gpus, _ := findGPUs()
	names := chosen
	if len(names) == 0 {
		names = []string{"auto", "shm", "tcp"}
		if len(gpus) > 0 {
			names = append(names, "cuda_ipc")
		}
	}
	var lanes []demoLane
	for _, name := range names {
		if name != "cuda_ipc" {
			lanes = append(lanes, demoLane{setting: name, mem: ucxbench.MemHeap})
		}
		if name == "cuda_ipc" || name == "auto" && len(gpus) > 0 {
			lanes = append(lanes, demoLane{setting: name, mem: ucxbench.MemCUDA})
		}
	}
	return lanes
}

// runAll shows lane after lane. One that fails does not hide the others.
func (d *demo) runAll(ctx context.Context, lanes []demoLane) error {
	var failed []error
	for i, lane := range lanes {
		if err := d.run(ctx, lane, i, len(lanes)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, ucxbench.ErrUnavailable) {
				return err
			}
			d.progress.Clear()
			fmt.Fprintf(d.out, "%-9s failed: %s\n", lane.title(), cmdline.OneLine(err))
			failed = append(failed, fmt.Errorf("lane %s: %w", lane.title(), err))
		}
	}
	return errors.Join(failed...)
}

// roundTime is how long each cell of the table is measured: the demo is to be
// over in seconds.
const roundTime = 60 * time.Millisecond

func (d *demo) run(ctx context.Context, lane demoLane, index, total int) error {
	env, err := ucxbench.SettingEnv(lane.setting, lane.mem)
	if err != nil {
		return err
	}
	args := ucxbench.OpenArgs{Mode: "adaptive", Endpoint: ucxbench.EndpointLifeline, Device: -1}
	if lane.mem == ucxbench.MemCUDA {
		args.Device = 0
	}
	steps := total * len(d.sizes) * 2
	step := index * len(d.sizes) * 2
	d.progress.Step(step, steps, "%s: connecting", lane.title())
	begin := time.Now()
	pair, err := ucxbench.StartPair(ctx, d.starter, env, args)
	if err != nil {
		return err
	}
	defer pair.Close()
	d.progress.Clear()
	if !d.greeted {
		fmt.Fprintf(d.out, "two processes, UCX %s (%s)\n", pair.Version, pair.Library)
		d.greeted = true
	}
	fmt.Fprintf(d.out, "%-9s processes %d and %d found each other in %v; lanes: %s\n", lane.title(),
		pair.PIDs[0], pair.PIDs[1], time.Since(begin).Round(time.Millisecond), strings.Join(pair.Lanes, ", "))

	lane.lanes = pair.Lanes
	lane.latency, lane.bandwidth = map[int64]float64{}, map[int64]float64{}
	defer func() { d.done = append(d.done, lane) }()
	for _, size := range d.sizes {
		for _, cell := range []struct {
			name string
			into map[int64]float64
		}{{"tag-lat", lane.latency}, {"tag-bw", lane.bandwidth}} {
			d.progress.Step(step, steps, "%s %s %s", lane.title(), cell.name, benchfmt.FormatSize(size))
			step++
			f, err := pair.Measure(ctx, ucxbench.Cell{Case: cell.name, Setting: lane.setting, Mode: args.Mode,
				Mem: lane.mem, Size: size}, roundTime)
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

// table is sizes × lanes. An interrupted run shows what it has.
func (d *demo) table() {
	if len(d.done) == 0 {
		return
	}
	columns := []benchfmt.Column{{Name: "size", Right: true}}
	for _, lane := range d.done {
		columns = append(columns, benchfmt.Column{Name: lane.title() + " us", Right: true},
			benchfmt.Column{Name: "GB/s", Right: true})
	}
	var rows [][]string
	for _, size := range d.sizes {
		row := []string{benchfmt.FormatSize(size)}
		for _, lane := range d.done {
			for _, cell := range []map[int64]float64{lane.latency, lane.bandwidth} {
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
	fmt.Fprintln(d.out, "\nus: one message one way; GB/s: stream of messages, 32 under way; all payloads verified")
}

const demoPeerName = "demo-peer"

// demoPeerCommand is one of the two processes of the part between two processes, which talks to its parent over
// standard input and output.
func demoPeerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoPeerName,
		Short:  "One of two processes; started by `demo`",
		Hidden: true,
		Args:   cmdline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ucxbench.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), ucxbench.NewSide())
		},
	}
}

// demoPython lets Go talk to a Python process over Dask's own comms, where there is one.
func demoPython(ctx context.Context, out io.Writer) error {
	program, err := benchpeer.FindProgram(commpeer.PeerName, benchpeer.ScriptComm, os.Environ())
	var missing *benchpeer.MissingError
	if err == nil {
		defer program.Close()
		// The interpreter that a scheduler would use, where there is one.
		if in, err := pyproc.Find(ctx, ""); err == nil {
			program.Python = in.Path
		}
	}
	if errors.As(err, &missing) {
		fmt.Fprintf(out, "no Python with Dask to talk to: %s; `%s` brings one\n", missing.Reason, missing.Fix)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Go talks to Python, in Dask's messages\n")
	t, err := commpeer.Converse(ctx, program.Start, "tcp://127.0.0.1:0", nil)
	if err != nil {
		return fmt.Errorf("the conversation with Python: %w", err)
	}
	fmt.Fprintf(out, "  Go      connects to %s (Python %s, distributed %s)\n", t.Address, t.Python, t.Distributed)
	fmt.Fprintf(out, "  Go      sends %s\n", t.Sent)
	fmt.Fprintf(out, "  Python  sees %s; its sum is %.0f\n", t.Answer, t.Sum)
	fmt.Fprintf(out, "  Python  sends it back doubled; %.1f ms from first byte to last, and every number is right\n",
		t.Took.Seconds()*1e3)
	fmt.Fprintf(out, "  both    exchange small messages: %.0f us there and back\n", t.RTT.Seconds()*1e6)
	return nil
}
