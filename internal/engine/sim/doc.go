// Package sim is a whole cluster in one goroutine, with virtual time: the scheduler's and the workers' real
// state machines, and around them simulated servers, clients, connections and disasters.
//
//	report, err := sim.Run(sim.Random(seed))
//
// Clients submit random graphs; workers compute a hash of a task's spec and inputs, fetch from each other,
// send heartbeats, pause, secede. Meanwhile, as the seed has it, workers are killed, frozen, slow, cut off;
// streams break, messages of different connections overtake each other (those of one never do), heartbeats
// get lost, the scheduler dies and comes back from its journal, clients cancel, administrators replicate,
// rebalance and retire.
//
// A run is good when every key that a client wanted has had the value that the graph determines, or the
// error; when every request was answered; when, after the clients have let go, neither the scheduler nor a
// worker knows a task or holds a result; and when no invariant of either machine was broken at any event.
//
// The same Config gives the same run, to the last event. A failure names the seed:
//
//	go test ./internal/engine/sim -run TestSeed$ -sim.seed=42 -sim.trace
//
// Both machines are pure, which is what makes this possible: see internal/engine/scheduler/state and
// internal/engine/worker/state.
package sim
