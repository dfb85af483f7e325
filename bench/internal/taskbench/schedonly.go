package taskbench

import (
	"context"
	"fmt"
	"path/filepath"

	"go.millstream.dev/internal/bench/benchfmt"
)

// Of scheduler-only: its workers, and the bars.
const (
	zeroCount      = 8
	zeroThreads    = 8
	cpuBar         = 5    // microseconds a task
	cpuBarJournal  = 8    // the same with a journal
	memoryBar      = 1024 // bytes a task
	linearBar      = 1.25 // time a task with the most tasks, over that with the fewest
	warmTasks      = 2000
	memoryBarTasks = 1_000_000 // fewer tasks do not drown what a process has anyway
	daskMost       = 100_000   // more tasks than this take Dask's scheduler minutes and gigabytes
)

// load is what a scheduler had to spend.
type load struct {
	micros    float64 // of CPU a task
	rss, heap float64 // bytes a task
}

// schedulerOnly measures a scheduler's process with workers that do nothing.
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

// loadOf runs n tasks through a fresh scheduler of a side: three processes, of which one
// is the scheduler, one has the workers, always ours, and one is the client.
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
	// What usage itself costs, a collection, is between CPU and CPUAfter.
	cpu := held.CPU - before.CPUAfter + after.CPU - held.CPUAfter
	per := func(v int64) float64 { return max(0, float64(v)) / float64(n) }
	return load{micros: cpu * 1e6 / float64(n), rss: per(held.RSS - before.RSS), heap: per(held.Heap - before.Heap)},
		nil
}
