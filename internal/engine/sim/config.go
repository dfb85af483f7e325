package sim

import (
	"io"
	"math/rand/v2"
	"time"
)

// Config is one simulation. Random fills it from a seed.
type Config struct {
	// Seed of everything that is random: the same Config gives the same run.
	Seed uint64
	// Workers, and the Threads of each.
	Workers, Threads int
	// Clients, and how many Graphs of about Nodes tasks each of them submits.
	Clients, Graphs, Nodes int
	// Tasks says what they are like.
	Tasks Tasks
	// Faults says what goes wrong.
	Faults Faults
	// Validate checks every invariant of both state machines after each event.
	Validate bool
	// Latency is the mean time of a message on its way.
	Latency time.Duration
	// Bandwidth of transfers between workers in bytes per second.
	Bandwidth float64
	// NoStealing and Saturation are the scheduler's.
	NoStealing bool
	Saturation float64
	// Trace, if not nil, gets a line for everything that happens.
	Trace io.Writer

	graph func(w *world, i int) submission // another graph than a random one
	cpu   func() time.Duration             // for the cost of Apply; nil: the time that passes
}

// Tasks says what the tasks of a simulation are like. Fractions are of all tasks.
type Tasks struct {
	// Duration and Size of the result: means of an exponential distribution.
	Duration time.Duration
	Size     int64
	// Flaky tasks fail a few times, and have as many retries; Hopeless ones always fail.
	Flaky, Hopeless float64
	// Secede and Reschedule: tasks that leave the threads, and that give themselves back once.
	Secede, Reschedule float64
	// Resource, Restrict and Priority: tasks with these annotations.
	Resource, Restrict, Priority float64
}

// Faults says what goes wrong until the time Until: each is a mean number of times per second of virtual
// time, for the whole cluster. After Until everything heals.
type Faults struct {
	Until time.Duration
	// Kill of a worker, which may come back under its name; half of the kills are noticed only because
	// heartbeats stop.
	Kill float64
	// Break of a worker's stream: both ends live.
	Break float64
	// Partition of a worker from scheduler, peers or both, for up to PartitionFor.
	Partition    float64
	PartitionFor time.Duration
	// Freeze of a worker for up to FreezeFor (SIGSTOP).
	Freeze    float64
	FreezeFor time.Duration
	// Slow makes a worker slow for a while, Pause makes it pause.
	Slow, Pause float64
	// LoseHeartbeats of a worker for longer than the scheduler waits.
	LoseHeartbeats float64
	// Stall delays all messages of one link for up to PartitionFor: others overtake them.
	Stall float64
	// RestartScheduler kills the scheduler, which comes back from its journal.
	RestartScheduler float64
	// Retire, Replicate and Rebalance are no faults, but what administrators do meanwhile.
	Retire, Replicate, Rebalance float64
	// Cancel of a wanted key by a client.
	Cancel float64
	// Busy is the fraction of transfers that a peer refuses for now.
	Busy float64
}

// Random is the simulation of a seed: its size, its tasks and its faults.
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
	// Each kind of trouble is there in some of the seeds, so that most seeds mix a few.
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
	return c
}
