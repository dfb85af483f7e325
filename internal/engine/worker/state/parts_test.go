package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task/taskid"
)

// TestPeerSet: the tables of holders and of needed keys are consistent for any sequence of holders.
func TestPeerSet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ps := &peerSet{address: "tcp://me:1", host: "me", byAddress: map[string]*Peer{}}
		var tasks []*Task
		for i := range 5 {
			tasks = append(tasks, &Task{key: taskid.NewKey(fmt.Sprint(i)), generation: int64(i), pos: -1})
		}
		addresses := []string{"tcp://me:1", "tcp://me:2", "tcp://a:1", "tcp://b:1", "tcp://c:1"}
		for range 60 {
			x := rapid.SampledFrom(tasks).Draw(rt, "task")
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				set := rapid.SliceOf(rapid.SampledFrom(addresses)).Draw(rt, "holders")
				if self := ps.setHolders(x, set); self != slices.Contains(set, ps.address) {
					rt.Fatalf("self %v of %v", self, set)
				}
				slices.Sort(set)
				set = slices.DeleteFunc(slices.Compact(set), func(a string) bool { return a == ps.address })
				var got []string
				for i := range x.NumHolders() {
					got = append(got, x.Holder(i).Address())
				}
				if slices.Sort(got); !slices.Equal(got, set) {
					rt.Fatalf("holders %v, want %v", got, set)
				}
			case 2: // toggle whether it is to be fetched
				if x.state == Fetch {
					ps.removeAllNeeded(x)
					x.state = Released
				} else {
					x.state = Fetch
					for i := range x.whoHas {
						ps.addNeeded(x, int32(i))
					}
				}
			case 3:
				ps.removeHolders(x)
			default:
				p := ps.get(rapid.SampledFrom(addresses[1:]).Draw(rt, "peer"))
				p.busy = !p.busy
				ps.updateAskable(p)
				ps.drop(p)
			}
			n := 0
			for _, p := range ps.byAddress {
				if can := p.needed.len() > 0 && !p.busy; can != (p.pos >= 0) {
					rt.Fatalf("%s can be asked: %v, at %d", p.address, can, p.pos)
				} else if can {
					n++
				}
				for i, h := range p.has {
					if h.task.whoHas[h.slot].peer != p || h.task.whoHas[h.slot].has != int32(i) {
						rt.Fatalf("%s and %v have no references to each other", p.address, h.task.key)
					}
				}
			}
			if n != len(ps.askable) {
				rt.Fatalf("%d peers can be asked, %d are listed", n, len(ps.askable))
			}
			for _, x := range tasks {
				for i, h := range x.whoHas {
					if in := h.heap >= 0; in != (x.state == Fetch) || in &&
						h.peer.needed.entries[h.heap].slot != int32(i) {
						rt.Fatalf("%v is in the heap of %s: %v", x.key, h.peer.address, in)
					}
				}
			}
		}
	})
}

func TestPeers(t *testing.T) {
	ps := &peerSet{address: "tcp://me:1", host: "me", byAddress: map[string]*Peer{}}
	near, far := ps.get("tcp://me:2"), ps.get("tcp://far:1")
	if !near.Local() || far.Local() || ps.get("tcp://far:1") != far || near.hash == far.hash {
		t.Errorf("near %+v, far %+v", near, far)
	}
	far.busy = true
	ps.drop(far)
	near.flying = true
	ps.drop(near)
	if len(ps.byAddress) != 2 {
		t.Error("busy peer, or peer with a transfer, was dropped")
	}
	far.busy, near.flying = false, false
	x := &Task{key: taskid.NewKey("x")}
	ps.addHolder(x, near)
	ps.drop(far)
	ps.drop(near)
	if len(ps.byAddress) != 1 || ps.byAddress["tcp://me:2"] != near || x.holderOf(near) != 0 || x.holderOf(far) != -1 {
		t.Errorf("got peers %v, want none", ps.byAddress)
	}
}

func TestResourceSet(t *testing.T) {
	var rs resourceSet
	rs.setTotals([]Resource{{"GPU", 2}, {"NET", 1}, {"GPU", 1}})
	if len(rs.supplies) != 2 || rs.supplies[0] != (supply{"GPU", 3, 3}) || rs.supplies[1] != (supply{"NET", 1, 1}) {
		t.Fatalf("%v", rs.supplies)
	}
	set, err := rs.setFor([]Resource{{"NET", 1}, {"GPU", 0.1}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := rs.setFor([]Resource{{"GPU", 0.1}, {"NET", 1}})
	if err != nil || again != set || len(rs.sets) != 1 {
		t.Errorf("equal needs: got %d sets, %v, want 1", len(rs.sets), err)
	}
	if none, err := rs.setFor(nil); none != nil || err != nil {
		t.Errorf("no needs: %v, %v", none, err)
	}
	for _, c := range []struct {
		needs []Resource
		want  string
	}{
		{[]Resource{{"TPU", 1}}, `needs resource "TPU", which this worker does not have`},
		{[]Resource{{"GPU", 3.5}}, `needs 3.5 of resource "GPU", this worker has 3`},
		{[]Resource{{"GPU", -1}}, `needs -1 of resource "GPU"`},
	} {
		if set, err := rs.setFor(c.needs); set != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.needs, err, c.want)
		}
	}
	x, y := &Task{}, &Task{}
	rs.setNeeds(x, set)
	rs.setNeeds(y, set)
	rs.setNeeds(x, set)
	if set.users != 2 {
		t.Errorf("%d users, want 2", set.users)
	}
	for range 3 { // sums of tenths are not exact
		rs.take(&needSet{needs: []need{{0, 0.1}}}, 1)
	}
	rs.supplies[0].total = 0.4
	rs.supplies[0].available -= 2.6
	if !rs.satisfied(set) {
		t.Errorf("0.1 of %g: got false, want true", rs.supplies[0].available)
	}
	rs.take(set, 1)
	if rs.satisfied(set) {
		t.Error("resource in use: got available")
	}
	rs.take(set, -1)
	rs.take(nil, 1)
	if !rs.satisfied(set) || !rs.satisfied(&needSet{}) {
		t.Error("returned resource: got unavailable")
	}
	// More than the new total stays in use until it is returned.
	rs.take(set, 1)
	rs.setTotals([]Resource{{"NET", 3}})
	if rs.supplies[1] != (supply{"NET", 3, 2}) || rs.supplies[0].total != 0 || rs.supplies[0].available > -0.1 {
		t.Errorf("after a change: %v", rs.supplies)
	}
	rs.setNeeds(x, nil)
	if len(rs.sets) != 1 {
		t.Error("set removed with its first user")
	}
	if rs.setNeeds(y, nil); len(rs.sets) != 0 {
		t.Error("set without users not removed")
	}
}

func TestTransferLimits(t *testing.T) {
	cfg := Config{IncomingBytes: 100, IncomingCount: 2, IncomingThrottle: 50, MessageBytes: 40, DeviceMessageBytes: 70,
		DefaultSize: 7}.withDefaults()
	for _, c := range []struct {
		bytes    int64
		inFlight int
		want     bool
	}{
		{0, 0, false}, {99, 1, false}, {100, 1, true}, {49, 2, false}, {50, 2, true}, {50, 1, false}, {60, 3, true},
	} {
		tr := transfers{limits: &cfg, bytes: c.bytes, inFlight: c.inFlight}
		if got := tr.throttled(); got != c.want {
			t.Errorf("%d bytes in %d transfers: throttled %v, want %v", c.bytes, c.inFlight, got, c.want)
		}
	}
	for _, c := range []struct {
		bytes, size, message int64
		n                    int
		device, want         bool
	}{
		{0, 500, 0, 0, false, false}, // alone, a key of any size is allowed
		{10, 90, 0, 0, false, false},
		{10, 91, 0, 0, false, true},
		{0, 30, 10, 1, false, false},
		{0, 31, 10, 1, false, true},
		{0, 60, 10, 1, true, false},
		{0, 61, 10, 1, true, true},
		{80, 15, 5, 1, false, false},
		{80, 16, 5, 1, false, true}, // the limit of all transfers
	} {
		tr := transfers{limits: &cfg, bytes: c.bytes}
		if got := tr.exceeds(&Peer{device: c.device}, c.size, c.message, c.n); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
	tr := transfers{limits: &cfg}
	if tr.size(&Task{nbytes: -1}) != 7 || tr.size(&Task{nbytes: 0}) != 0 {
		t.Error("sizes")
	}
	p := &Peer{inBytes: 30}
	tr.begin(p)
	if !p.flying || tr.bytes != 30 || tr.inFlight != 1 || tr.total != 1 {
		t.Errorf("begun: %+v", tr)
	}
	tr.end(p)
	if p.flying || p.inBytes != 0 || tr.bytes != 0 || tr.inFlight != 0 || tr.total != 1 {
		t.Errorf("ended: %+v", tr)
	}
}

func TestTaskTable(t *testing.T) {
	var tb taskTable
	withSpec := func(k taskid.Key, spec []byte) *Task { return tb.addWithSpec(k, tb.Hash(k), spec) }
	spec := []byte("spec")
	x := withSpec("x", spec)
	y := tb.ensure("y")
	empty := withSpec("", spec)
	spec[0] = 'S'
	if tb.Get("x") != x || tb.ensure("y") != y || tb.Get("") != empty || tb.counts[Released] != 3 {
		t.Errorf("%v, %v", tb.sorted(), tb.counts)
	}
	if string(x.spec) != "spec" || string(empty.spec) != "spec" || x.key != "x" || empty.key != "" {
		t.Errorf("x is %q with %q, the empty key has %q", x.key, x.spec, empty.spec)
	}
	if x.runID != -1 || x.nbytes != -1 || x.pos != -1 || x.rec != noState || x.previous != noState ||
		x.next != noState {
		t.Errorf("a new task is %+v", x)
	}
	if large := withSpec("large", make([]byte, inlineSpec+1)); len(large.spec) != inlineSpec+1 {
		t.Errorf("%d bytes of spec", len(large.spec))
	}
	var keys []taskid.Key
	for _, s := range tb.sorted() {
		keys = append(keys, s.key)
	}
	if !slices.Equal(keys, []taskid.Key{"", "large", "x", "y"}) {
		t.Errorf("sorted: %q", keys)
	}
	// Memory is reused after the next event has begun, and is cleared.
	tb.Remove(x)
	x.whoHas = append(x.whoHas, holder{})[:1]
	x.deps = make([]depEdge, 3, 65)
	x.actor, x.failure = true, &Failure{}
	tb.dead = append(tb.dead, x)
	if z := tb.ensure("z"); z == x {
		t.Error("memory reused within the event")
	}
	tb.reclaim()
	z := tb.ensure("z2")
	if z != x || z.actor || z.failure != nil || len(z.whoHas)+len(z.deps)+cap(z.deps) != 0 || z.spec != nil ||
		z.key != "z2" {
		t.Errorf("reused: got %+v", z)
	}
	tb.free = make([]*Task, maxFree)
	tb.dead = append(tb.dead, y)
	if tb.reclaim(); len(tb.free) != maxFree || len(tb.dead) != 0 {
		t.Errorf("got %d tasks for reuse", len(tb.free))
	}
}

// TestHint: the end of a run applies to the task with its key, also if the memory of the hint has another one now.
func TestHint(t *testing.T) {
	s := New(Config{Validate: true})
	var out Actions
	apply := func(ev Event) { s.Apply(time.Unix(0, 0), ev, &out) }
	apply(&ComputeTask{Key: "x", RunID: 1})
	x := s.Task("x")
	apply(&ExecuteSuccess{Stored: Stored{Key: "x", NBytes: 1}, Hint: x})
	if x.State() != Memory {
		t.Fatalf("got %v with the hint, want memory", x)
	}
	apply(&FreeKeys{Keys: []taskid.Key{"x"}})
	// x is forgotten: a late end of a run deletes its value.
	apply(&ExecuteSuccess{Stored: Stored{Key: "x", NBytes: 1}, Hint: x})
	if a := out.List(); len(a) != 1 || a[0].Kind != DoDelete || s.Len() != 0 {
		t.Errorf("got %v for a forgotten task", a)
	}
	apply(&ComputeTask{Key: "", RunID: 2})
	apply(&ComputeTask{Key: "y", RunID: 3})
	for _, key := range []taskid.Key{"", "y"} {
		apply(&ExecuteSuccess{Stored: Stored{Key: key, NBytes: 1}, Hint: x})
		if y := s.Task(key); y == nil || y.State() != Memory {
			t.Errorf("%q: got %v with a hint of another task, want memory", key, y)
		}
	}
}

// TestUnknownSizes: a result of unknown size counts with the default.
func TestUnknownSizes(t *testing.T) {
	s := New(Config{DefaultSize: 33, Validate: true})
	var out Actions
	s.Apply(time.Unix(0, 0), &ComputeTask{Key: "x", RunID: 1}, &out)
	s.Apply(time.Unix(0, 0), &ExecuteSuccess{Stored: Stored{Key: "x", NBytes: -1}}, &out)
	if x := s.Task("x"); x.State() != Memory || x.NBytes() != 33 || s.Stats().NBytes != 33 {
		t.Errorf("got %v with %d bytes, of %d", x, x.NBytes(), s.Stats().NBytes)
	}
	s.Apply(time.Unix(0, 0), &FreeKeys{Keys: []taskid.Key{"x"}}, &out)
	if n := s.Stats().NBytes; n != 0 {
		t.Errorf("got %d bytes left, want 0", n)
	}
}

// TestFailureWithoutReason: a run that fails without a reason has a failure.
func TestFailureWithoutReason(t *testing.T) {
	s := New(Config{Validate: true})
	var out Actions
	s.Apply(time.Unix(0, 0), &ComputeTask{Key: "x", RunID: 1}, &out)
	s.Apply(time.Unix(0, 0), &ExecuteFailure{Key: "x", Start: 4, Stop: 6, Thread: 2}, &out)
	a := out.List()
	if len(a) != 1 || a[0].Kind != SendTaskErred || a[0].Failure == nil || a[0].Failure.Error() == "" {
		t.Fatalf("actions %+v", a)
	}
	if start, stop, thread := s.Task("x").Times(); start != 4 || stop != 6 || thread != 2 {
		t.Errorf("got times %d and %d on thread %d", start, stop, thread)
	}
}

// TestEventNames: every event has a unique name in the log and returns its stimulus.
func TestEventNames(t *testing.T) {
	events := []Event{
		&ComputeTask{Stimulus: "s"}, &FreeKeys{Stimulus: "s"}, &RemoveReplicas{Stimulus: "s"},
		&AcquireReplicas{Stimulus: "s"}, &StealRequest{Stimulus: "s"}, &CancelCompute{Stimulus: "s"},
		&RefreshWhoHas{Stimulus: "s"}, &RemovePeer{Stimulus: "s"}, &SchedulerLost{Stimulus: "s"},
		&Reattach{Stimulus: "s"}, &Pause{Stimulus: "s"}, &Unpause{Stimulus: "s"}, &SetResources{Stimulus: "s"},
		&UpdateData{Stimulus: "s"}, &FindMissing{Stimulus: "s"}, &RetryBusy{Stimulus: "s"},
		&ExecuteSuccess{Stimulus: "s"}, &ExecuteFailure{Stimulus: "s"}, &Reschedule{Stimulus: "s"},
		&Secede{Stimulus: "s"}, &GatherSuccess{Stimulus: "s"}, &GatherBusy{Stimulus: "s"},
		&GatherNetworkFailure{Stimulus: "s"}, &GatherFailure{Stimulus: "s"}, &DataLost{Stimulus: "s"},
	}
	seen := map[string]bool{}
	for _, ev := range events {
		name := ev.kind().String()
		if seen[name] || ev.stimulus() != "s" {
			t.Errorf("%T: got name %q (used by %v), stimulus %q", ev, name, seen[name], ev.stimulus())
		}
		seen[name] = true
	}
	if len(seen) != len(eventNames) {
		t.Errorf("got %d names, want %d", len(seen), len(eventNames))
	}
}

// TestEventsAboutNothing: events about unknown keys and peers change nothing and cause no actions.
func TestEventsAboutNothing(t *testing.T) {
	s := New(Config{Validate: true})
	var out Actions
	for _, ev := range []Event{
		&ExecuteFailure{Key: "x"}, &Reschedule{Key: "x"}, &Secede{Key: "x"}, &CancelCompute{Key: "x"},
		&DataLost{Key: "x"},
		&FreeKeys{Keys: []taskid.Key{"x"}}, &RemoveReplicas{Keys: []taskid.Key{"x"}},
		&RefreshWhoHas{Deps: []Dep{{Key: "x"}}},
		&GatherBusy{Peer: "p"}, &GatherNetworkFailure{Peer: "p"}, &GatherFailure{Peer: "p"}, &RetryBusy{Peer: "p"},
		&RemovePeer{Peer: "p"}, &GatherSuccess{Peer: "p"}, &FindMissing{},
	} {
		s.Apply(time.Unix(0, 0), ev, &out)
		if s.Len() != 0 || len(out.List()) != 0 {
			t.Errorf("%T: %d tasks, actions %+v", ev, s.Len(), out.List())
		}
	}
	// An unwanted value is deleted.
	s.Apply(time.Unix(0, 0), &ExecuteSuccess{Stored: Stored{Key: "x"}}, &out)
	if a := out.List(); len(a) != 1 || a[0].Kind != DoDelete || a[0].Key != "x" || a[0].Task != nil {
		t.Errorf("actions %+v", a)
	}
	s.Apply(time.Unix(0, 0), &StealRequest{Key: "x", Stimulus: "steal"}, &out)
	if a := out.List(); len(a) != 1 || a[0].Kind != SendStealResponse || a[0].HasState || a[0].Stimulus != "steal" {
		t.Errorf("actions %+v", a)
	}
}
