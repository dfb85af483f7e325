package state

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task/taskid"
)

// world is a server with a random scheduler: it stores what the state stores, and ends runs and transfers in any order.
type world struct {
	s     *State
	out   Actions
	now   time.Time
	store map[taskid.Key]bool
	runs  map[taskid.Key]bool
	gets  map[string][]taskid.Key
	busy  map[string]bool
	runID int64
	sent  map[ActionKind]int
}

func newWorld(cfg Config) *world {
	cfg.Validate = true
	return &world{s: New(cfg), now: time.Unix(1000, 0), store: map[taskid.Key]bool{}, runs: map[taskid.Key]bool{},
		gets: map[string][]taskid.Key{},
		busy: map[string]bool{}, sent: map[ActionKind]int{}}
}

// apply checks that the actions are consistent with all previous ones.
func (w *world) apply(t fataler, ev Event) {
	w.now = w.now.Add(time.Millisecond)
	w.s.Apply(w.now, ev, &w.out)
	for _, a := range w.out.List() {
		w.sent[a.Kind]++
		switch a.Kind {
		case DoExecute:
			if w.runs[a.Key] {
				t.Fatalf("%v runs twice", a.Key)
			}
			w.runs[a.Key] = true
			for i := range a.Task.NumDeps() {
				if d := a.Task.Dep(i); !w.store[d.Key()] {
					t.Fatalf("%v runs without %v", a.Task, d)
				}
			}
		case DoCancel:
			if !w.runs[a.Key] {
				t.Fatalf("%v is canceled but does not run", a.Key)
			}
		case DoDelete:
			if !w.store[a.Key] {
				t.Fatalf("%v is deleted but not in the store", a.Key)
			}
			delete(w.store, a.Key)
		case DoGather:
			if w.gets[a.Peer.Address()] != nil {
				t.Fatalf("two transfers from %s", a.Peer.Address())
			}
			var keys []taskid.Key
			for _, g := range a.Tasks {
				keys = append(keys, g.Key())
			}
			w.gets[a.Peer.Address()] = keys
		case DoRetryBusy:
			w.busy[a.Peer.Address()] = true
		case SendTaskFinished, SendTaskErred:
			if a.RunID != a.Task.RunID() || a.RunID <= 0 {
				t.Fatalf("%v: run %d, want %d", a.Task, a.RunID, a.Task.RunID())
			}
		}
		if a.Kind.ToScheduler() && !w.s.Attached() {
			t.Fatalf("%v without a scheduler", a.Kind)
		}
	}
	w.s.Tasks(func(k *Task) bool {
		if k.State() == Memory && !w.store[k.Key()] {
			t.Fatalf("%v: not in the store", k)
		}
		if k.running() != w.runs[k.Key()] {
			t.Fatalf("%v: running %v", k, w.runs[k.Key()])
		}
		return true
	})
	for key := range w.store {
		if k := w.s.Task(key); k == nil || !k.stored {
			t.Fatalf("got %v in the store, which is not wanted", key)
		}
	}
}

type fataler interface{ Fatalf(string, ...any) }

// step makes one random event.
func (w *world) step(t *rapid.T) {
	key := func(label string) taskid.Key {
		return taskid.NewKey(string(rune('a' + rapid.IntRange(0, 7).Draw(t, label))))
	}
	addr := func(label string) string {
		return fmt.Sprintf("tcp://10.0.0.%d:1", rapid.IntRange(1, 4).Draw(t, label))
	}
	deps := func(not taskid.Key, least int) (out []Dep) {
		for range rapid.IntRange(0, 3).Draw(t, "deps") {
			d := Dep{Key: key("dep"), NBytes: int64(rapid.IntRange(-1, 100).Draw(t, "nbytes"))}
			for range rapid.IntRange(least, 3).Draw(t, "holders") {
				d.WhoHas = append(d.WhoHas, addr("holder"))
			}
			if d.Key != not {
				out = append(out, d)
			}
		}
		return out
	}
	keys := func() (out []taskid.Key) {
		for range rapid.IntRange(1, 3).Draw(t, "keys") {
			out = append(out, key("key"))
		}
		return out
	}
	oneRun := func() (taskid.Key, bool) {
		for range 3 {
			if k := key("run"); w.runs[k] {
				return k, true
			}
		}
		return "", false
	}
	onePeer := func() string {
		for range 4 {
			if a := addr("peer"); w.gets[a] != nil {
				return a
			}
		}
		return ""
	}
	attached := w.s.Attached()
	switch op := rapid.IntRange(0, 23).Draw(t, "op"); {
	case op <= 5 && attached:
		w.runID++
		ev := &ComputeTask{Key: key("key"), RunID: w.runID, Priority: Priority{0, 0,
			float64(rapid.IntRange(0, 9).Draw(t, "prio"))}}
		ev.Spec = []byte{byte(rapid.IntRange(0, 5).Draw(t, "spec") / 5)}
		ev.Deps = deps(ev.Key, 0)
		if rapid.IntRange(0, 3).Draw(t, "res") == 0 {
			ev.Resources = []Resource{{[]string{"R", "S", "none"}[rapid.IntRange(0, 8).Draw(t, "which")/4],
				float64(rapid.IntRange(0, 2).Draw(t, "amount"))}}
		}
		w.apply(t, ev)
	case op <= 9:
		k, ok := oneRun()
		if !ok {
			return
		}
		delete(w.runs, k)
		switch rapid.IntRange(0, 5).Draw(t, "end") {
		case 0:
			w.apply(t, &ExecuteFailure{Key: k, Failure: &Failure{ExceptionText: "boom"}})
		case 1:
			w.apply(t, &Reschedule{Key: k})
		default:
			w.store[k] = true
			w.apply(t, &ExecuteSuccess{Stored: Stored{Key: k, NBytes: 10}})
		}
	case op == 10:
		w.apply(t, &Secede{Key: key("key")})
	case op <= 14:
		a := onePeer()
		if a == "" {
			return
		}
		asked := w.gets[a]
		delete(w.gets, a)
		switch rapid.IntRange(0, 7).Draw(t, "end") {
		case 0:
			w.apply(t, &GatherBusy{Peer: a})
		case 1:
			w.apply(t, &GatherNetworkFailure{Peer: a})
		case 2:
			w.apply(t, &GatherFailure{Peer: a, Failure: &Failure{ExceptionText: "unreadable"}})
		default:
			var got []Stored
			for _, k := range asked {
				if rapid.IntRange(0, 4).Draw(t, "got") > 0 {
					got = append(got, Stored{Key: k, NBytes: 7})
					w.store[k] = true
				}
			}
			w.apply(t, &GatherSuccess{Peer: a, Data: got})
		}
	case op <= 16 && attached:
		w.apply(t, &FreeKeys{Keys: keys()})
	case op == 17 && attached:
		switch rapid.IntRange(0, 2).Draw(t, "which") {
		case 0:
			w.apply(t, &RemoveReplicas{Keys: keys()})
		case 1:
			w.apply(t, &AcquireReplicas{Deps: deps("", 1)})
		case 2:
			w.apply(t, &RefreshWhoHas{Deps: deps("", 0)})
		}
	case op == 18 && attached:
		w.apply(t, &StealRequest{Key: key("key")})
	case op == 19 && attached:
		w.apply(t, &CancelCompute{Key: key("key")})
	case op == 20:
		if rapid.Bool().Draw(t, "pause") {
			w.apply(t, &Pause{})
		} else {
			w.apply(t, &Unpause{})
		}
	case op == 21:
		switch rapid.IntRange(0, 4).Draw(t, "which") {
		case 4:
			w.apply(t, &DataLost{Key: key("key")})
		case 0:
			w.apply(t, &RemovePeer{Peer: addr("peer")})
		case 1:
			a := addr("peer")
			if w.busy[a] {
				delete(w.busy, a)
				w.apply(t, &RetryBusy{Peer: a})
			}
		case 2:
			w.apply(t, &FindMissing{})
		case 3:
			w.apply(t,
				&SetResources{Resources: []Resource{{"R", 2}, {"S", float64(rapid.IntRange(1, 3).Draw(t, "S"))}}})
		}
	case op == 22:
		var data []Stored
		for _, k := range keys() {
			data = append(data, Stored{Key: k, NBytes: 5})
			w.store[k] = true
		}
		w.apply(t, &UpdateData{Data: data})
	case op == 23:
		if attached {
			if rapid.IntRange(0, 3).Draw(t, "lose") == 0 {
				w.apply(t, &SchedulerLost{})
			}
		} else {
			w.apply(t, &Reattach{})
		}
	}
}

// drain ends all runs and transfers and frees everything: nothing may be left.
func (w *world) drain(t *rapid.T) {
	if !w.s.Attached() {
		w.apply(t, &Reattach{})
	}
	w.apply(t, &Unpause{})
	for range 200 {
		var all []taskid.Key
		w.s.Tasks(func(k *Task) bool { all = append(all, k.Key()); return true })
		if len(all) == 0 && len(w.runs)+len(w.gets) == 0 {
			break
		}
		w.apply(t, &FreeKeys{Keys: all})
		for k := range w.runs {
			delete(w.runs, k)
			w.apply(t, &ExecuteFailure{Key: k, Failure: &Failure{ExceptionText: "stopped"}})
			break
		}
		for a := range w.gets {
			delete(w.gets, a)
			w.apply(t, &GatherNetworkFailure{Peer: a})
			break
		}
	}
	if n := w.s.Len(); n > 0 {
		w.s.Tasks(func(k *Task) bool {
			t.Fatalf("got %d tasks left, such as %v%s", n, k, w.s.log.text(k.Key()))
			return false
		})
	}
	if len(w.store) > 0 {
		t.Fatalf("got %d values left, want 0", len(w.store))
	}
	if st := w.s.Stats(); st.NBytes != 0 || st.IncomingBytes != 0 || st.IncomingCount != 0 {
		t.Fatalf("left: %+v", st)
	}
}

// TestRandom applies random events of a scheduler, peers and tasks, valid or not. Every invariant holds after each
// event, and when all is freed nothing is left.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{Address: "tcp://10.0.0.9:1", Threads: rapid.IntRange(1, 3).Draw(rt, "threads"),
			Resources: []Resource{{"R", 1}, {"S", 1}}}
		if rapid.Bool().Draw(rt, "limits") {
			cfg.IncomingBytes, cfg.MessageBytes, cfg.IncomingCount, cfg.IncomingThrottle = 150, 80, 2, 50
		}
		cfg.AnnounceReleases = rapid.Bool().Draw(rt, "announce")
		w := newWorld(cfg)
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			w.step(rt)
		}
		w.drain(rt)
	})
}

// TestRandomProgress simulates a correct scheduler: a task that stays assigned ends with task-finished once peers and
// runs succeed again, after any failures.
func TestRandomProgress(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(Config{Address: "tcp://10.0.0.9:1", Threads: 2, Resources: []Resource{{"R", 1}, {"S", 1}}})
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			w.step(rt)
		}
		if !w.s.Attached() {
			w.apply(rt, &Reattach{})
		}
		w.apply(rt, &Unpause{})
		target := taskid.NewKey("target")
		w.runID++
		var deps []Dep
		for i := range 8 {
			deps = append(deps, Dep{Key: taskid.NewKey(string(rune('a' + i))), NBytes: 1,
				WhoHas: []string{"tcp://10.0.0.1:1"}})
		}
		w.apply(rt, &ComputeTask{Key: target, RunID: w.runID, Deps: deps})
		for range 500 {
			if k := w.s.Task(target); k != nil && k.State() == Memory {
				return
			}
			for k := range w.runs {
				delete(w.runs, k)
				w.store[k] = true
				w.apply(rt, &ExecuteSuccess{Stored: Stored{Key: k, NBytes: 1}})
				break
			}
			for a, keys := range w.gets {
				delete(w.gets, a)
				var got []Stored
				for _, k := range keys {
					got = append(got, Stored{Key: k, NBytes: 1})
					w.store[k] = true
				}
				w.apply(rt, &GatherSuccess{Peer: a, Data: got})
				break
			}
			for a := range w.busy {
				delete(w.busy, a)
				w.apply(rt, &RetryBusy{Peer: a})
				break
			}
			var refresh []Dep
			for _, m := range w.s.missing.tasks {
				refresh = append(refresh, Dep{Key: m.key, WhoHas: []string{"tcp://10.0.0.2:1"}})
			}
			w.apply(rt, &RefreshWhoHas{Deps: refresh})
		}
		rt.Fatalf("%v has not ended%s", w.s.Task(target), w.s.log.text(target))
	})
}
