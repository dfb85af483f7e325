package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// requestRig has three workers and a result on the first.
func requestRig(t *testing.T) (*rig, ClientID) {
	r := newRig(Config{Validate: true, MaxReplicateTime: time.Minute})
	r.addWorkers(3, 1)
	c := r.addClient("c")
	r.apply(&UpdateData{Client: c, Data: []NewData{{Key: taskid.NewKey("k"), NBytes: 100, Workers: []WorkerID{0}}}})
	return r, c
}

// done returns the keys for which a request could not be met, and whether it has ended.
func done(list []Action, number uint64) ([]taskid.Key, bool) {
	for _, a := range list {
		if a.Kind == RequestDone && a.Number == number {
			return a.Keys, true
		}
	}
	return nil, false
}

func TestReplicateEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []Event // after the request for three replicas
		after  time.Duration
		ended  bool
		failed int
	}{
		{"when all are there", []Event{&AddKeys{Worker: 1, Keys: keysOf("k")}, &AddKeys{Worker: 2,
			Keys: keysOf("k")}}, 0, true, 0},
		{"not before", []Event{&AddKeys{Worker: 1, Keys: keysOf("k")}}, 0, false, 0},
		{"when a worker dies", []Event{&AddKeys{Worker: 1, Keys: keysOf("k")}, &RemoveWorker{Worker: 2}}, 0, true, 1},
		{"when the result is lost", []Event{&RemoveWorker{Worker: 0}}, 0, true, 2},
		{"when it takes too long", []Event{&AddKeys{Worker: 1, Keys: keysOf("k")}}, 2 * time.Minute, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _ := requestRig(t)
			list := r.apply(&Replicate{Request: 7, Keys: keysOf("k"), N: 3})
			if _, ended := done(list, 7); ended {
				t.Fatal("request: ended before its copies")
			}
			var failed []taskid.Key
			ended := false
			note := func(list []Action) {
				if f, ok := done(list, 7); ok {
					failed, ended = f, true
				}
			}
			for _, ev := range c.events {
				note(r.apply(ev))
			}
			if c.after > 0 {
				r.now = r.now.Add(c.after)
				note(r.apply(&Tick{}))
			}
			if ended != c.ended || len(failed) != c.failed {
				t.Errorf("got ended %v with %d failures, want %v with %d", ended, len(failed), c.ended, c.failed)
			}
		})
	}
}

func TestReplicateAsksAgain(t *testing.T) {
	r, _ := requestRig(t)
	r.apply(&Replicate{Request: 1, Keys: keysOf("k"), N: 2})
	r.now = r.now.Add(askAgain + time.Second)
	asked := 0
	for _, a := range r.apply(&Tick{}) {
		if a.Kind == AcquireReplicas {
			asked += len(a.Tasks)
		}
	}
	if asked != 1 {
		t.Errorf("requests of a copy that does not complete: got %d, want 1", asked)
	}
}

func TestReplicateUnknownKeys(t *testing.T) {
	r, c := requestRig(t)
	r.submit(t, c, "running")
	failed, ended := done(r.apply(&Replicate{Request: 3, Keys: keysOf("running", "nothing"), N: 2}), 3)
	if !ended || len(failed) != 2 {
		t.Errorf("got ended %v, %d failures, want true and 2", ended, len(failed))
	}
	if failed, ended := done(r.apply(&Replicate{Request: 4, Keys: keysOf("k"), N: 1}), 4); !ended || len(failed) != 0 {
		t.Errorf("existing replicas: got ended %v, %d failures, want true and 0", ended, len(failed))
	}
}

func TestRetireMovesOnWhenTargetsDie(t *testing.T) {
	r, _ := requestRig(t)
	target := func(list []Action) WorkerID {
		for _, a := range list {
			if a.Kind == AcquireReplicas {
				return a.Worker
			}
		}
		return NoWorker
	}
	first := target(r.apply(&RetireWorkers{Request: 1, Workers: []WorkerID{0}, Remove: true}))
	if first == NoWorker || !r.Worker(0).Retiring() {
		t.Fatalf("target of the copy: got %d", first)
	}
	list := r.apply(&RemoveWorker{Worker: first})
	second := target(list)
	if second == NoWorker || second == first || second == 0 {
		t.Fatalf("target of the copy after the loss of %d: got %d", first, second)
	}
	// A worker that reports that it is running again has not received the order to close yet.
	r.apply(&WorkerStatusChange{Worker: 0, Status: StatusRunning})
	if r.Worker(0).Status() != StatusClosingGracefully {
		t.Error("status of a retiring worker: got running")
	}
	list = r.apply(&AddKeys{Worker: second, Keys: keysOf("k")})
	if failed, ended := done(list, 1); !ended || len(failed) != 0 || r.Worker(0) != nil {
		t.Errorf("got ended %v, %d failures, want true and 0", ended, len(failed))
	}
	if k := r.Task(taskid.NewKey("k")); k.NumHolders() != 1 || k.Holder(0).ID() != second {
		t.Error("result: not moved")
	}
}

func TestRetireSpreadsData(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(5, 1)
	c := r.addClient("c")
	var data []NewData
	for i := range 40 {
		data = append(data, NewData{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), NBytes: 100, Workers: []WorkerID{0}})
	}
	r.apply(&UpdateData{Client: c, Data: data})
	list := r.apply(&RetireWorkers{Request: 1, Workers: []WorkerID{0}, Close: true, Remove: true})
	var answers []*AddKeys
	for _, a := range list {
		if a.Kind == AcquireReplicas {
			ev := &AddKeys{Worker: a.Worker}
			for _, x := range a.Tasks {
				ev.Keys = append(ev.Keys, x.Key())
			}
			answers = append(answers, ev)
		}
	}
	for _, ev := range answers {
		if len(ev.Keys) != 10 {
			t.Errorf("worker %d: got %d of 40 results, want 10", ev.Worker, len(ev.Keys))
		}
		r.apply(ev)
	}
	if r.Worker(0) != nil {
		t.Error("retired worker: not removed")
	}
}

func TestRebalance(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(4, 1)
	c := r.addClient("c")
	var data []NewData
	for i := range 80 {
		data = append(data, NewData{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), NBytes: 100, Workers: []WorkerID{0}})
	}
	r.apply(&UpdateData{Client: c, Data: data})
	list := r.apply(&Rebalance{Request: 1})
	var answers []*AddKeys
	for _, a := range list {
		if a.Kind == AcquireReplicas {
			for _, x := range a.Tasks {
				answers = append(answers, &AddKeys{Worker: a.Worker, Keys: []taskid.Key{x.Key()}})
			}
		}
	}
	ended := false
	for _, ev := range answers {
		_, ok := done(r.apply(ev), 1)
		ended = ended || ok
	}
	if !ended {
		t.Error("request: not ended")
	}
	for w := range r.Workers() {
		if w.NBytes() < 1800 || w.NBytes() > 2200 {
			t.Errorf("worker %s: got %d of 8000 bytes, want about 2000", w.Name(), w.NBytes())
		}
	}
	// Balanced results are not moved.
	if list := r.apply(&Rebalance{Request: 2}); len(list) != 1 || list[0].Kind != RequestDone {
		t.Errorf("actions: got\n%s", formatActions(r.State, list))
	}
}

// Memory of a process in addition to its results counts, if it is large.
func TestRebalanceLooksAtProcesses(t *testing.T) {
	for _, tc := range []struct {
		other int64
		moves bool
	}{{99, false}, {900, true}} {
		r := newRig(Config{Validate: true})
		for _, n := range []string{"a", "b"} {
			r.apply(&AddWorker{Address: "tcp://" + n + ":1", Name: n, Threads: 1, MemoryLimit: 1000})
		}
		c := r.addClient("c")
		var data []NewData
		for i := range 20 {
			data = append(data, NewData{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), NBytes: 10,
				Workers: []WorkerID{WorkerID(i % 2)}})
		}
		r.apply(&UpdateData{Client: c, Data: data})
		r.apply(&Heartbeat{Worker: 0, Memory: 100 + tc.other, Managed: 100})
		r.apply(&Heartbeat{Worker: 1, Memory: 100, Managed: 100})
		moved := false
		for _, a := range r.apply(&Rebalance{Request: 1}) {
			if a.Kind == AcquireReplicas {
				moved = true
				if a.Worker != 1 {
					t.Errorf("target: got the fuller worker")
				}
			}
		}
		if moved != tc.moves {
			t.Errorf("%d bytes in addition to the results: got moved: %v", tc.other, moved)
		}
	}
}

// Workers below SenderMin of their memory limit send nothing, and none receives more than RecipientMax.
func TestRebalanceThresholds(t *testing.T) {
	for _, tc := range []struct {
		sender, recipient float64
		limit             int64
		want              int64 // bytes that move to the empty worker
	}{{0, 0, 1000, 200}, {0.3, 0.6, 1000, 200}, {0.5, 0, 1000, 0}, {0, 0.1, 1000, 100}, {0.5, 0.1, 0, 200}} {
		r := newRig(Config{Validate: true, SenderMin: tc.sender, RecipientMax: tc.recipient})
		for _, n := range []string{"a", "b"} {
			r.apply(&AddWorker{Address: "tcp://" + n + ":1", Name: n, Threads: 1, MemoryLimit: tc.limit})
		}
		c := r.addClient("c")
		var data []NewData
		for i := range 40 {
			data = append(data, NewData{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), NBytes: 10, Workers: []WorkerID{0}})
		}
		r.apply(&UpdateData{Client: c, Data: data})
		var moved int64
		for _, a := range r.apply(&Rebalance{Request: 1}) {
			if a.Kind == AcquireReplicas {
				moved += 10 * int64(len(a.Tasks))
			}
		}
		if moved < tc.want-20 || moved > tc.want+20 || tc.want == 0 && moved > 0 ||
			tc.recipient == 0.1 && tc.limit > 0 && moved > 100 {
			t.Errorf("sender-min %v, recipient-max %v, limit %d: moved %d bytes, want about %d", tc.sender,
				tc.recipient, tc.limit, moved, tc.want)
		}
	}
}

// Workers that retire one after the other do not move their data to each other, and none is lost.
func TestRetireeTakesNothing(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(3, 1)
	c := r.addClient("c")
	var data []NewData
	for i := range 30 {
		data = append(data, NewData{Key: taskid.NewKey(fmt.Sprintf("d-%d", i)), NBytes: 100, Workers: []WorkerID{0}})
	}
	r.apply(&UpdateData{Client: c, Data: data})
	to := map[WorkerID]int{}
	collect := func(list []Action) (keys []taskid.Key) {
		for _, a := range list {
			if a.Kind == AcquireReplicas {
				to[a.Worker] += len(a.Tasks)
				if a.Worker == 2 {
					for _, x := range a.Tasks {
						keys = append(keys, x.Key())
					}
				}
			}
		}
		return keys
	}
	pending := collect(r.apply(&RetireWorkers{Request: 1, Workers: []WorkerID{0}, Remove: true}))
	if to[1] == 0 || to[2] == 0 {
		t.Fatalf("targets: got %v", to)
	}
	clear(to)
	// The second retires before it has received its copies.
	pending = append(pending, collect(r.apply(&RetireWorkers{Request: 2, Workers: []WorkerID{1}, Remove: true}))...)
	for len(pending) > 0 {
		pending = collect(r.apply(&AddKeys{Worker: 2, Keys: pending}))
	}
	if to[1] != 0 || to[2] == 0 {
		t.Errorf("targets of the copies for the second: got %v", to)
	}
	if all, _ := r.NumWorkers(); all != 1 {
		t.Errorf("workers: got %d, want 1", all)
	}
	for i := range data {
		if x := r.Task(data[i].Key); x == nil || x.NumHolders() != 1 {
			t.Errorf("%s: lost", data[i].Key)
		}
	}
}

// TestReplicateDeletes checks that excess replicas are removed only with Delete, from the fullest worker first, and
// never the last.
func TestReplicateDeletes(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(3, 1)
	c := r.addClient("c")
	k, full := taskid.NewKey("x"), taskid.NewKey("full")
	r.apply(&UpdateData{Client: c, Data: []NewData{
		{Key: k, NBytes: 10, Workers: []WorkerID{0, 1, 2}}, {Key: full, NBytes: 99, Workers: []WorkerID{1}},
	}})
	removed := func(ev *Replicate) (ids []WorkerID) {
		ev.Keys = []taskid.Key{k}
		for _, a := range r.apply(ev) {
			if a.Kind == RemoveReplicas {
				ids = append(ids, a.Worker)
			}
		}
		return ids
	}
	if ids := removed(&Replicate{Request: 1, N: 2}); ids != nil || r.Task(k).NumHolders() != 3 {
		t.Errorf("without Delete: removed replicas of %v, %d are left", ids, r.Task(k).NumHolders())
	}
	if ids := removed(&Replicate{Request: 2, N: 2, Delete: true}); !slices.Equal(ids, []WorkerID{1}) {
		t.Errorf("removed replicas: got %v, want that of the fullest worker, 1", ids)
	}
	if removed(&Replicate{Request: 3, N: 1, Delete: true}); r.Task(k).NumHolders() != 1 {
		t.Errorf("replicas: got %d, want 1", r.Task(k).NumHolders())
	}
	if ids := removed(&Replicate{Request: 4, N: 1, Delete: true}); ids != nil {
		t.Errorf("last replica: removed from %v", ids)
	}
}
