// Package sim simulates a whole cluster in one goroutine, with virtual time: the real state machines of the scheduler
// and the workers, with simulated servers, clients, connections and faults.
//
//	report, err := sim.Run(sim.Random(seed))
//
// Clients submit random graphs; workers compute a hash of a task's spec and inputs, fetch from each other, send
// heartbeats, pause, secede. Meanwhile, depending on the seed, workers are killed, frozen, slow, disconnected; streams
// break, messages of different connections overtake each other (those of one never do), heartbeats are lost, the
// scheduler is killed and restarts from its journal, clients cancel, administrators replicate, rebalance and retire.
//
// A run succeeds if every key that a client held has had the value that the graph determines, or the error; if every
// request was answered; if, after the clients have released everything, neither the scheduler nor a worker has a task
// or a result; and if no invariant of either machine was broken at any event.
//
// The same Config gives the same run, to the last event. A failure reports the seed:
//
//	go test ./internal/engine/sim -run TestSeed$ -sim.seed=42 -sim.trace
//
// This is possible because both machines are pure: see internal/engine/scheduler/state and
// internal/engine/worker/state.
package sim
