package state

import (
	"fmt"
	"slices"
	"testing"

	"go.millstream.dev/internal/task/taskid"
)

// replicaRig has four workers, and the result k of 100 bytes on the given ones.
func replicaRig(t *testing.T, holders ...WorkerID) (*rig, ClientID) {
	t.Helper()
	r := newRig(Config{Validate: true, NoStealing: true})
	r.addWorkers(4, 1)
	c := r.addClient("c")
	r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("k"), NBytes: 100, Workers: holders}}})
	return r, c
}

func (r *rig) holdersOf(key string) []WorkerID {
	task := r.Task(taskid.NewKey(key))
	var ids []WorkerID
	for i := range task.NumHolders() {
		ids = append(ids, task.Holder(i).ID())
	}
	slices.Sort(ids)
	return ids
}

// runOn makes a task that needs k process on a worker.
func (r *rig) runOn(t *testing.T, c ClientID, key string, w WorkerID) {
	t.Helper()
	node := Node{Key: taskid.NewKey(key), Spec: []byte("f"), Deps: keysOf("k")}
	node.Annotations = &Annotations{Workers: []string{r.Worker(w).Address()}}
	r.apply(&UpdateGraph{Client: c, Graph: &Graph{Nodes: []Node{node}}, Keys: keysOf(key)})
	if on := r.Task(taskid.NewKey(key)).ProcessingOn(); on == nil || on.ID() != w {
		t.Fatalf("%s: got processing on %v, want worker %d", key, on, w)
	}
}

func TestReduceReplicas(t *testing.T) {
	for _, c := range []struct {
		name    string
		holders []WorkerID
		prepare func(t *testing.T, r *rig, c ClientID)
		want    []WorkerID
	}{
		{"single replica stays", []WorkerID{1}, nil, []WorkerID{1}},
		{"the fullest worker drops first", []WorkerID{0, 2}, func(_ *testing.T, r *rig, c ClientID) {
			r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("big"), NBytes: 1000,
				Workers: []WorkerID{2}}}})
		}, []WorkerID{0}},
		{"a paused worker drops before others", []WorkerID{0, 1}, func(_ *testing.T, r *rig, c ClientID) {
			r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("big"), NBytes: 1000,
				Workers: []WorkerID{1}}}})
			r.apply(&WorkerStatusChange{Worker: 0, Status: StatusPaused})
		}, []WorkerID{1}},
		{"a worker that runs a dependent keeps its replica", []WorkerID{0, 1, 2, 3},
			func(t *testing.T, r *rig, c ClientID) { r.runOn(t, c, "d", 2) }, []WorkerID{2}},
		{"one for each worker that runs dependents", []WorkerID{0, 1, 2, 3}, func(t *testing.T, r *rig, c ClientID) {
			r.runOn(t, c, "d", 2)
			r.runOn(t, c, "e", 1)
		}, []WorkerID{1, 2}},
		{"the last running holder keeps its replica while a paused one runs a dependent", []WorkerID{0, 1},
			func(t *testing.T, r *rig, c ClientID) {
				r.runOn(t, c, "d", 0)
				r.apply(&WorkerStatusChange{Worker: 0, Status: StatusPaused})
			}, []WorkerID{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, id := replicaRig(t, c.holders...)
			if c.prepare != nil {
				c.prepare(t, r, id)
			}
			ev := &ReduceReplicas{}
			var removed int
			for _, a := range r.apply(ev) {
				if a.Kind == RemoveReplicas {
					removed += len(a.Keys)
				}
			}
			if got := r.holdersOf("k"); !slices.Equal(got, c.want) {
				t.Errorf("holders: got %v, want %v", got, c.want)
			}
			if want := len(c.holders) - len(c.want); removed != want || ev.Dropped != want {
				t.Errorf("dropped: got %d orders, %d counted, want %d", removed, ev.Dropped, want)
			}
			if r.apply(ev); ev.Dropped != len(c.holders)-len(c.want) {
				t.Errorf("second run: got %d further drops, want none", ev.Dropped-len(c.holders)+len(c.want))
			}
		})
	}
}

// A run sends one order to each worker, whatever the number of keys.
func TestReduceReplicasOrders(t *testing.T) {
	r, c := replicaRig(t, 0)
	var data []NewData
	for i := range 100 {
		data = append(data, NewData{Key: taskid.NewKey(fmt.Sprint("r", i)), NBytes: 10,
			Workers: []WorkerID{0, 1, 2, 3}})
	}
	r.apply(&UpdateData{Client: c, Data: data})
	seen := map[WorkerID]bool{}
	for _, a := range r.apply(&ReduceReplicas{}) {
		if a.Kind != RemoveReplicas {
			continue
		}
		if seen[a.Worker] {
			t.Errorf("worker %d: got two orders, want one", a.Worker)
		}
		seen[a.Worker] = true
	}
	for _, d := range data {
		if got := r.Task(d.Key).NumHolders(); got != 1 {
			t.Fatalf("%s: got %d holders, want 1", d.Key, got)
		}
	}
	if n := len(r.ledger.replicated.list); n != 0 {
		t.Errorf("replicated tasks: got %d, want 0", n)
	}
}

// Replicas that were requested with Keep stay, until the result is released or fewer are requested.
func TestReduceReplicasKeeps(t *testing.T) {
	r, c := replicaRig(t, 0, 1, 2, 3)
	for _, n := range []int{3, 2, 1} {
		r.apply(&Replicate{Request: uint64(n), Keys: keysOf("k"), N: n, Keep: true})
		r.apply(&ReduceReplicas{})
		if got := len(r.holdersOf("k")); got != n {
			t.Errorf("replicas: got %d, want %d", got, n)
		}
	}
	r.apply(&Replicate{Request: 9, Keys: keysOf("k"), N: 1, Keep: true, Delete: true})
	r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("j"), NBytes: 1, Workers: []WorkerID{0, 1}}}})
	r.apply(&Replicate{Request: 10, Keys: keysOf("j"), N: 2, Keep: true})
	r.apply(&ClientReleases{Client: c, Keys: keysOf("j", "k")})
	if n := len(r.ledger.kept); n != 0 {
		t.Errorf("records of released results: got %d, want 0", n)
	}
}

// A replica that a worker does not drop is announced again, and is dropped by the next run.
func TestReduceReplicasRefused(t *testing.T) {
	r, _ := replicaRig(t, 0, 1)
	r.apply(&ReduceReplicas{})
	left := r.holdersOf("k")
	r.apply(&AddKeys{Worker: 1 - left[0], Keys: keysOf("k")})
	if got := r.holdersOf("k"); len(got) != 2 {
		t.Fatalf("holders after a refusal: got %v, want 2", got)
	}
	r.apply(&ReduceReplicas{})
	if got := r.holdersOf("k"); len(got) != 1 {
		t.Errorf("holders after the second run: got %v, want 1", got)
	}
}
