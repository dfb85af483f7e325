// Package state is the state machine of a worker: which tasks are here, what each waits for, what is to
// be fetched from whom, what may run now. It follows the state machine of Dask's workers,
// with its states and its messages, and does nothing itself: no I/O, clock, goroutine,
// randomness or dependence on the order of maps. Events go in, actions come out.
//
//	s := state.New(state.Config{Address: "tcp://10.0.0.2:40000", Threads: 2})
//	var out state.Actions
//	s.Apply(now, &state.ComputeTask{Key: taskid.NewKey("inc-1"), RunID: 1, Spec: spec}, &out)
//	for _, a := range out.List() {
//		switch a.Kind {
//		case state.DoExecute: // run a.Task, then apply ExecuteSuccess or ExecuteFailure
//		case state.DoGather: // fetch a.Tasks from a.Peer, then apply one of the Gather events
//		…
//		}
//	}
//
// One goroutine owns a State and everything that it points to.
//
// # Values
//
// The state knows which results are here but does not hold them; the server does. It puts a
// value into its store before it applies ExecuteSuccess, GatherSuccess or UpdateData, and
// deletes it when DoDelete says so, which comes at once if nobody wants the value any more.
// When it consumes DoExecute it takes hold of the values of the dependencies, all of which
// are in its store at that moment: later events may delete them.
//
// # Differences from Dask
//
// Where Dask leaves a case to chance or fails an assertion, this machine has a rule:
//
//   - Tasks that become ready by one event start by priority, not in the order in which
//     they were found.
//   - A task whose run was cancelled and that is wanted again takes over the new run id. If
//     the run then fails because it was told to stop, or the task is another one now, it
//     runs again; the scheduler never hears of a stale run.
//   - A replica that tasks here wait for is not dropped; the scheduler hears of it again.
//     Data that the scheduler frees nevertheless sends its dependents back to waiting.
//   - If the scheduler thinks that data is here which is not, it is told so.
//   - Missing data is asked for at once, then with every FindMissing.
//   - Data that cannot be read fails the tasks that wait for it, not the data.
//   - A task that needs a resource which the worker lacks fails at once.
//   - Tasks that wait for one resource do not hold up those that need another one.
//   - Losing the scheduler keeps results and running tasks, see SchedulerLost.
package state
