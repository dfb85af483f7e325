// Package state is the scheduler without its network: a state machine that is told what happened and says what
// is to be done.
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
// It does what Dask's scheduler does, with the same states of tasks: released, waiting for dependencies, queued or
// without a worker, processing, in memory, erred, forgotten. One rule carries most of it: a task is computed
// and kept as long as a client wants it or a task in play needs it; everything else is released, and
// forgotten when nothing refers to it any more.
//
// # Purity
//
// The state does no I/O, reads no clock, starts no goroutine and draws no random numbers, and what it does
// depends on nothing but the events and the times that Apply was given: the same events give the same
// actions. One goroutine owns a State. Tasks, workers and clients that it hands out are its own; they may be
// read until the next Apply and must not be kept.
//
// # Where it differs from Dask
//
//   - Root tasks that take less than 5 ms and make little are sent ahead, in batches, as far as about 10 ms of work: a
//     worker that had to ask for each would mostly wait. Dask sends 1.1 per thread whatever they take.
//   - Ready root tasks always go through the queue, by priority; Dask sends the first that it comes across.
//   - When a worker dies, only what may have been running on it is suspicious: long-running tasks and the first two per
//     thread by priority. Dask suspects everything that was sent to it.
//   - A worker that stays paused for a second, or retires, is asked for all that it has not started.
//   - Results that workers hold from before a restart of the scheduler are taken over (AddKeys.Adopt, run ids of an
//     earlier epoch), and so are those of a worker that was removed and comes back, as far as it held them before.
//     Data from outside waits a moment for the return of its only holder.
//   - Keys that a graph or a client names and that nobody knows are reported as cancelled; a graph with a cycle errs
//     all keys that it was to compute.
//   - Without the queue (worker-saturation inf) siblings are not kept together on one worker.
//
// # Cost
//
// Every event costs what the tasks that it touches cost: nothing walks over all workers, but Tick, and adding
// or removing a worker.
package state
