// Package state implements the scheduler without its network: a state machine that consumes events and returns actions.
//
//	s := state.New(state.Config{})
//	var out state.Actions
//	add := &state.AddWorker{Address: "tcp://10.0.0.7:4000", Name: "a", Threads: 4}
//	s.Apply(now, add, &out)
//	c := &state.AddClient{Name: "client-1"}
//	s.Apply(now, c, &out)
//	s.Apply(now, &state.UpdateGraph{Client: c.Client, Graph: g, Keys: keys}, &out)
//	for _, a := range out.List() {
//		switch a.Kind {
//		case state.ComputeTask:
//			send(a.Worker, a.Task) // the order to run a task
//		…
//		}
//	}
//
// It behaves like Dask's scheduler, with the same states of tasks: released, waiting for dependencies, queued or
// without a worker, processing, in memory, erred, forgotten. The main rule: a task is computed and kept as long as a
// client holds it or a task in play depends on it; everything else is released, and forgotten when nothing refers to
// it.
//
// # Purity
//
// The state does no I/O, reads no clock, starts no goroutine and uses no random numbers. Its behavior depends only on
// the events and times that are passed to Apply: the same events give the same actions. One goroutine owns a State. It
// also owns the tasks, workers and clients that it returns; they may be read until the next Apply and must not be kept.
//
// # Differences from Dask
//
//   - Root tasks that take less than 5 ms and have small results are sent ahead, in batches, up to about 10 ms of work:
//     a worker that had to request each one would mostly wait. Dask sends 1.1 per thread, whatever their duration.
//   - A task that waits for one result only, of a task that a Millstream worker processes, is sent to it in advance.
//   - Ready root tasks always pass through the queue, by priority; Dask sends the first ones directly.
//   - When a worker is lost, only tasks that may have been running on it are suspicious: long-running tasks and the
//     first two per thread by priority. Dask suspects all tasks that were sent to it.
//   - A worker that stays paused for a second, or retires, gives up all tasks that it has not started.
//   - Results that workers hold from before a restart of the scheduler are adopted (AddKeys.Adopt, run IDs of an
//     earlier epoch), and so are those of a worker that was removed and reconnects, as far as it held them before.
//     Scattered data waits for the return of its only holder for some time.
//   - Unknown keys in a graph or of a client are reported as canceled; a graph with a cycle errs all its requested
//     keys.
//   - Without the queue (worker-saturation inf) siblings are not kept together on one worker.
//
// # Cost
//
// The cost of an event is proportional to the number of tasks that it touches. Only Tick, and adding or removing a
// worker, iterate over all workers.
package state
