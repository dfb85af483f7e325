package state_test

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task/taskid"
)

// A task needs data of a peer: it is fetched, the task runs, both are reported to the scheduler.
func Example() {
	s := state.New(state.Config{Address: "tcp://10.0.0.2:40000", Threads: 2})
	now := time.Now()
	var out state.Actions
	apply := func(ev state.Event) {
		s.Apply(now, ev, &out)
		for _, a := range out.List() {
			switch a.Kind {
			case state.DoGather:
				fmt.Println("fetch", a.Tasks[0].Key(), "from", a.Peer.Address())
			case state.DoExecute:
				fmt.Println("run", a.Key)
			default:
				fmt.Println("message to the scheduler:", a.Kind)
			}
		}
	}
	x, y := taskid.NewKey("x"), taskid.NewKey("y")
	apply(&state.ComputeTask{Key: y, RunID: 1,
		Deps: []state.Dep{{Key: x, NBytes: 100, WhoHas: []string{"tcp://10.0.0.3:40000"}}}})
	apply(&state.GatherSuccess{Peer: "tcp://10.0.0.3:40000", Data: []state.Stored{{Key: x, NBytes: 100}}})
	apply(&state.ExecuteSuccess{Stored: state.Stored{Key: y, NBytes: 8}})
	fmt.Println(s.Task(y))
	// Output:
	// fetch x from tcp://10.0.0.3:40000
	// run y
	// message to the scheduler: add-keys
	// message to the scheduler: task-finished
	// y memory
}

// What happened to a key.
func ExampleState_Story() {
	s := state.New(state.Config{})
	var out state.Actions
	x := taskid.NewKey("x")
	s.Apply(time.Unix(0, 0), &state.ComputeTask{Stimulus: "compute-task-1", Key: x, RunID: 1}, &out)
	s.Apply(time.Unix(1, 0), &state.FreeKeys{Stimulus: "free-keys-2", Keys: []taskid.Key{x}}, &out)
	for _, t := range s.Story([]taskid.Key{x}, nil) {
		fmt.Println(t)
	}
	// Output:
	// 00:00:00.000000 x: released->waiting by compute-task compute-task-1
	// 00:00:00.000000 x: waiting->ready by compute-task compute-task-1
	// 00:00:00.000000 x: ready->executing by compute-task compute-task-1
	// 00:00:01.000000 x: executing->released became cancelled by free-keys free-keys-2
}
