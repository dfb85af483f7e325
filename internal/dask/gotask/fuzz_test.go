package gotask_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

var addFunc = task.Register2("gotasktest.add", func(_ context.Context, x, y int) (int, error) { return x + y, nil })

// specOf returns a call that a Go client has encoded, which refers to the key dep.
func specOf(t testing.TB) []byte {
	t.Helper()
	var b task.Builder
	b.Begin(addFunc)
	p := task.NewParam[int]()
	if err := p.Val(&b, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Arg(&b, task.RefTo[int](task.NewKey("dep"))); err != nil {
		t.Fatal(err)
	}
	return b.Append(nil)
}

// The Python package has the same source for stubs.
func TestSource(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "python", "millstream", "stubs.py"))
	if err != nil {
		t.Fatal(err)
	}
	// The literal in stubs.py is split into lines.
	begin := strings.Index(string(text), "SOURCE = (\n")
	end := strings.Index(string(text)[begin:], "\n)\n")
	if begin < 0 || end < 0 {
		t.Fatal("stubs.py has no SOURCE")
	}
	var joined strings.Builder
	for line := range strings.Lines(string(text)[begin+len("SOURCE = (\n") : begin+end]) {
		line = strings.TrimSpace(line)
		joined.WriteString(strings.ReplaceAll(line[1:len(line)-1], `\"`, `"`))
	}
	if joined.String() != gotask.Source {
		t.Errorf("stubs.py has\n%s\nand Go has\n%s", joined.String(), gotask.Source)
	}
}

// Decoding any input ends without a panic.
func FuzzRecognize(f *testing.F) {
	seed := func(v pickle.Value, m msgpack.Map) {
		data, err := pickle.Dump(v)
		if err != nil {
			f.Fatal(err)
		}
		var a []byte
		if m != nil {
			a = annotations(f, m)
		}
		f.Add(data, a)
	}
	seed(pickle.NewTask("k", add, int64(1)), nil)
	seed(pickle.NewTask("k", gotask.Stub("f", "x"), pickle.NewTaskRef("d"), pickle.NewTaskList(int64(1))), nil)
	seed(kwargsTask(gotask.Stub("f", "x"), pickle.NewDict("x", 1.5)), nil)
	seed(kwargsTask(namespace, pickle.NewDict("go", "f", "args", pickle.Tuple{int64(1)})), nil)
	seed(pickle.NewTask("k", byValue("go_f"), "x"), nil)
	seed(gotask.NewTask("k", "gotasktest.add", specOf(f), []pickle.Value{"dep"}, "f-1"), nil)
	seed(nil, msgpack.MapOf("go", msgpack.MapOf("fn", "f", "args", []any{1, msgpack.MapOf("a", []any{nil})})))
	seed(nil, msgpack.MapOf("go", "f"))
	f.Fuzz(func(t *testing.T, data, annotations []byte) {
		gotask.Possible(data, annotations)
		node, err := pickle.Load(data, nil, pickle.Limits{Nodes: 1 << 16, Memo: 1 << 16, StringBytes: 1 << 20})
		if err != nil {
			node = nil
		}
		c, err := gotask.Recognize(node, annotations)
		if err != nil || c == nil {
			return
		}
		if c.Name == "" && c.Way != gotask.Encoded {
			t.Error("a call without a name")
		}
		for _, k := range c.Deps {
			if _, err := task.ParseKey([]byte(k)); err != nil && c.Way != gotask.Encoded {
				t.Errorf("key %q: %v", k, err)
			}
		}
		_, _ = c.Values(func(task.Key) (*task.Value, error) { return task.NewValue("result"), nil })
	})
}
