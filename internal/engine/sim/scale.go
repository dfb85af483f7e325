package sim

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/task/taskid"
)

// Scale is the cost of a large cluster.
type Scale struct {
	Report
	// Workers is the number of simulated workers.
	Workers int
	// Wall is the elapsed time, CPU the CPU time of the process, including simulation and garbage collection.
	Wall, CPU time.Duration
}

// PerEvent returns the mean time of the scheduler's state per event.
func (s Scale) PerEvent() time.Duration {
	return time.Duration(float64(s.SchedulerCPU) / float64(max(s.SchedulerEvents, 1)))
}

// PerTask returns the mean time of the scheduler's state per task.
func (s Scale) PerTask() time.Duration {
	return time.Duration(float64(s.SchedulerCPU) / float64(max(s.Tasks, 1)))
}

// String returns a line of a table.
func (s Scale) String() string {
	return fmt.Sprintf("%5d workers, %d tasks: scheduler %v per event (%d events), %v per task; worker %v per event "+
		"(%d events); %d transfers; %v virtual, %v wall, %v CPU",
		s.Workers, s.Tasks, s.PerEvent(), s.SchedulerEvents, s.PerTask(),
		time.Duration(float64(s.WorkerCPU)/float64(max(s.WorkerEvents, 1))), s.WorkerEvents,
		s.Transfers, s.Virtual.Round(time.Millisecond), s.Wall.Round(time.Millisecond), s.CPU.Round(time.Millisecond))
}

// RunScale simulates a large cluster without faults and without validation: the given number of tasks in graphs of
// 50,000, each task with up to four dependencies. Durations of tasks are proportional to the number of workers, so that
// the same number of them finishes in a second of virtual time.
func RunScale(workers, tasks int) (Scale, error) {
	const perGraph = 50_000
	cfg := Config{
		Seed: 1, Workers: workers, Threads: 2, Clients: 1, Graphs: (tasks + perGraph - 1) / perGraph,
		Latency: 200 * time.Microsecond, Bandwidth: 1e9,
		Tasks: Tasks{Duration: time.Duration(workers) * 200 * time.Microsecond, Size: 1000},
	}
	cfg.graph = func(w *world, i int) submission {
		return w.layered(fmt.Sprintf("scale-%d", i), min(perGraph, tasks-i*perGraph))
	}
	// One thread runs the simulation: its CPU time is that of the machines, independent of other load.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := threadCPUCost()
	cfg.cpu = threadCPU
	start, cpu := time.Now(), processCPU()
	report, err := Run(cfg)
	s := Scale{Report: report, Workers: workers, Wall: time.Since(start), CPU: processCPU() - cpu}
	s.SchedulerCPU -= time.Duration(s.SchedulerEvents) * cost
	s.WorkerCPU -= time.Duration(s.WorkerEvents) * cost
	return s, err
}

// threadCPU returns the CPU time of the calling thread.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// threadCPUCost returns the CPU time of a pair of calls of threadCPU.
func threadCPUCost() time.Duration {
	const n = 10_000
	var sum time.Duration
	for range n {
		start := threadCPU()
		sum += threadCPU() - start
	}
	return sum / n
}

// layered returns a graph of many short chains that join occasionally: 100 layers.
func (w *world) layered(name string, n int) submission {
	const layers = 100
	r := w.rnd
	var s submission
	width := max(n/layers, 1)
	for i := range n {
		var deps []*node
		layer, place := i/width, i%width
		if layer > 0 {
			deps = append(deps, s.nodes[(layer-1)*width+place])
			for range r.IntN(4) {
				d := s.nodes[(layer-1)*width+(place+r.IntN(8))%width]
				if !contains(deps, d) {
					deps = append(deps, d)
				}
			}
		}
		x := w.add(taskid.NewKey(fmt.Sprintf("%s-%d-%d", name, layer, place)), deps)
		x.duration = time.Duration((0.5 + r.Float64()) * float64(w.cfg.Tasks.Duration))
		x.size = w.cfg.Tasks.Size
		s.nodes = append(s.nodes, x)
	}
	for _, x := range s.nodes {
		if len(x.dependent) == 0 {
			s.wanted = append(s.wanted, x)
		}
	}
	return s
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
