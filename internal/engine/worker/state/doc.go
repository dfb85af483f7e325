// Package state implements the state machine of a worker: which tasks it has, what each waits for, which results are
// fetched from which peers, which tasks may run. It follows the state machine of Dask workers, with its states and
// messages, and has no effects: no I/O, clock, goroutine, randomness or dependence on the order of maps. Apply takes an
// event and returns actions.
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
// A State and everything that it points to are owned by one goroutine.
//
// # Values
//
// The state tracks which results are on the worker, but the server holds their values. The server puts a value into its
// store before it applies ExecuteSuccess, GatherSuccess or UpdateData, and deletes it on DoDelete, which follows at
// once if the value is no longer wanted. On DoExecute it holds the values of the dependencies, all of which are in its
// store at that moment: later events may delete them.
//
// # Differences from Dask
//
// Where Dask's behavior is undefined or fails an assertion, this machine has a rule:
//
//   - Tasks that become ready by one event start by priority, not in the order of discovery.
//   - A task whose run was canceled and that is wanted again takes over the new run ID. If the run then fails because
//     it was canceled, or the task has changed, it runs again; stale runs are never reported to the scheduler.
//   - A replica that tasks on this worker wait for is not dropped but reported again. If the scheduler frees the data
//     nevertheless, the dependents return to waiting.
//   - If the scheduler assumes data on this worker that is not there, it is notified.
//   - Holders of missing data are requested at once, then with every FindMissing.
//   - Data that cannot be read fails the tasks that wait for it, not the data.
//   - A task that needs a resource that the worker lacks fails at once.
//   - Tasks that wait for one resource do not block those that need another one.
//   - The loss of the scheduler keeps results and running tasks, see SchedulerLost.
package state
