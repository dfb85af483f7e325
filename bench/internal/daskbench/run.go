package daskbench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"go.millstream.dev/internal/bench/benchfmt"
	"go.millstream.dev/internal/bench/benchpeer"
	"go.millstream.dev/internal/dask/python"
)

// Programs start the processes of a run.
type Programs struct {
	// Millstream returns the command of this program with arguments.
	Millstream func(ctx context.Context, args ...string) *exec.Cmd
	// Client is the Python client; its interpreter, which has Dask, runs all Python processes.
	Client *benchpeer.Program
}

// bench is one run.
type bench struct {
	programs Programs
	o        Options
	dir      string // temporary folder for files of the processes
}

// modules returns the folder of the Python package millstream, which the client imports.
func (b *bench) modules() string { return filepath.Join(b.dir, "modules") }

// Run measures according to the options and passes each figure to the sink immediately.
func Run(ctx context.Context, programs Programs, o Options, sink benchfmt.Sink,
	progress *benchfmt.Progress) (err error) {
	b := &bench{programs: programs, o: o}
	if b.dir, err = os.MkdirTemp("", "millstream-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.CopyFS(b.modules(), python.Files()); err != nil {
		return err
	}
	for i, c := range Cases() {
		if !slices.Contains(o.Cases, c.Name) {
			continue
		}
		step := func(round int, side string) {
			progress.Step(i, len(Cases()), "%s round %d of %d: %s", c.Name, round+1, o.Rounds, side)
		}
		f, err := b.measure(ctx, c, step)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the rounds of a case. Sides alternate, and the order changes in every second round.
func (b *bench) measure(ctx context.Context, c Case, step func(int, string)) (benchfmt.Figure, error) {
	sides := []side{{name: "millstream", ours: true, goWorkers: c.Go}}
	if b.o.Peer {
		sides = append(sides, side{name: PeerName})
	}
	rounds := make([]benchfmt.Rounds, len(sides))
	answers := make([]answer, len(sides))
	for round := range b.o.Rounds {
		for k := range sides {
			i := (k + round) % len(sides)
			step(round, sides[i].name)
			a, err := b.once(ctx, c, sides[i])
			if err != nil {
				return benchfmt.Figure{}, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			v, err := value(c, a)
			if err != nil {
				return benchfmt.Figure{}, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			rounds[i].Better = c.Better
			rounds[i].Add(v)
			answers[i] = a
		}
		if len(sides) > 1 && answers[0].Check != answers[1].Check {
			return benchfmt.Figure{}, fmt.Errorf("results differ: %q and %q",
				answers[0].Check, answers[1].Check)
		}
	}
	f := benchfmt.Figure{
		Bench: "dask", Case: c.Name, Setting: fmt.Sprintf("%d x %d tcp", b.o.Workers, b.o.Threads), Unit: c.Unit,
		Better: c.Better,
		Tasks:  answers[0].Tasks, Ours: rounds[0].Median(), OursMedian: rounds[0].Median(), Bar: c.Bar,
	}
	if len(sides) > 1 {
		f.Peer, f.Theirs, f.TheirsMedian = PeerName, rounds[1].Median(), rounds[1].Median()
	}
	return f, nil
}

// value returns the figure of an answer.
func value(c Case, a answer) (float64, error) {
	if a.Seconds <= 0 || a.Tasks <= 0 {
		return 0, fmt.Errorf("invalid measurement: %d tasks in %v s", a.Tasks, a.Seconds)
	}
	switch c.Unit {
	case benchfmt.UnitTaskRate:
		return float64(a.Tasks) / a.Seconds, nil
	case benchfmt.UnitMicros:
		if a.CPU <= 0 {
			return 0, fmt.Errorf("no processor time of the scheduler measured")
		}
		return benchfmt.Micros(a.CPU) / float64(a.Tasks), nil
	}
	return a.Seconds, nil
}
