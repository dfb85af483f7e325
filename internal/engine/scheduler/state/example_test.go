package state_test

import (
	"fmt"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task/taskid"
)

// Two tasks, one worker, one client: the events and the resulting actions.
func ExampleState_Apply() {
	s := state.New(state.Config{})
	var out state.Actions
	now := time.Unix(0, 0)
	do := func(ev state.Event) {
		now = now.Add(time.Millisecond)
		s.Apply(now, ev, &out)
		for _, a := range out.List() {
			switch a.Kind {
			case state.ComputeTask:
				fmt.Printf("%s: run %s, dependencies: %d\n", s.Worker(a.Worker).Name(), a.Key, a.Task.NumDeps())
			case state.FreeKeys:
				fmt.Printf("%s: forget %s\n", s.Worker(a.Worker).Name(), a.Keys[0])
			case state.KeyInMemory:
				fmt.Printf("%s: %s is done\n", s.Client(a.Client).Name(), a.Key)
			}
		}
	}

	worker := &state.AddWorker{Address: "tcp://10.0.0.7:4000", Name: "alice", Threads: 1}
	do(worker)
	client := &state.AddClient{Name: "client-1"}
	do(client)

	load, total := taskid.NewKey("load-1"), taskid.NewKey("total-1")
	graph := &state.Graph{Nodes: []state.Node{
		{Key: load, Spec: []byte("call load()")},
		{Key: total, Spec: []byte("call sum(load-1)"), Deps: []taskid.Key{load}},
	}}
	do(&state.UpdateGraph{Client: client.Client, Graph: graph, Keys: []taskid.Key{total}})
	do(&state.TaskFinished{Worker: worker.Worker, Key: load, RunID: s.Task(load).RunID(), NBytes: 1 << 20})
	do(&state.TaskFinished{Worker: worker.Worker, Key: total, RunID: s.Task(total).RunID(), NBytes: 8})
	do(&state.ClientReleases{Client: client.Client, Keys: []taskid.Key{total}})
	fmt.Println("tasks left:", s.NumTasks())
	// Output:
	// alice: run load-1, dependencies: 0
	// alice: run total-1, dependencies: 1
	// client-1: total-1 is done
	// alice: forget load-1
	// alice: forget total-1
	// tasks left: 0
}
