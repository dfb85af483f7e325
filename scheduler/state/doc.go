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
// # Cost
//
// Every event costs what the tasks that it touches cost: nothing walks over all workers, but Tick, and adding
// or removing a worker.
package state
