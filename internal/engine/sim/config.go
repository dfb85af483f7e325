package sim

import (
	"io"
	"math/rand/v2"
	"time"
)

// Config configures one simulation. Random fills it from a seed.
type Config struct {
	// Seed is the seed of all random numbers: the same Config gives the same run.
	Seed uint64
	// Workers is the number of workers, and Threads the number of threads of each.
	Workers, Threads int
	// Clients is the number of clients, each of which submits Graphs graphs of about Nodes tasks.
	Clients, Graphs, Nodes int
	// Tasks specifies the properties of tasks.
	Tasks Tasks
	// Faults specifies the faults.
	Faults Faults
	// Validate checks every invariant of both state machines after each event.
	Validate bool
	// Latency is the mean delay of a message.
	Latency time.Duration
	// Bandwidth is that of transfers between workers in bytes per second.
	Bandwidth float64
	// NoStealing and Saturation are settings of the scheduler.
	NoStealing bool
	Saturation float64
	// Values lets workers report short results, which the scheduler passes on.
	Values bool
	// Ahead lets the scheduler send tasks ahead of their inputs.
	Ahead bool
	// Trace, if not nil, receives a line for each event.
	Trace io.Writer

	graph func(w *world, i int) submission // replaces random graphs
	cpu   func() time.Duration             // measures the cost of Apply; nil: wall time
}

// Tasks specifies the properties of the tasks of a simulation. Fractions are of all tasks.
type Tasks struct {
	// Duration and Size of the result are means of an exponential distribution.
	Duration time.Duration
	Size     int64
	// Flaky tasks fail a few times, and have as many retries; Hopeless ones always fail.
	Flaky, Hopeless float64
	// Secede is the fraction of tasks that leave the thread pool, Reschedule of those that reschedule themselves once.
	Secede, Reschedule float64
	// Resource, Restrict and Priority are the fractions of tasks with these annotations.
	Resource, Restrict, Priority float64
}

// Faults specifies the faults until the time Until: each is a mean number of times per second of virtual time, for the
// whole cluster. After Until there are no more faults.
type Faults struct {
	Until time.Duration
	// Kill kills a worker, which may restart under its name; half of the kills are detected only by missing heartbeats.
	Kill float64
	// Break closes a worker's stream: both ends keep running.
	Break float64
	// Partition separates a worker from scheduler, peers or both, for up to PartitionFor.
	Partition    float64
	PartitionFor time.Duration
	// Freeze stops a worker for up to FreezeFor (SIGSTOP).
	Freeze    float64
	FreezeFor time.Duration
	// Slow makes a worker slow for a while, Pause makes it pause.
	Slow, Pause float64
	// LoseHeartbeats drops the heartbeats of a worker for longer than the scheduler waits.
	LoseHeartbeats float64
	// Stall delays all messages of one link for up to PartitionFor: others overtake them.
	Stall float64
	// RestartScheduler kills the scheduler, which restarts from its journal.
	RestartScheduler float64
	// Retire, Replicate and Rebalance are not faults, but concurrent requests of administrators. Reduce is a run of the
	// active memory manager.
	Retire, Replicate, Rebalance, Reduce float64
	// Cancel cancels a key of a client.
	Cancel float64
	// Busy is the fraction of transfers that a peer rejects temporarily.
	Busy float64
}

// Random returns the simulation of a seed: its size, its tasks and its faults.
func Random(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 0xC0FF1E))
	c := Config{
		Seed: seed, Validate: true,
		Workers: 1 + r.IntN(6), Threads: 1 + r.IntN(3),
		Clients: 1 + r.IntN(3), Graphs: 1 + r.IntN(4), Nodes: 4 + r.IntN(26),
		Latency: time.Duration(1+r.IntN(3000)) * time.Microsecond, Bandwidth: 1e6 * float64(1+r.IntN(200)),
		NoStealing: r.IntN(4) == 0,
		Tasks:      Tasks{Duration: time.Duration(1+r.IntN(300)) * time.Millisecond, Size: 1 << (6 + r.IntN(20))},
		Faults: Faults{Until: time.Duration(5+r.IntN(30)) * time.Second, PartitionFor: 30 * time.Second,
			FreezeFor: 20 * time.Second},
	}
	switch r.IntN(4) {
	case 0:
		c.Saturation = 1e18 // no queue
	case 1:
		c.Saturation = 1
	}
	// Each kind of fault occurs in some of the seeds, so that most seeds mix a few.
	some := func(p float64) float64 {
		if r.IntN(3) > 0 {
			return 0
		}
		return p * r.Float64()
	}
	t, f := &c.Tasks, &c.Faults
	t.Flaky, t.Hopeless, t.Secede, t.Reschedule = some(0.2), some(0.05), some(0.2), some(0.2)
	t.Resource, t.Restrict, t.Priority = some(0.3), some(0.3), some(0.5)
	f.Kill, f.Break, f.Partition, f.Freeze = some(1), some(1), some(0.5), some(0.3)
	f.Slow, f.Pause, f.LoseHeartbeats, f.Stall = some(1), some(1), some(0.2), some(1)
	f.RestartScheduler, f.Busy = some(0.2), some(0.5)
	f.Retire, f.Replicate, f.Rebalance, f.Cancel = some(0.2), some(1), some(0.5), some(1)
	f.Reduce = some(2)
	c.Values, c.Ahead = r.IntN(4) > 0, r.IntN(4) > 0
	return c
}
