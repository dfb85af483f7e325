package poolbench

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/device/cucount"
)

// Targets of the pool: time of one allocation with its release, and driver calls.
const (
	barMicros = 0.2
	barCalls  = 0
)

// Run measures the pool in the process of own and, if peers is not nil, the Python allocators in the process of peers.
func Run(ctx context.Context, own, peers benchpeer.Starter, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) error {
	if err := o.Complete(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "millstream-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	library, err := cucount.Build(ctx, dir)
	if err != nil {
		return err
	}
	ours, err := benchpeer.StartLines(ctx, own, cucount.Env(os.Environ(), library, dir))
	if err != nil {
		return err
	}
	defer ours.Stop()
	var python *benchpeer.Lines
	if peers != nil && o.Mem == MemCUDA {
		if python, err = benchpeer.StartLines(ctx, peers, nil); err != nil {
			return err
		}
		defer python.Stop()
	}
	jobs := o.jobs()
	for i, c := range jobs {
		progress.Step(i, len(jobs), "%s %s", c.Case, benchfmt.FormatSize(c.Size))
		if err := o.job(ctx, ours, python, c, sink); err != nil {
			return fmt.Errorf("%s of %s: %w", c.Case, benchfmt.FormatSize(c.Size), err)
		}
	}
	return nil
}

// contestant is one allocator of a job.
type contestant struct {
	process *benchpeer.Lines
	command command
	rounds  benchfmt.Rounds
}

// round measures once, in microseconds.
func (c *contestant) round(ctx context.Context) (answer, error) {
	var a answer
	if err := c.process.Ask(ctx, c.command, &a); err != nil {
		return a, fmt.Errorf("%s: %w", c.command.name(), err)
	}
	if a.Seconds <= 0 {
		return a, fmt.Errorf("%s: empty sample", c.command.name())
	}
	return a, nil
}

func (c command) name() string {
	if c.Peer != "" {
		return c.Peer
	}
	return "the pool"
}

// job measures one figure in alternating rounds.
func (o Options) job(ctx context.Context, ours, python *benchpeer.Lines, c command, sink benchfmt.Sink) error {
	list := []*contestant{{process: ours, command: c, rounds: benchfmt.Rounds{Better: benchfmt.Lower}}}
	if python != nil {
		for _, name := range PeerNames {
			c.Peer = name
			list = append(list, &contestant{process: python, command: c,
				rounds: benchfmt.Rounds{Better: benchfmt.Lower}})
		}
	}
	const most = 5_000_000
	for _, x := range list { // determine how many iterations fill a round
		x.command.Iterations = 1000
		for range 2 {
			a, err := x.round(ctx)
			if err != nil {
				return err
			}
			x.command.Iterations = min(max(int(o.RoundTime.Seconds()/a.Seconds*float64(x.command.Iterations)), 100),
				most)
		}
	}
	calls := cucount.Counts{}
	operations := 0
	for range o.Rounds {
		for i, x := range list {
			a, err := x.round(ctx)
			if err != nil {
				return err
			}
			x.rounds.Add(benchfmt.Micros(a.Seconds) / float64(x.command.Iterations))
			if i == 0 {
				operations += x.command.Iterations
				for name, n := range a.Calls {
					calls[name] += n
				}
			}
		}
	}
	return report(list, calls, operations, sink)
}

func report(list []*contestant, calls cucount.Counts, operations int, sink benchfmt.Sink) error {
	c := list[0].command
	f := benchfmt.Figure{
		Bench: Bench, Case: c.Case, Setting: "pool", Size: c.Size, Mem: c.Mem, Unit: benchfmt.UnitMicros,
		Better: benchfmt.Lower,
		Ours:   list[0].rounds.Best(), OursMedian: list[0].rounds.Median(),
	}
	if c.Size == 1<<20 {
		f.Bar = &benchfmt.Bar{Value: barMicros}
	}
	for _, x := range list[1:] {
		f.Peer, f.Theirs, f.TheirsMedian = x.command.Peer, x.rounds.Best(), x.rounds.Median()
		if err := sink.Add(f); err != nil {
			return err
		}
	}
	if len(list) == 1 {
		if err := sink.Add(f); err != nil {
			return err
		}
	}
	f.Peer, f.Theirs, f.OursMedian, f.TheirsMedian = "", 0, 0, 0
	f.Case, f.Unit = c.Case+"-driver-calls", benchfmt.UnitCalls
	f.Ours, f.Bar = float64(calls.Total())/float64(operations), &benchfmt.Bar{Value: barCalls}
	return sink.Add(f)
}
