package pygraph

import (
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// A few bytes that describe very large values cost little: they are left to Python, which runs with limits.
func TestBombs(t *testing.T) {
	double := func(v pickle.Value, times int) pickle.Value {
		for range times {
			v = &pickle.List{Items: []pickle.Value{v, v}}
		}
		return v
	}
	tuples := func(times int) pickle.Value {
		var v pickle.Value = "k"
		for range times {
			v = pickle.Tuple{v, v}
		}
		return v
	}
	future := pickle.Call(pickle.Global{Module: "distributed.client", Name: "Future"}, "f")
	long := &pickle.List{}
	for range 2000 {
		long.Items = append(long.Items, []byte("0123456789"))
	}
	keys := make([]pickle.Value, 2000)
	rows := &pickle.List{}
	for i := range keys {
		keys[i] = int64(i)
		rows.Items = append(rows.Items, long)
	}
	itself := &pickle.List{}
	itself.Items = []pickle.Value{itself}
	deep := func(n int) (v pickle.Value) {
		for range n {
			v = pickle.Tuple{v}
		}
		return v
	}
	one := func(v pickle.Value) pickle.Value {
		return mapOf(add, pickle.Tuple{&pickle.List{Items: []pickle.Value{v}}}, new(pickle.Dict), "a")
	}
	huge := pickle.Call(pickle.Global{Module: "builtins", Name: "range"}, int64(0), int64(1)<<60, int64(1))
	for name, c := range map[string]struct {
		v  pickle.Value
		ok bool
	}{
		"a list 2^40 times":          {one(double(int64(1), 40)), true}, // one object in Python too: forty lists
		"a future 2^40 times":        {one(double(future, 40)), false},
		"a key of 2^40 items":        {mapOf(add, pickle.Tuple{rows}, new(pickle.Dict), tuples(40)), false},
		"a task key of 2^40 items":   {llg(tuples(40), stateTask("a", add, pickle.Tuple{})), false},
		"a dependency of 2^40 items": {llg("a", stateTask("a", add, pickle.Tuple{}, tuples(40))), false},
		"every task the same list":   {mapOf(add, pickle.Tuple{rows}, new(pickle.Dict), keys...), false},
		"a list in itself":           {one(itself), false},
		"a range of 2^60 as keys": {pickle.Call(reconstruct, mapExpr, add, pickle.Tuple{huge}, "f", true,
			new(pickle.Dict), new(pickle.Dict), huge, "t", new(pickle.Dict)), false},
		"a range of 2^60 to map over": {mapOf(add, pickle.Tuple{huge}, new(pickle.Dict), "a", "b"), true},
		"a deep argument":             {one(deep(1500)), true},
		"a circle of tasks": {llg("a", stateTask("a", add, pickle.Tuple{pickle.NewTaskRef("b")}, "b"),
			"b", stateTask("b", add, pickle.Tuple{pickle.NewTaskRef("a")}, "a")), true}, // rejected by the scheduler
	} {
		t.Run(name, func(t *testing.T) {
			b, err := pickle.Append(nil, c.v, pickle.Options{Protocol: 5})
			if err != nil {
				t.Fatal(err)
			}
			var g *Graph
			var ok bool
			allocated := testing.AllocsPerRun(1, func() {
				g, ok,
					err = Split(expr(b), []task.Key{task.NewKey("a")}, Limits{Bytes: 1 << 20})
			})
			if ok != c.ok || err != nil {
				t.Fatalf("got %v, error %v: %v", ok, err, whyNot(expr(b), nil, Limits{}))
			}
			if allocated > 3e6 {
				t.Errorf("got %g allocations for %d bytes", allocated, len(b))
			}
			if ok {
				size := 0
				for _, n := range g.Nodes {
					size += len(n.Spec.Own)
				}
				if size > 64<<10 {
					t.Errorf("got %d bytes of tasks for %d bytes", size, len(b))
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	e := dumped(t, mapOf(add, pickle.Tuple{&pickle.List{Items: []pickle.Value{"a", "b", "c"}}}, new(pickle.Dict), "a",
		"b", "c"))
	for name, lim := range map[string]Limits{"nodes": {Nodes: 2}, "values": {Values: 10}, "bytes": {Bytes: 1}} {
		_, ok, err := Split(e, nil, lim)
		// The smallest graphs are within twice the input.
		if name == "bytes" {
			if !ok || err != nil {
				t.Errorf("%s: got %v, error %v, want true", name, ok, err)
			}
			continue
		}
		if ok || err != nil {
			t.Errorf("%s: got %v, error %v, want false", name, ok, err)
		}
	}
}

// FuzzSplit splits any bytes. The results are tasks that a worker can read.
func FuzzSplit(f *testing.F) {
	for _, s := range seeds(f) {
		var key []byte
		if len(s.Keys) > 0 {
			key = s.Keys[0]
		}
		f.Add(s.Frames[0], key)
	}
	f.Fuzz(func(t *testing.T, data, key []byte) {
		e := expr(data, key, key)
		g, ok, err := Split(e, []task.Key{task.Key(key)}, Limits{Nodes: 1 << 12, Values: 1 << 16, Bytes: 1 << 20})
		if ok != (g != nil) || ok && err != nil {
			t.Fatalf("got %v, %v, error %v", g, ok, err)
		}
		if !ok {
			return
		}
		size := 0
		for _, n := range g.Nodes {
			size += len(n.Spec.Own)
		}
		if size > 1<<20+2*len(data)+1<<16 {
			t.Fatalf("got %d bytes of tasks for %d bytes", size, len(data))
		}
		checkGraph(t, "fuzz", g)
	})
}

// FuzzAnnotations reads any bytes.
func FuzzAnnotations(f *testing.F) {
	for _, v := range []pickle.Value{
		new(pickle.Dict), pickle.NewDict("priority", int64(5), "workers",
			&pickle.List{Items: []pickle.Value{"a", int64(1)}}),
		pickle.NewDict("retries", int64(2), "resources", pickle.NewDict("GPU", 1.5)), pickle.NewDict("priority", add),
		int64(1),
	} {
		b, err := pickle.Dump(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tree, err := pickle.Load(data, nil, pickle.Limits{Nodes: 1 << 16})
		if err != nil {
			return
		}
		a, ok, err := Annotations(tree)
		if ok && err != nil || !ok && a.Raw != nil {
			t.Fatalf("got %v, %v, error %v", a, ok, err)
		}
		if len(a.Raw) > 16*len(data)+plainBytes {
			t.Fatalf("got %d bytes of annotations for %d bytes", len(a.Raw), len(data))
		}
	})
}
