// Package worker is the server that computes: it registers with a scheduler, Millstream's
// or Dask's, runs the tasks that it is given, keeps their results and hands them to others.
//
//	cfg, err := worker.FromConfig(settings) // Dask's keys and variables
//	cfg.Scheduler = "tcp://10.0.0.1:8786"
//	cfg.Threads = 4
//	w, err := worker.Start(ctx, cfg)
//	…
//	err = w.Retire(ctx) // data moves to peers first
//	err = w.Close()
//
// # How it is built
//
// A mutex, the turn, guards the state machine of package internal/engine/worker/state. Its holder is the
// goroutine of the loop, or an executor that has just finished a task and takes the next one
// itself. Batches of the scheduler's stream, finished tasks and arrived data wait in an inbox;
// messages to the scheduler of one turn leave as one batch.
//
// Worker has the turn and ties the subsystems below worker/internal together, which get what they need of it as
// functions: registration (session with the scheduler, heartbeats), stream (form of its messages), execution (runs
// of tasks, never more than Config.Threads at once but for those that seceded), memory (store, spill, limits),
// transfer (data of peers), sidecar (the Python process), ops (requests), metrics, monitor, logs and record.
//
// Results stay live Go values in the process and are encoded only for a peer, a client or
// the disk. A peer fetches them with Dask's get_data; Millstream workers on one host do so
// over a data connection (shared memory through UCX), to which an invitation admits
// that the peer hands out over the control connection.
//
// # Memory
//
// The four thresholds are Dask's: data that is kept goes to disk above Memory.Target of the
// limit, or when the process is above Memory.Spill; above Memory.Pause no task is started;
// above Memory.Terminate the worker ends itself, so that its parent can start another.
package worker
