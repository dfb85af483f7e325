package gotask

import (
	_ "embed"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// Marker is the name of the attribute of stubs and encoded calls that has the function.
const Marker = "millstream_go"

//go:embed stub.py
var sourceFile string

// Source is the Python expression that is pickled for a stub: its value is an object that pickles itself in the same
// way and, when called, raises an error that Go is needed. So a scheduler or worker can pass it on without any
// installed package. internal/dask/python/millstream/stubs.py has the same text, which a test compares.
var Source = strings.TrimSuffix(sourceFile, "\n")

// evalGlobal is the Python function eval.
var evalGlobal = pickle.Global{Module: "builtins", Name: "eval"}

// Stub returns the node of a stub: the pickled form of @millstream.go(name). params are the names of its parameters, if
// the stub declares them; arguments may then be passed by name. Use one node for all tasks of a graph: it is then
// pickled once.
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

// registryField is the name of the field of an encoded call with the hash of the functions of its client.
const registryField = "registry"

// NewTask returns the node of a call that a Go client has encoded: spec is the output of a task.Builder, deps are the
// keys that it refers to, registry the hash that its worker must have. On a worker without Go it fails with a
// RuntimeError that describes what is needed, which is the text of the Python statement that the task executes there.
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

// needsGo returns the error that a Python worker raises for such a task.
func needsGo(name string) string {
	return "Go function " + name + " needs a Millstream worker: this one runs Python only. Give the task " +
		"resources={'go': 1}, or call millstream.install(client) once"
}

// quote returns a Python string literal.
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

// fromStub decodes the node of a stub.
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

// items returns the elements of a list or tuple.
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
