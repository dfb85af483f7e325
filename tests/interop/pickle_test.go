package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"testing"
	"time"
	_ "time/tzdata" // the golden dates have zones that the machine may not have

	"go.millstream.dev/internal/testkit/pickletest"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/tests/interop/pypeer"
)

// picklePeer is a Python that judges pickles, peers/pickle_peer.py.
type picklePeer struct {
	*testing.T
	in  io.Writer
	out *bufio.Reader
}

// pickled is a pickle on its way to the peer or from it.
type pickled struct {
	Pickle   []byte   `json:"pickle"`
	Buffers  [][]byte `json:"buffers,omitempty"`
	Protocol int      `json:"protocol,omitempty"`
	Again    *pickled `json:"again,omitempty"`
}

// judgement is what CPython and pickletools say about bytes.
type judgement struct {
	Ops    [][2]any `json:"ops"`
	Broken *string  `json:"broken"`
	Error  string   `json:"error"`
	Want   string   `json:"want"`
}

type pickleAnswer struct {
	Error   string      `json:"error"`
	Cases   []pickled   `json:"cases"`
	Answers []string    `json:"answers"`
	Judged  []judgement `json:"judged"`
	Token   string      `json:"token"`
	Graphs  [][]pickled `json:"graphs"`
}

func startPickle(t *testing.T) *picklePeer {
	t.Helper()
	python, err := pypeer.Python()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, python, "peers/pickle_peer.py")
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "OPENBLAS_NUM_THREADS=1")
	log := new(lockedBuffer)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		cancel()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	return &picklePeer{t, in, bufio.NewReaderSize(out, 1<<20)}
}

func (p *picklePeer) ask(op string, args map[string]any) pickleAnswer {
	p.Helper()
	m := map[string]any{"op": op}
	for k, v := range args {
		m[k] = v
	}
	line, err := json.Marshal(m)
	if err != nil {
		p.Fatal(err)
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		p.Fatal(err)
	}
	line, err = p.out.ReadBytes('\n')
	if err != nil {
		p.Fatalf("%s: the peer does not answer: %v", op, err)
	}
	var a pickleAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		p.Fatal(err)
	}
	if a.Error != "" {
		p.Fatalf("%s: %s", op, a.Error)
	}
	return a
}

// rewritten reads a pickle and writes its tree again.
func (p *picklePeer) rewritten(c pickled, protocol int, outOfBand bool) *pickled {
	p.Helper()
	tree, err := pickle.Load(c.Pickle, c.Buffers, pickle.Limits{})
	if err != nil {
		p.Fatalf("%q: %v", c.Pickle, err)
	}
	return p.written(tree, protocol, outOfBand)
}

func (p *picklePeer) written(v any, protocol int, outOfBand bool) *pickled {
	p.Helper()
	out := new(pickled)
	opts := pickle.Options{Protocol: protocol}
	if outOfBand {
		opts.Buffers = &out.Buffers
	}
	var err error
	if out.Pickle, err = pickle.Append(nil, v, opts); err != nil {
		p.Fatal(err)
	}
	return out
}

// compare lets Python compare pickles with what Go made of them.
func (p *picklePeer) compare(cases []pickled) {
	p.Helper()
	for i, answer := range p.ask("compare", map[string]any{"cases": cases}).Answers {
		if answer != "" {
			p.Errorf("case %d: %s\n of %.300q\n as %.300q", i, answer, cases[i].Pickle, cases[i].Again.Pickle)
		}
	}
}

// TestPickleRandom: Python makes objects, Go reads and writes them, Python finds them equal,
// with all that is shared in them and all cycles.
func TestPickleRandom(t *testing.T) {
	p := startPickle(t)
	const rounds, each = 10, 100
	for round := range rounds {
		cases := p.ask("random", map[string]any{"seed": 1000 * round, "n": each}).Cases
		if len(cases) != each {
			t.Fatalf("%d cases", len(cases))
		}
		for i := range cases {
			c := &cases[i]
			protocol := 4 + i%2
			c.Again = p.rewritten(*c, protocol, protocol == 5 && i%3 == 0)
		}
		p.compare(cases)
		if t.Failed() {
			t.Fatalf("seed %d", 1000*round)
		}
	}
}

// TestPickleGolden: what Go reads of each golden pickle is to Python what it was, written
// again as a tree and as Go values.
func TestPickleGolden(t *testing.T) {
	text, err := os.ReadFile("../../internal/wire/pickle/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			pickled
			Name, Want string
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	p := startPickle(t)
	var trees, values []pickled
	for i, c := range file.Cases {
		protocol := 4 + i%2
		tree := c.pickled
		tree.Again = p.rewritten(c.pickled, protocol, protocol == 5 && len(c.Buffers) > 0)
		trees = append(trees, tree)
		v, err := pickle.Load(c.Pickle, c.Buffers, pickle.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := pickle.Decode(v)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, *p.written(decoded, protocol, protocol == 5))
	}
	p.compare(trees)
	for i, got := range p.ask("describe", map[string]any{"cases": values}).Answers {
		if want := file.Cases[i].Want; got != want {
			t.Errorf("%s, protocol %d:\n got %.500s\nwant %.500s", file.Cases[i].Name, file.Cases[i].Protocol, got,
				want)
		}
	}
}

// TestPickleGo: Go's own values are what they should be to Python.
func TestPickleGo(t *testing.T) {
	array, err := pickle.NewArray("<f4", []int{2, 2}, make([]byte, 16))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		v    any
		want string
	}{
		{[]any{nil, true, 1, -1, 1 << 40, uint64(1<<64 - 1), 1.5, "é", []byte("b")}, "[None, True, int:1, int:-1, " +
			"int:10000000000, int:ffffffffffffffff, " +
			"float:3ff8000000000000, str:c3a9, bytes:62]"},
		{map[string]any{"b": 1, "a": []string{"x"}}, "{str:61: [str:78], str:62: int:1}"},
		{pickle.Tuple{pickle.Tuple{}, pickle.NewDict(int64(1), "x")}, "((), {int:1: str:78})"},
		{&pickle.Set{Items: []any{1, 2}}, "set{int:1, int:2}"},
		{new(big.Int).Lsh(big.NewInt(-1), 100), "int:-10000000000000000000000000"},
		{time.Date(2024, 2, 29, 1, 2, 3, 4567, time.UTC), "datetime:2024-02-29T01:02:03.000004000:0"},
		{time.Date(2024, 2, 29, 1, 2, 3, 0, time.FixedZone("", -5400)), "datetime:2024-02-29T01:02:03.000000000:-5400"},
		{-90 * time.Minute, "timedelta:-1:81000:0"},
		{pickle.Date{Year: 2024, Month: 2, Day: 29}, "date:2024-02-29"},
		{pickle.TimeOfDay{Hour: 23, Microsecond: 70000, Zone: &pickle.Timezone{Offset: time.Hour}},
			"time:23:0:0:70000:0:timezone:3600:"},
		{pickle.Timezone{Name: "Europe/Berlin", Zoneinfo: true}, "zoneinfo:Europe/Berlin"},
		{pickle.Path{Text: "/a/b"}, "path:PurePosixPath:/a/b"},
		{complex(1, -2), "complex:3ff0000000000000:c000000000000000"},
		{pickle.Global{Module: "operator", Name: "add"}, "global:_operator.add"},
		{array, "array:<f4:[2, 2]:00000000000000000000000000000000"},
		{pickle.NewException("builtins", "ValueError", "no"), "exception:builtins.ValueError(str:6e6f):no"},
		{fmt.Errorf("an error of Go"), "exception:builtins.Exception(str:616e206572726f72206f6620476f):an error of Go"},
		{pickle.NewTaskRef("k"), "ref:str:6b"},
		{"not UTF-8: \xff", "str:6e6f74205554462d383a20efbfbd"},
	}
	p := startPickle(t)
	for _, protocol := range []int{4, 5} {
		var written []pickled
		for _, c := range cases {
			written = append(written, *p.written(c.v, protocol, protocol == 5))
		}
		for i, got := range p.ask("describe", map[string]any{"cases": written}).Answers {
			if got != cases[i].want {
				t.Errorf("protocol %d: got %s, want %s", protocol, got, cases[i].want)
			}
		}
	}
}

// TestPickleGraph lets Python run a graph that Go made.
func TestPickleGraph(t *testing.T) {
	p := startPickle(t)
	fn := func(module, name string) pickle.Global { return pickle.Global{Module: module, Name: name} }
	ref := pickle.NewTaskRef
	graph := pickle.NewDict(
		"two", pickle.NewDataNode("two", 2),
		"sum", pickle.NewTask("sum", fn("operator", "add"), 40, ref("two")),
		pickle.Tuple{"t", 0}, pickle.NewTask(pickle.Tuple{"t", 0}, fn("builtins", "sum"),
			pickle.NewTaskList(ref("sum"), ref("two"), 1)),
		"alias", pickle.NewAlias("alias", pickle.Tuple{"t", 0}),
		"sorted", pickle.NewTaskKwargs("sorted", fn("builtins", "sorted"),
			[]any{pickle.NewTaskTuple(1, ref("two"), ref("sum"))}, pickle.NewDict("reverse", true)),
		"dict", pickle.NewTask("dict", fn("builtins", "dict"),
			pickle.NewTaskDict(pickle.NewDict("a", ref("two"), "b", pickle.NewTaskSet(ref("two"), 1)))),
	)
	token := "00112233445566778899aabbccddeeff"
	data, err := pickle.Dump(pickle.NewGraph(graph, token))
	if err != nil {
		t.Fatal(err)
	}
	a := p.ask("graph", map[string]any{"pickle": data, "keys": []string{"sum", "alias", "sorted", "dict"}})
	want := []string{"int:2a", "int:2d", "[int:2a, int:2, int:1]", "{str:61: int:2, str:62: set{int:1, int:2}}"}
	for i, got := range a.Answers {
		if got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
	}
	if a.Token != token || len(a.Answers) != len(want) {
		t.Errorf("token %q, %d answers", a.Token, len(a.Answers))
	}
}

// TestPickleFunction: a function that cloudpickle carries can still be called after it
// went through Go.
func TestPickleFunction(t *testing.T) {
	p := startPickle(t)
	c := p.ask("function", nil).Cases[0]
	tree, err := pickle.Load(c.Pickle, nil, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if name, importable := pickle.FuncName(tree); name != "__main__.op_function.<locals>.<lambda>" || importable {
		t.Errorf("a lambda is called %q", name)
	}
	again := p.written(tree, 5, false)
	if got := p.ask("function", map[string]any{"pickle": again.Pickle}).Answers[0]; got != pickletest.Describe(
		int64(42)) {
		t.Errorf("the function returned %s", got)
	}
}

// TestPickleCollections: Go knows each task of the graphs that Dask's arrays, dataframes and
// bags become, and Dask computes the same after Go has written them again.
func TestPickleCollections(t *testing.T) {
	p := startPickle(t)
	graphs := p.ask("collections", nil).Graphs
	n := 0
	for _, graph := range graphs {
		for i, c := range graph {
			tree, err := pickle.Load(c.Pickle, c.Buffers, pickle.Limits{})
			if err != nil {
				t.Fatalf("%q: %v", c.Pickle, err)
			}
			pair, ok := tree.(pickle.Tuple)
			if !ok || len(pair) != 2 {
				t.Fatal(pickle.Repr(tree))
			}
			task, ok := pickle.AsTask(pair[1])
			if !ok || !pickle.Equal(task.Key, pair[0]) {
				t.Errorf("no task %s: %.500s", pickle.Repr(pair[0]), pickle.Repr(pair[1]))
				continue
			}
			if name, _ := pickle.FuncName(task.Func); name == "" && task.Func != nil {
				t.Errorf("%s: a function without a name: %.500s", pickle.Repr(task.Key), pickle.Repr(task.Func))
			}
			graph[i] = *p.written(tree, 4+i%2, false)
			n++
		}
	}
	if n < 30 || len(graphs) != 5 {
		t.Fatalf("%d tasks in %d graphs", n, len(graphs))
	}
	for i, answer := range p.ask("collections", map[string]any{"graphs": graphs}).Answers {
		if answer != "" {
			t.Errorf("collection %d: %s", i, answer)
		}
	}
}
