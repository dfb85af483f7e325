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
	workers, times := b.o.Workers, 1
	if c.Name == shuffle {
		workers, times = b.o.ShuffleWorkers, 2
	}
	sides := b.sides()
	rounds := make([][]benchfmt.Rounds, times) // by repetition and side
	for n := range rounds {
		rounds[n] = make([]benchfmt.Rounds, len(sides))
	}
	answers := make([]answer, len(sides))
	for round := range b.o.Rounds {
		for i, s := range sides {
			step("round %d of %d: %s", round+1, b.o.Rounds, s.name)
			all, err := b.once(ctx, s, c, workers, times)
			if err != nil {
				return err
			}
			for n, a := range all {
				v, err := value(c, a)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				rounds[n][i].Better = c.Better
				rounds[n][i].Add(v)
				answers[i] = a
			}
		}
		if len(sides) > 1 && answers[0].Check != answers[1].Check {
			return fmt.Errorf("results differ: %q and %q", answers[0].Check,
				answers[1].Check)
		}
	}
	for n, r := range rounds {
		f := b.figure(c, r[0], b.setting(workers))
		f.Transport, f.Tasks, f.Size, f.Bar = answers[0].Transport, answers[0].Tasks, answers[0].Bytes, c.Bar
		if n > 0 {
			f.Case += "-again"
		}
		if len(sides) > 1 {
			f.Peer, f.Theirs, f.TheirsMedian = PeerName, r[1].Best(), r[1].Median()
		}
		if err := b.sink.Add(f); err != nil {
			return err
		}
	}
	return nil
}

// figure returns a figure of Millstream, without a peer.
func (b *bench) figure(c Case, ours benchfmt.Rounds, setting string) benchfmt.Figure {
	return benchfmt.Figure{Bench: "tasks", Case: c.Name, Setting: setting, Unit: c.Unit, Better: c.Better,
		Ours: ours.Best(), OursMedian: ours.Median()}
}

// once runs a case in a fresh cluster of a side, several times if later ones find the memory of earlier ones.
func (b *bench) once(ctx context.Context, s side, c Case, workers, times int) ([]answer, error) {
	p, err := b.cluster(ctx, s, workers)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	var all []answer
	for range times {
		a, err := b.profiled(ctx, p, b.caseCommand(c))
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	_, err = p.ask(ctx, command{Do: "stop"})
	return all, err
}
