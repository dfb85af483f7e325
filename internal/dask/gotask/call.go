package gotask

import (
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// Way is the way in which a task names its function.
type Way uint8

// The ways, see the package documentation.
const (
	Annotation Way = iota + 1
	Namespace
	Module
	Name
	StubWay
	Encoded
)

// String returns the name of the way for messages.
func (w Way) String() string {
	switch w {
	case Annotation:
		return "annotation"
	case Namespace:
		return "namespace"
	case Module:
		return "module"
	case Name:
		return "name"
	case StubWay:
		return "stub"
	case Encoded:
		return "encoded"
	}
	return "unknown"
}

// Call is a call of a Go function, decoded from a Python task.
type Call struct {
	// Name is the name of the function in the registry.
	Name string
	// Way is the way in which the task names it.
	Way Way
	// Weak reports that only the name of a Python function refers to Go: the task is a call of a Go function if there
	// is one with this name, and otherwise a Python task.
	Weak bool
	// Args are the arguments, as nodes; see Values. They are nil for an encoded call.
	Args []pickle.Value
	// Spec is the call as a task.Builder has encoded it, for an encoded call.
	Spec []byte
	// Registry is the hash of the functions that the worker of an encoded call must have, see task.CheckHash; "" for
	// any.
	Registry string
	// Deps are the keys that the arguments refer to, each once.
	Deps []task.Key
}

// Error is returned for a task that names a Go function but cannot be executed.
type Error struct {
	// Name is the name of the function, "" if it could not be decoded.
	Name string
	// Reason is the cause with a remedy.
	Reason string
}

func (e *Error) Error() string {
	if e.Name == "" {
		return "gotask: " + e.Reason
	}
	return fmt.Sprintf("gotask: %s: %s", e.Name, e.Reason)
}

// PythonType returns the class of the exception that Python clients raise for the error.
func (e *Error) PythonType() string { return "TypeError" }

// Recognize decodes a task: node is its run_spec as decoded by package pickle, annotations are its annotations as
// msgpack, or nil. It returns nil if the task does not name a Go function, and an *Error if it does but cannot be
// called.
func Recognize(node pickle.Value, annotations []byte) (*Call, error) {
	a, err := readAnnotation(annotations)
	if err != nil {
		return nil, err
	}
	if a != nil && a.Args != nil {
		return a, nil // it has all arguments
	}
	t, ok := pickle.AsTask(node)
	if !ok || t.Func == nil {
		if a != nil {
			return nil, &Error{a.Name, "the annotation go has no arguments, and those of the task cannot " +
				"be decoded; write go={\"fn\": name, \"args\": […]}"}
		}
		return nil, nil
	}
	if a != nil {
		return finish(&Call{Name: a.Name, Way: Annotation}, t.Args, t.Kwargs, nil)
	}
	return FromTask(t)
}

// FromTask is Recognize for a decoded task without annotations.
func FromTask(t *pickle.Task) (*Call, error) {
	switch t.Class {
	case "List", "Tuple", "Set", "Dict", "Alias", "DataNode", "TaskRef", "Future":
		return nil, nil
	}
	fn, args, kwargs := unapply(t)
	if g, ok := fn.(pickle.Global); ok && g.Name == "exec" {
		return fromEncoded(args)
	}
	if isNamespace(fn) {
		return fromNamespace(args, kwargs)
	}
	f, ok := FromFunc(fn)
	if !ok {
		return nil, nil
	}
	return finish(&Call{Name: f.Name, Way: f.Way, Weak: f.Way == Name}, args, kwargs, f.Params)
}

// unapply undoes dask.utils.apply(f, args, kwargs), which Dask uses for keyword arguments in some places, and
// dask.delayed._apply2(f, *args, dask_kwargs=kwargs), which dask.delayed used before 2025.7.
func unapply(t *pickle.Task) (fn pickle.Value, args []pickle.Value, kwargs *pickle.Dict) {
	fn, args, kwargs = t.Func, t.Args, t.Kwargs
	if g, ok := fn.(pickle.Global); ok && g.Is("dask.delayed", "_apply2") && len(args) > 0 && kwargs != nil &&
		kwargs.Len() == 1 {
		v, _ := kwargs.Get("dask_kwargs")
		if named, ok := dictOf(v); ok {
			return args[0], args[1:], named
		}
	}
	if g, ok := fn.(pickle.Global); !ok || !g.Is("dask.utils", "apply") || len(args) < 2 || len(args) > 3 ||
		kwargs != nil && kwargs.Len() > 0 {
		return fn, args, kwargs
	}
	list, ok := listOf(args[1])
	if !ok {
		return fn, args, kwargs
	}
	var named *pickle.Dict
	if len(args) == 3 {
		if named, ok = dictOf(args[2]); !ok {
			return fn, args, kwargs
		}
	}
	return args[0], list, named
}

// Func describes a Go function as the Python object that represents it does.
type Func struct {
	// Name is its name in the registry, Way the way in which the object names it.
	Name string
	Way  Way
	// Params are the names of its parameters, if a stub declares them.
	Params []string
}

// FromFunc decodes the Python object that a task calls: a stub, a global of a module gotask, or a function of __main__
// with a name that begins with go_. ok is false for all others. It is for graphs that name a function once for many
// tasks, such as those of Client.map.
func FromFunc(fn pickle.Value) (f Func, ok bool) {
	if name, params, ok := fromStub(fn); ok {
		return Func{name, StubWay, params}, true
	}
	switch x := fn.(type) {
	case pickle.Global:
		if x.Module == "gotask" && validName(x.Name) {
			return Func{Name: x.Name, Way: Module}, true
		}
	case *pickle.Object:
		g, _ := x.Class()
		if !strings.HasPrefix(g.Module, "cloudpickle") {
			return Func{}, false
		}
		full, _ := pickle.FuncName(x)
		name, ok := strings.CutPrefix(full[strings.LastIndexByte(full, '.')+1:], "go_")
		if ok && validName(name) {
			return Func{Name: name, Way: Name}, true
		}
	}
	return Func{}, false
}

func isNamespace(fn pickle.Value) bool {
	g, ok := fn.(pickle.Global)
	return ok && g.Is("types", "SimpleNamespace")
}

// fromNamespace decodes SimpleNamespace(go=name, args=[…]).
func fromNamespace(args []pickle.Value, kwargs *pickle.Dict) (*Call, error) {
	if kwargs == nil || len(args) > 0 {
		return nil, nil
	}
	v, ok := kwargs.Get("go")
	if !ok {
		return nil, nil
	}
	name, ok := v.(string)
	if !ok || !validName(name) {
		return nil, &Error{"", "SimpleNamespace(go=…) requires the name of a Go function, a str"}
	}
	var list []pickle.Value
	for k, v := range kwargs.All() {
		switch k {
		case "go":
		case "args":
			if list, ok = listOf(v); !ok {
				return nil, &Error{name, "SimpleNamespace(go=…, args=…) requires a list of arguments, not a " +
					pickle.TypeName(v)}
			}
		default:
			return nil, &Error{name, fmt.Sprintf("SimpleNamespace(go=…) accepts only args=[…], not %v", k)}
		}
	}
	return finish(&Call{Name: name, Way: Namespace}, list, nil, nil)
}

// fromEncoded decodes a task of NewTask in the form in which Dask's scheduler has pickled it again.
func fromEncoded(args []pickle.Value) (*Call, error) {
	if len(args) != 2 {
		return nil, nil
	}
	d, ok := dictOf(args[1])
	if !ok {
		return nil, nil
	}
	if _, ok := d.Get(Marker); !ok {
		return nil, nil
	}
	registry, _ := bytesAt(d, registryField)
	spec, ok := bytesAt(d, Marker)
	if !ok || !task.IsSpec(spec) {
		return nil, &Error{"", "encoded call without its bytes"}
	}
	info, err := task.ReadSpecInfo(spec)
	if err != nil {
		return nil, &Error{info.Name, err.Error()}
	}
	return &Call{Name: info.Name, Way: Encoded, Spec: spec, Deps: info.Deps, Registry: string(registry)}, nil
}

// bytesAt returns a value that is bytes, directly or in a separate node.
func bytesAt(d *pickle.Dict, name string) ([]byte, bool) {
	v, _ := d.Get(name)
	if o, isNode := v.(*pickle.Object); isNode {
		if t, ok := pickle.AsTask(o); ok && t.Class == "DataNode" {
			v = t.Value
		}
	}
	return pickle.AsBytes(v)
}

// errKeyword is returned for keyword arguments.
var errKeyword = errors.New("functions in Go take arguments by position; declare the parameters in the stub " +
	"(@millstream.go(name) above a def with their names), or pass them in order")

// finish binds the arguments and collects the references in them.
func finish(c *Call, args []pickle.Value, kwargs *pickle.Dict, params []string) (*Call, error) {
	var err error
	if c.Args, err = bind(args, kwargs, params); err != nil {
		return nil, &Error{c.Name, err.Error()}
	}
	for _, k := range pickle.References(pickle.Tuple(c.Args)) {
		key, err := KeyOf(k)
		if err != nil {
			return nil, &Error{c.Name, err.Error()}
		}
		c.Deps = append(c.Deps, key)
	}
	return c, nil
}

// bind moves keyword arguments to their positions.
func bind(args []pickle.Value, kwargs *pickle.Dict, params []string) ([]pickle.Value, error) {
	if params != nil && len(args) > len(params) {
		return nil, fmt.Errorf("takes %d arguments but %d were given", len(params), len(args))
	}
	out := make([]pickle.Value, len(args), max(len(args), len(params)))
	copy(out, args)
	if kwargs == nil || kwargs.Len() == 0 {
		return out, nil
	}
	if params == nil {
		return nil, errKeyword
	}
	left := kwargs.Len()
	for _, p := range params[len(args):] {
		v, ok := kwargs.Get(p)
		if !ok {
			break
		}
		out = append(out, v)
		left--
	}
	if left > 0 {
		for k := range kwargs.All() {
			name, _ := k.(string)
			at := indexOf(params, name)
			switch {
			case at < 0:
				return nil, fmt.Errorf("has no parameter %s", pickle.Repr(k))
			case at < len(args):
				return nil, fmt.Errorf("got two values for parameter %s", name)
			}
		}
		return nil, fmt.Errorf("missing value for parameter %s", params[len(out)])
	}
	return out, nil
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

// listOf returns the elements of a Python list or tuple, or of a Dask container.
func listOf(v pickle.Value) ([]pickle.Value, bool) {
	switch x := v.(type) {
	case *pickle.List:
		return x.Items, true
	case pickle.Tuple:
		return x, true
	case *pickle.Object:
		if t, ok := pickle.AsTask(x); ok && (t.Class == "List" || t.Class == "Tuple") {
			return t.Args, true
		}
	}
	return nil, false
}

// dictOf returns a Python dict, or that of a Dask container.
func dictOf(v pickle.Value) (*pickle.Dict, bool) {
	switch x := v.(type) {
	case *pickle.Dict:
		return x, true
	case *pickle.Object:
		t, ok := pickle.AsTask(x)
		if !ok || t.Class != "Dict" || len(t.Args)%2 != 0 {
			return nil, false
		}
		d := new(pickle.Dict)
		for i := 0; i < len(t.Args); i += 2 {
			d.Set(t.Args[i], t.Args[i+1])
		}
		return d, true
	}
	return nil, false
}
