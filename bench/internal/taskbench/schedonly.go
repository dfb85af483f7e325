package taskbench

import (
	"context"
	"fmt"
	"path/filepath"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Workers of scheduler-only, and its targets.
const (
	zeroCount      = 8
	zeroThreads    = 8
	cpuBar         = 5    // microseconds per task
	cpuBarJournal  = 8    // the same with a journal
	memoryBar      = 1024 // bytes per task
	linearBar      = 1.25 // time per task with the most tasks, divided by that with the fewest
	warmTasks      = 2000
	memoryBarTasks = 1_000_000 // with fewer tasks the base memory of a process dominates
	daskMost       = 100_000   // with more tasks the scheduler of Dask takes minutes and gigabytes
)

// load is the cost of a scheduler.
type load struct {
	micros    float64 // processor time per task
	rss, heap float64 // bytes per task
}

// schedulerOnly measures the process of a scheduler with workers that do nothing.
func (b *bench) schedulerOnly(ctx context.Context, c Case, step func(string, ...any)) error {
	for _, journal := range []bool{false, true} {
		setting, bar := "tcp", float64(cpuBar)
		if journal {
			setting, bar = "tcp, journal", cpuBarJournal
		}
		loads, theirs := make([]load, len(b.o.Scheduler)), make([]load, len(b.o.Scheduler))
		for i, n := range b.o.Scheduler {
			for _, s := range b.sides() {
				to := &loads[i]
				if s.name == PeerName {
					if to = &theirs[i]; journal || n > daskMost {
						continue
					}
				}
				step("%s, %d tasks: %s", setting, n, s.name)
				var err error
				if *to, err = b.loadOf(ctx, s, n, journal); err != nil {
					return fmt.Errorf("%s, %d tasks: %w", setting, n, err)
				}
			}
		}
		for i, n := range b.o.Scheduler {
			l, t := loads[i], theirs[i]
			figures := []benchfmt.Figure{
				{Case: c.Name, Unit: c.Unit, Ours: l.micros, Theirs: t.micros, Bar: &benchfmt.Bar{Value: bar}},
				{Case: c.Name + "-rss", Unit: benchfmt.UnitBytes, Ours: l.rss, Theirs: t.rss},
				{Case: c.Name + "-heap", Unit: benchfmt.UnitBytes, Ours: l.heap},
			}
			if n >= memoryBarTasks {
				figures[1].Bar = &benchfmt.Bar{Value: memoryBar}
			}
			for _, f := range figures {
				f.Bench, f.Setting, f.Better, f.Tasks = "tasks", setting, benchfmt.Lower, int64(n)
				if f.Theirs > 0 {
					f.Peer = PeerName
				}
				if err := b.sink.Add(f); err != nil {
					return err
				}
			}
		}
		if last := len(loads) - 1; last > 0 && loads[0].micros > 0 {
			err := b.sink.Add(benchfmt.Figure{
				Bench: "tasks", Case: c.Name + "-linear", Setting: setting, Unit: "x", Better: benchfmt.Lower,
				Tasks: int64(b.o.Scheduler[last]),
				Ours:  loads[last].micros / loads[0].micros, Bar: &benchfmt.Bar{Value: linearBar},
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// loadOf runs n tasks with a fresh scheduler of a side, in three processes: the scheduler, the workers (always those of
// Millstream) and the client.
func (b *bench) loadOf(ctx context.Context, s side, n int, journal bool) (load, error) {
	var processes [3]*process
	for i, program := range []side{s, {"workers", b.programs.Go}, s} {
		p, err := b.startProcess(ctx, program)
		if err != nil {
			return load{}, err
		}
		defer p.Stop()
		processes[i] = p
	}
	scheduler, workers, client := processes[0], processes[1], processes[2]
	c := command{Do: "scheduler"}
	if journal {
		b.started++
		c.Journal = filepath.Join(b.dir, fmt.Sprintf("journal-%d", b.started))
	}
	at, err := scheduler.ask(ctx, c)
	if err != nil {
		return load{}, err
	}
	if _, err := workers.ask(ctx, command{Do: "zero", Address: at.Address, Workers: zeroCount,
		Threads: zeroThreads}); err != nil {
		return load{}, err
	}
	round := func(n int) (before, held, after answer, err error) {
		if before, err = scheduler.ask(ctx, command{Do: "usage"}); err != nil {
			return
		}
		if _, err = client.ask(ctx, command{Do: "flood", Address: at.Address, N: n}); err != nil {
			return
		}
		if held, err = scheduler.ask(ctx, command{Do: "usage", N: n}); err != nil {
			return
		}
		if _, err = client.ask(ctx, command{Do: "release"}); err != nil {
			return
		}
		after, err = scheduler.ask(ctx, command{Do: "empty"})
		return
	}
	if _, _, _, err := round(min(n, warmTasks)); err != nil {
		return load{}, err
	}
	profiled := b.o.Profile != "" && s.name != PeerName
	if profiled {
		path, err := filepath.Abs(filepath.Join(b.o.Profile, fmt.Sprintf("scheduler-only-%d-journal-%v.pprof", n,
			journal)))
		if err != nil {
			return load{}, err
		}
		if _, err := scheduler.ask(ctx, command{Do: "profile", Path: path}); err != nil {
			return load{}, err
		}
	}
	before, held, after, err := round(n)
	if err != nil {
		return load{}, err
	}
	if profiled {
		if _, err := scheduler.ask(ctx, command{Do: "profile"}); err != nil {
			return load{}, err
		}
	}
	// The cost of usage itself, a garbage collection, is between CPU and CPUAfter.
	cpu := held.CPU - before.CPUAfter + after.CPU - held.CPUAfter
	per := func(v int64) float64 { return max(0, float64(v)) / float64(n) }
	return load{micros: cpu * 1e6 / float64(n), rss: per(held.RSS - before.RSS), heap: per(held.Heap - before.Heap)},
		nil
}
