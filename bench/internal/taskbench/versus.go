package taskbench

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/bench/benchfmt"
)

// caseCommand returns the command for a case.
func (b *bench) caseCommand(c Case) command {
	switch c.Name {
	case mapNoop:
		return command{Do: c.Name, N: b.o.Tasks}
	case tree:
		return command{Do: c.Name, N: b.o.Leaves}
	case randomDAG:
		return command{Do: c.Name, N: b.o.DAG, Seed: b.o.Seed}
	case submitLatency:
		return command{Do: c.Name, N: b.o.Submits}
	case chain:
		return command{Do: c.Name, N: b.o.Chain}
	case shuffle:
		return command{Do: c.Name, Size: b.o.ShuffleBytes, Parts: b.o.ShuffleParts, Seed: b.o.Seed}
	}
	panic("taskbench: no command for " + c.Name)
}

// value returns the figure of an answer.
func value(c Case, a answer) (float64, error) {
	if a.Seconds <= 0 {
		return 0, fmt.Errorf("invalid duration of %v s", a.Seconds)
	}
	switch c.Unit {
	case benchfmt.UnitTaskRate:
		return float64(a.Tasks) / a.Seconds, nil
	case benchfmt.UnitGBps:
		return benchfmt.GBps(float64(a.Bytes), a.Seconds), nil
	}
	return benchfmt.Micros(a.Seconds), nil
}

// versus measures a case that is equal on both sides. Sides alternate, each time with a fresh cluster.
func (b *bench) versus(ctx context.Context, c Case, step func(string, ...any)) error {
	workers := b.o.Workers
	if c.Name == shuffle {
		workers = b.o.ShuffleWorkers
	}
	sides := b.sides()
	rounds := make([]benchfmt.Rounds, len(sides))
	answers := make([]answer, len(sides))
	for round := range b.o.Rounds {
		for i, s := range sides {
			step("round %d of %d: %s", round+1, b.o.Rounds, s.name)
			a, err := b.once(ctx, s, c, workers)
			if err != nil {
				return err
			}
			v, err := value(c, a)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			rounds[i].Better = c.Better
			rounds[i].Add(v)
			answers[i] = a
		}
		if len(sides) > 1 && answers[0].Check != answers[1].Check {
			return fmt.Errorf("results differ: %q and %q", answers[0].Check,
				answers[1].Check)
		}
	}
	f := b.figure(c, rounds[0], b.setting(workers))
	f.Transport, f.Tasks, f.Size, f.Bar = answers[0].Transport, answers[0].Tasks, answers[0].Bytes, c.Bar
	if len(sides) > 1 {
		f.Peer, f.Theirs, f.TheirsMedian = PeerName, rounds[1].Best(), rounds[1].Median()
	}
	return b.sink.Add(f)
}

// figure returns a figure of Millstream, without a peer.
func (b *bench) figure(c Case, ours benchfmt.Rounds, setting string) benchfmt.Figure {
	return benchfmt.Figure{Bench: "tasks", Case: c.Name, Setting: setting, Unit: c.Unit, Better: c.Better,
		Ours: ours.Best(), OursMedian: ours.Median()}
}

// once runs a case in a fresh cluster of a side.
func (b *bench) once(ctx context.Context, s side, c Case, workers int) (answer, error) {
	p, err := b.cluster(ctx, s, workers)
	if err != nil {
		return answer{}, err
	}
	defer p.Stop()
	a, err := b.profiled(ctx, p, b.caseCommand(c))
	if err != nil {
		return answer{}, err
	}
	_, err = p.ask(ctx, command{Do: "stop"})
	return a, err
}
