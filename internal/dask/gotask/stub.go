package gotask

import (
	_ "embed"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// Marker is the name under which stubs and encoded calls carry the function.
const Marker = "millstream_go"

//go:embed stub.py
var sourceFile string

// Source is the Python expression that a stub is pickled with: its value is an object that
// pickles itself in the same way and, where somebody calls it, says that Go is needed. So
// a scheduler or worker needs nothing installed to hand it on. internal/dask/python/millstream/stubs.py
// has the same text, which a test compares.
var Source = strings.TrimSuffix(sourceFile, "\n")

// evalGlobal is how Python names eval.
var evalGlobal = pickle.Global{Module: "builtins", Name: "eval"}

// Stub makes the node of a stub: what @millstream.go(name) is pickled as. params are the
// names of its parameters, if the stub declares them; arguments may then be given by name.
// Use one node for all tasks of a graph: it is then pickled once.
func Stub(name string, params ...string) *pickle.Object {
	var list pickle.Value
	if len(params) > 0 {
		t := make(pickle.Tuple, len(params))
		for i, p := range params {
			t[i] = p
		}
		list = t
	}
	d := new(pickle.Dict).Set(Marker, name).Set("params", list).Set("source", Source)
	return pickle.Call(evalGlobal, Source, d)
}

// registryField is the name under which an encoded call carries the hash of its client's functions.
const registryField = "registry"

// NewTask makes the node of a call that a Go client has encoded: spec is what a task.Builder
// wrote, deps are the keys that it refers to, registry the hash that its worker must have. On a worker without Go it
// fails with a RuntimeError that says what is needed, which is the text of the Python statement that the task would
// execute.
func NewTask(key pickle.Value, name string, spec []byte, deps []pickle.Value, registry string) *pickle.Object {
	refs := make([]pickle.Value, len(deps))
	for i, k := range deps {
		refs[i] = pickle.NewTaskRef(k)
	}
	d := new(pickle.Dict)
	d.Set(Marker, spec)
	d.Set("deps", pickle.NewTaskList(refs...))
	if registry != "" {
		d.Set(registryField, []byte(registry))
	}
	return pickle.NewTask(key, pickle.Global{Module: "builtins", Name: "exec"}, "raise RuntimeError("+
		quote(needsGo(name))+")", pickle.NewTaskDict(d))
}

// needsGo is what a Python worker says about a task that landed on it.
func needsGo(name string) string {
	return "Go function " + name + " needs a Millstream worker: this one runs Python only. Give the task " +
		"resources={'go': 1}, or call millstream.install(client) once"
}

// quote writes a Python literal of text.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\0`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// fromStub reads the node of a stub.
func fromStub(fn pickle.Value) (name string, params []string, ok bool) {
	o, ok := fn.(*pickle.Object)
	if !ok || o.Kind != pickle.Reduce || len(o.Args) != 2 {
		return "", nil, false
	}
	if g, ok := o.Class(); !ok || g != evalGlobal {
		return "", nil, false
	}
	d, ok := o.Args[1].(*pickle.Dict)
	if !ok {
		return "", nil, false
	}
	v, _ := d.Get(Marker)
	if name, ok = v.(string); !ok || !validName(name) {
		return "", nil, false
	}
	list, _ := d.Get("params")
	for _, p := range items(list) {
		s, ok := p.(string)
		if !ok {
			return "", nil, false
		}
		params = append(params, s)
	}
	return name, params, true
}

// items are the members of a list or tuple.
func items(v pickle.Value) []pickle.Value {
	switch x := v.(type) {
	case *pickle.List:
		return x.Items
	case pickle.Tuple:
		return x
	}
	return nil
}

func validName(s string) bool { return s != "" && len(s) <= task.MaxName }
