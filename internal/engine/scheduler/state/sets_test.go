package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task/taskid"
)

func TestWorkerSet(t *testing.T) {
	ws := newWorkerSet()
	add := func(name string, threads int) *Worker {
		w := &Worker{address: "tcp://" + name, name: name, threads: threads, place: -1}
		ws.add(w)
		return w
	}
	a, b, c := add("a", 1), add("b", 2), add("c", 4)
	if a.id != 0 || b.id != 1 || c.id != 2 || ws.n != 3 || ws.threads != 7 || ws.gen != 3 {
		t.Errorf("got IDs %d %d %d, %d workers, %d threads, generation %d", a.id, b.id, c.id, ws.n, ws.threads, ws.gen)
	}
	ws.remove(b)
	if ws.get(1) != nil || ws.byAddress["tcp://b"] != nil || ws.byName["b"] != nil || ws.n != 2 || ws.threads != 5 {
		t.Errorf("b: not removed: %+v", ws)
	}
	if d := add("d", 1); d.id != 3 {
		t.Errorf("ID of d: got %d, want 3: that of b is not free within the event", d.id)
	}
	ws.reclaim()
	if e := add("e", 1); e.id != 1 || ws.get(1) != e {
		t.Errorf("ID of e after the event: got %d, want 1", e.id)
	}
	if f := add("f", 1); f.id != 4 {
		t.Errorf("ID of f: got %d, want 4", f.id)
	}
	if ws.added != 6 || ws.removed != 1 || ws.gen != 7 {
		t.Errorf("got added %d, removed %d, generation %d", ws.added, ws.removed, ws.gen)
	}
	var names []string
	for w := range ws.each() {
		names = append(names, w.name)
	}
	if !slices.Equal(names, []string{"a", "e", "c", "d", "f"}) {
		t.Errorf("workers by ID: got %v", names)
	}
	for w := range ws.each() {
		if w != a {
			t.Errorf("each after a break: got %s", w.name)
		}
		break
	}
	c.status = StatusPaused
	got := func(ws []*Worker) (out []string) {
		for _, w := range ws {
			out = append(out, w.name)
		}
		return out
	}
	if all := got(ws.among(nil)); !slices.Equal(all, []string{"a", "e", "d", "f"}) {
		t.Errorf("running workers: got %v", all)
	}
	if some := got(ws.among([]WorkerID{3, 2, 9, 0, 3})); !slices.Equal(some, []string{"d", "a"}) {
		t.Errorf("running among d, c, none, a, d: got %v, want d and a", some)
	}
}

func TestClientSet(t *testing.T) {
	cs := newClientSet()
	name := []byte("one")
	one := cs.add(string(name))
	two := cs.add("two")
	if one.ID() != 0 || two.ID() != 1 || cs.byName["two"] != two || cs.get(1) != two || cs.get(2) != nil {
		t.Errorf("clients: got %+v", cs)
	}
	cs.remove(one)
	if !one.removed || cs.get(0) != nil || cs.byName["one"] != nil {
		t.Errorf("one: not removed")
	}
	if three := cs.add("three"); three.ID() != 2 {
		t.Errorf("ID of three: got %d, want 2: that of one is not free within the event", three.ID())
	}
	cs.reclaim()
	if four := cs.add("four"); four.ID() != 0 || cs.get(0) != four {
		t.Errorf("ID of four: got %d, want 0", four.ID())
	}
}

func TestGroupSet(t *testing.T) {
	gs := newGroupSet(map[string]time.Duration{"slow": 3 * time.Second, "fast": time.Millisecond})
	x := gs.of(taskid.NewKey("x-1"))
	if x.Name() != "x" || x.Prefix().Name() != "x" || gs.of(taskid.NewKey("x-2")) != x {
		t.Errorf("group of x-1: got %+v", x)
	}
	part, err := taskid.KeyOf([]any{"x-part-0b3b4b2f", 1})
	if err != nil {
		t.Fatal(err)
	}
	p := gs.of(part)
	if p == x || p.Name() != "x-part-0b3b4b2f" || p.Prefix().Name() != "x-part" {
		t.Errorf("group of a tuple: got %s, prefix %s", p.Name(), p.Prefix().Name())
	}
	slow, fast := gs.of(taskid.NewKey("slow-1")).Prefix(), gs.of(taskid.NewKey("fast-1")).Prefix()
	if d, ok := slow.Duration(); d != 3*time.Second || !ok || slow.fast {
		t.Errorf("slow: got duration %v, known %v, fast %v", d, ok, slow.fast)
	}
	if d, ok := fast.Duration(); d != time.Millisecond || !ok || !fast.fast {
		t.Errorf("fast: got duration %v, known %v, fast %v", d, ok, fast.fast)
	}
	if _, ok := x.Prefix().Duration(); ok {
		t.Error("duration of x, which has never run: got one")
	}
	// The last group takes the place of a removed one; measurements of its prefix stay.
	last := gs.list[3]
	x.Prefix().learn(2, 0)
	gs.drop(x)
	if len(gs.list) != 3 || gs.list[0] != last || last.place != 0 || gs.byName["x"] != nil {
		t.Errorf("after x was removed: got %d groups, the first %s at %d", len(gs.list), gs.list[0].Name(), last.place)
	}
	again := gs.of(taskid.NewKey("x-3"))
	if d, ok := again.Prefix().Duration(); again == x || d != 2*time.Second || !ok {
		t.Errorf("new group of x: got %p with %v, known %v", again, d, ok)
	}
	gs.drop(again)
	if gs.last == again {
		t.Error("last group: got a removed one")
	}
}

func TestResultTypes(t *testing.T) {
	gs := newGroupSet(nil)
	pickle := []byte("pickle")
	a := gs.resultType("int", pickle, nil)
	pickle[0] = 'X'
	if a.Name != "int" || string(a.Pickle) != "pickle" || gs.resultType("int", nil, nil) != a {
		t.Errorf("type int: got %+v", a)
	}
	if gs.resultType("int", nil, a) != a || gs.resultType("str", nil, a) == a {
		t.Error("type by name: got the wrong one")
	}
	for i := range 10_000 {
		gs.resultType(fmt.Sprint("t", i), nil, nil)
	}
	if got := gs.resultType("one too many", nil, a); got != a || len(gs.types) != 10_000 {
		t.Errorf("last of %d types: got %v", len(gs.types), got)
	}
}

func TestPoolSet(t *testing.T) {
	ps := newPoolSet()
	if ps.of("", 0) != ps.any {
		t.Error("pool of tasks without requirements: got another than any")
	}
	lists := func(pools []*pool) (out []string) {
		for _, p := range pools {
			out = append(out, fmt.Sprintf("%s+%d", p.registry, p.can))
		}
		slices.Sort(out)
		return out
	}
	check := func(p *pool, by, takes string) {
		t.Helper()
		if got := fmt.Sprint(lists(p.by)); got != by {
			t.Errorf("tasks of %s+%d: got pools %s, want %s", p.registry, p.can, got, by)
		}
		if got := fmt.Sprint(lists(p.takes)); got != takes {
			t.Errorf("workers of %s+%d: got pools %s, want %s", p.registry, p.can, got, takes)
		}
	}
	py := ps.of("", Python)
	goPy := ps.of("f.1", Python|Go)
	f := ps.of("f.2", 0)
	if ps.of("f.2", 0) != f || len(ps.list) != 3 || len(ps.all()) != 4 {
		t.Errorf("pools: got %d, want 4", len(ps.all()))
	}
	check(ps.any, "[+0 +1 f.1+3 f.2+0]", "[+0]")
	check(py, "[+1 f.1+3]", "[+0 +1]")
	check(goPy, "[f.1+3]", "[+0 +1 f.1+3]")
	check(f, "[f.2+0]", "[+0 f.2+0]")
	goPy.workers = 1
	ps.drop(goPy)
	if len(ps.list) != 3 {
		t.Error("pool with workers: dropped")
	}
	goPy.workers = 0
	ps.drop(goPy)
	ps.drop(ps.any)
	check(py, "[+1]", "[+0 +1]")
	check(ps.any, "[+0 +1 f.2+0]", "[+0]")
	if again := ps.of("f.1", Python|Go); again == goPy {
		t.Error("dropped pool: got it again")
	}
}

// TestPoolHeap checks that whatever workers are added, removed and assigned, the one with the least load is first,
// among equals the one that has waited longest.
func TestPoolHeap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &pool{}
		var in []*Worker
		for i := range rapid.IntRange(1, 80).Draw(rt, "n") {
			switch op := rapid.IntRange(0, 2).Draw(rt, "op"); {
			case op == 0 || len(in) == 0:
				w := &Worker{name: fmt.Sprint(i), threads: 1 + i%3, pool: p, place: -1, assigned: uint64(i)}
				p.add(w)
				w.updateLoad()
				in = append(in, w)
			case op == 1:
				j := rapid.IntRange(0, len(in)-1).Draw(rt, "which")
				p.remove(in[j])
				if in[j].place != -1 {
					rt.Fatalf("removed worker %s: got place %d", in[j].name, in[j].place)
				}
				in = slices.Delete(in, j, j+1)
			default:
				w := in[rapid.IntRange(0, len(in)-1).Draw(rt, "which")]
				w.processing, w.assigned = rapid.IntRange(0, 5).Draw(rt, "processing"), uint64(100+i)
				w.updateLoad()
			}
			if len(p.heap) != len(in) {
				rt.Fatalf("workers: got %d, want %d", len(p.heap), len(in))
			}
			for j, w := range p.heap {
				if int(w.place) != j || j > 0 && w.before(p.heap[0]) {
					rt.Fatalf("worker %s: got place %d at %d, before the first: %v", w.name, w.place, j,
						w.before(p.heap[0]))
				}
			}
		}
	})
}

func TestNoteSet(t *testing.T) {
	ns := noteSet{byID: map[string]*notes{}}
	if ns.of(nil) != nil {
		t.Error("no annotations: got some")
	}
	base := Annotations{Workers: []string{"a"}, Resources: []Resource{{"GPU", 1}}, Retries: 2, Raw: []byte("raw")}
	same := ns.of(&base)
	other := base
	other.Workers = []string{"a"}
	if ns.of(&other) != same || same.refs != 2 || !same.restricted {
		t.Errorf("equal annotations: got %+v", same)
	}
	for name, change := range map[string]func(a *Annotations){
		"workers":    func(a *Annotations) { a.Workers = []string{"b"} },
		"no workers": func(a *Annotations) { a.Workers = nil },
		"two":        func(a *Annotations) { a.Workers = []string{"a", "b"} },
		"resource":   func(a *Annotations) { a.Resources = []Resource{{"CPU", 1}} },
		"amount":     func(a *Annotations) { a.Resources = []Resource{{"GPU", 2}} },
		"priority":   func(a *Annotations) { a.Priority = 1 },
		"retries":    func(a *Annotations) { a.Retries = 3 },
		"raw":        func(a *Annotations) { a.Raw = []byte("war") },
		"loose":      func(a *Annotations) { a.AllowOtherWorkers = true },
		"has":        func(a *Annotations) { a.HasPriority = true },
		"not queued": func(a *Annotations) { a.NotQueued = true },
	} {
		a := base
		change(&a)
		n := ns.of(&a)
		if n == same {
			t.Errorf("%s: got equal annotations", name)
		}
		ns.drop(n)
	}
	if len(ns.byID) != 1 {
		t.Errorf("annotations: got %d, want 1", len(ns.byID))
	}
	base.Workers[0] = "changed"
	if same.Workers[0] != "a" {
		t.Error("annotations: got memory of the caller")
	}
	ns.drop(same)
	ns.drop(nil)
	if ns.drop(same); len(ns.byID) != 0 {
		t.Errorf("annotations: got %d, want 0", len(ns.byID))
	}
	if plain := ns.of(&Annotations{Retries: 1}); plain.restricted {
		t.Error("retries: got a restriction")
	}
}

func TestNamedWorkers(t *testing.T) {
	w := &Worker{address: "tcp://10.0.0.7:4000", name: "alice", host: "10.0.0.7", resources: []Resource{{"GPU", 2}}}
	for entry, want := range map[string]bool{
		"tcp://10.0.0.7:4000": true, "10.0.0.7:4000": true, "10.0.0.7": true, "alice": true,
		"10.0.0": false, "4000": false, "alic": false, "": false, "tls://10.0.0.7:4000": false,
	} {
		if got := w.named(entry); got != want {
			t.Errorf("named(%q): got %v, want %v", entry, got, want)
		}
	}
	for _, c := range []struct {
		n    notes
		want bool
	}{
		{notes{}, true},
		{notes{Annotations: Annotations{Workers: []string{"bob", "alice"}}}, true},
		{notes{Annotations: Annotations{Workers: []string{"bob"}}}, false},
		{notes{Annotations: Annotations{Resources: []Resource{{"GPU", 2}}}}, true},
		{notes{Annotations: Annotations{Resources: []Resource{{"GPU", 2.5}}}}, false},
		{notes{Annotations: Annotations{Resources: []Resource{{"CPU", 0}}}}, false},
		{notes{Annotations: Annotations{Workers: []string{"alice"}, Resources: []Resource{{"TPU", 1}}}}, false},
	} {
		if got := c.n.allows(w); got != c.want {
			t.Errorf("%+v allows: got %v, want %v", c.n.Annotations, got, c.want)
		}
	}
}

// TestBitset and the test of list below check the small containers against a plain model.
func TestBitset(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b bitset
		model := map[WorkerID]bool{}
		for range 60 {
			id := WorkerID(rapid.IntRange(0, 200).Draw(rt, "id"))
			if model[id] {
				b.unset(id)
			} else {
				b.set(id)
			}
			model[id] = !model[id]
			probe := WorkerID(rapid.IntRange(0, 300).Draw(rt, "probe"))
			if b.has(probe) != model[probe] || b.has(id) != model[id] {
				rt.Fatalf("got %d: %v, %d: %v", probe, b.has(probe), id, b.has(id))
			}
		}
	})
}

func TestTaskList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l list
		var model []*Task
		for range 60 {
			if len(model) == 0 || rapid.Bool().Draw(rt, "push") {
				x := &Task{}
				l.push(x)
				model = append(model, x)
			} else {
				i := rapid.IntRange(0, len(model)-1).Draw(rt, "which")
				l.remove(model[i])
				if model[i].prev != nil || model[i].next != nil {
					rt.Fatalf("removed task: still linked")
				}
				model = slices.Delete(model, i, i+1)
			}
			var there, back []*Task
			for x := l.head; x != nil; x = x.next {
				there = append(there, x)
			}
			for x := l.tail; x != nil; x = x.prev {
				back = append(back, x)
			}
			slices.Reverse(back)
			if !slices.Equal(there, model) || !slices.Equal(back, model) || l.n != len(model) {
				rt.Fatalf("got %d, %d and %d tasks, want %d", len(there), len(back), l.n, len(model))
			}
		}
	})
}
