package pickle_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	_ "time/tzdata" // the golden dates have zones that the machine may not have

	"go.millstream.dev/internal/testkit/pickletest"
	"go.millstream.dev/internal/wire/pickle"
)

// golden is one pickle of the real packages, see tests/interop/peers/pickle_golden.py.
type golden struct {
	Name     string
	Protocol int
	Pickle   []byte
	Buffers  [][]byte
	Want     string
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func goldens(t testing.TB) []golden {
	var file struct{ Cases []golden }
	readJSON(t, "golden.json", &file)
	if len(file.Cases) < 300 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	return file.Cases
}

// TestGolden reads each pickle, finds in it what Python put there, and writes it so that
// reading it again gives the same: as a tree, and as Go values.
func TestGolden(t *testing.T) {
	for _, c := range goldens(t) {
		tree, err := pickle.Load(c.Pickle, c.Buffers, pickle.Limits{})
		if err != nil {
			t.Errorf("%s, protocol %d: %v", c.Name, c.Protocol, err)
			continue
		}
		v, err := pickle.Decode(tree)
		if err != nil {
			t.Errorf("%s, protocol %d: %v", c.Name, c.Protocol, err)
			continue
		}
		if got := pickletest.Describe(v); got != c.Want {
			t.Errorf("%s, protocol %d:\n got %.300s\nwant %.300s\n  of %.300s", c.Name, c.Protocol, got, c.Want,
				pickle.Repr(tree))
			continue
		}
		for _, protocol := range []int{4, 5} {
			again := rewrite(t, tree, protocol, len(c.Buffers) > 0)
			if protocol == 5 && !pickle.Equal(again, tree) {
				t.Errorf("%s, protocol %d: again\n got %.300s\nwant %.300s", c.Name, c.Protocol, pickle.Repr(again),
					pickle.Repr(tree))
			}
			values, err := pickle.Decode(rewrite(t, v, protocol, len(c.Buffers) > 0))
			if err != nil {
				t.Errorf("%s, protocol %d: %v", c.Name, c.Protocol, err)
			} else if got := pickletest.Describe(values); got != c.Want {
				t.Errorf("%s, protocol %d, values:\n got %.300s\nwant %.300s", c.Name, c.Protocol, got, c.Want)
			}
		}
	}
}

func rewrite(t *testing.T, v any, protocol int, outOfBand bool) pickle.Value {
	t.Helper()
	var buffers [][]byte
	opts := pickle.Options{Protocol: protocol}
	if outOfBand && protocol == 5 {
		opts.Buffers = &buffers
	}
	data, err := pickle.Append(nil, v, opts)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := pickle.Load(data, buffers, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

type goldenTasks struct {
	Tasks []struct {
		Name   string
		Pickle []byte
		Want   struct {
			Class, Key, Func, Args, Kwargs string
			Deps                           []string
		}
	}
	Exception, Traceback, Graph []byte
}

func TestGoldenTasks(t *testing.T) {
	var file goldenTasks
	readJSON(t, "tasks.json", &file)
	for _, c := range file.Tasks {
		tree, err := pickle.Load(c.Pickle, nil, pickle.Limits{})
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		task, ok := pickle.AsTask(tree)
		if !ok {
			t.Errorf("%s: no task in %s", c.Name, pickle.Repr(tree))
			continue
		}
		value := func(v pickle.Value) string {
			d, err := pickle.Decode(v)
			if err != nil {
				t.Fatal(err)
			}
			return pickletest.Describe(d)
		}
		var deps []string
		for _, d := range task.Dependencies {
			deps = append(deps, value(d))
		}
		slices.Sort(deps)
		if task.Class != c.Want.Class || value(task.Key) != c.Want.Key || !slices.Equal(deps, c.Want.Deps) {
			t.Errorf("%s: class %s, key %s, dependencies %v; want %+v", c.Name, task.Class, value(task.Key), deps,
				c.Want)
		}
		name, _ := pickle.FuncName(task.Func)
		want := strings.Replace(c.Want.Func, "_operator", "operator", 1)
		if strings.Replace(name, "_operator", "operator", 1) != want {
			t.Errorf("%s: function %q, want %q", c.Name, name, want)
		}
		if c.Want.Args != "" && value(task.Args) != c.Want.Args {
			t.Errorf("%s: args %s, want %s", c.Name, value(task.Args), c.Want.Args)
		}
		if c.Want.Kwargs != "" && value(task.Kwargs) != c.Want.Kwargs {
			t.Errorf("%s: kwargs %s, want %s", c.Name, value(task.Kwargs), c.Want.Kwargs)
		}
		if again := rewrite(t, tree, 5, false); !pickle.Equal(again, tree) {
			t.Errorf("%s: again %s, want %s", c.Name, pickle.Repr(again), pickle.Repr(tree))
		}
	}
}

func TestGoldenException(t *testing.T) {
	var file goldenTasks
	readJSON(t, "tasks.json", &file)
	tree, err := pickle.Load(file.Exception, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := pickle.Decode(tree)
	if err != nil {
		t.Fatal(err)
	}
	e, ok := v.(*pickle.Exception)
	if !ok {
		t.Fatal(pickle.Repr(tree))
	}
	if e.Error() != `ValueError: ('outer', 3)` || len(e.Args) != 2 || e.Cause == nil ||
		e.Cause.Error() != `KeyError: 'inner'` {
		t.Errorf("%v, args %v, cause %v", e, e.Args, e.Cause)
	}
	if len(e.Traceback) != 1 || e.Traceback[0].Function != "failure" || e.Traceback[0].File != "program.py" ||
		e.Traceback[0].Line == 0 {
		t.Errorf("traceback %+v", e.Traceback)
	}
	if again := rewrite(t, e, 4, false); !pickle.Equal(again, tree) {
		t.Error("an exception that was read is not written as it was")
	}
	tb, err := pickle.Load(file.Traceback, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pickle.Traceback(tb), e.Traceback) {
		t.Errorf("traceback %+v", pickle.Traceback(tb))
	}
}

func TestGoldenGraph(t *testing.T) {
	var file goldenTasks
	readJSON(t, "tasks.json", &file)
	tree, err := pickle.Load(file.Graph, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	graph, token, ok := pickle.AsGraph(tree)
	if !ok || graph.Len() != 2 || len(token) != 32 {
		t.Fatalf("graph %v, token %q, %v", graph, token, ok)
	}
	node, _ := graph.Get("j")
	if data, ok := pickle.AsTask(node); !ok || data.Value != int64(2) {
		t.Errorf("%+v", data)
	}
}
