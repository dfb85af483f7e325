// Package worker implements a Dask worker: a server that registers with a scheduler of Millstream or Dask, runs the
// tasks that it is assigned, stores their results and serves them to peers.
//
//	cfg, err := worker.FromConfig(settings) // Dask's keys and environment variables
//	cfg.Scheduler = "tcp://10.0.0.1:8786"
//	cfg.Threads = 4
//	w, err := worker.Start(ctx, cfg)
//	…
//	err = w.Retire(ctx) // data moves to peers first
//	err = w.Close()
//
// # Structure
//
// The mutex Worker.turn guards the state machine of package internal/engine/worker/state. It is held by the goroutine
// of the loop, or by an executor that has just finished a task and takes the next one itself. Batches of the
// scheduler's stream, finished tasks and received data wait in an inbox; the messages of one turn to the scheduler are
// sent as one batch.
//
// Worker connects the subsystems below worker/internal, which receive the parts of it that they need as functions:
// registration (session with the scheduler, heartbeats), stream (encoding of its messages), execution (runs of tasks,
// at most Config.Threads at once, not counting seceded tasks), memory (store, spill, limits), transfer (data of peers),
// sidecar (the Python process), ops (requests), metrics, monitor, logs and record.
//
// Results stay live Go values in the process and are encoded only for a peer, a client or the disk. Peers fetch them
// with Dask's get_data; Millstream workers on one host use a data connection (shared memory through UCX). An
// invitation, sent over the control connection, admits a peer to it.
//
// # Memory
//
// The four thresholds are those of Dask: stored data is spilled above Memory.Target of the limit, or when the process
// exceeds Memory.Spill; above Memory.Pause no task is started; above Memory.Terminate the worker closes, so that its
// parent can start another.
package worker
