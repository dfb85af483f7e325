package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"go.millstream.dev/internal/wire/pickle"
)

// PyFunc is a Python function. Only the worker that runs a call imports it: neither the client nor a scheduler needs
// its module or a Python interpreter.
type PyFunc struct {
	name string
	// The call that returns the function on the worker.
	fn   pickle.Global
	args []pickle.Value
}

// NewPyFunc returns the function with a name such as "numpy:sum" or "package.module:Class.method": a module, a colon,
// and the name in the module.
func NewPyFunc(name string) (PyFunc, error) {
	module, attr, ok := strings.Cut(name, ":")
	if !ok || !isDotted(module) || !isDotted(attr) {
		return PyFunc{}, &SpecError{Reason: fmt.Sprintf("%.200q is not the name of a Python function; write "+
			"module:function, such as numpy:sum or builtins:len", name)}
	}
	short := attr[strings.LastIndexByte(attr, '.')+1:]
	return PyFunc{short, pickle.Global{Module: "pkgutil", Name: "resolve_name"}, []pickle.Value{name}}, nil
}

// PySource returns the function that Python source defines: an expression such as "lambda x: x + 1", or definitions, of
// which the last function or class is used.
func PySource(source string) (PyFunc, error) {
	text := strings.TrimSpace(source)
	if text == "" {
		return PyFunc{}, &SpecError{Reason: "no source of a Python function; write lambda x: … or def f(x): …"}
	}
	eval := pickle.Global{Module: "builtins", Name: "eval"}
	if name, ok := definition(dedent(source)); ok {
		globals := pickle.NewDict("source", dedent(source))
		return PyFunc{name, eval, []pickle.Value{lastDefined, globals}}, nil
	}
	return PyFunc{"lambda", eval, []pickle.Value{text}}, nil
}

// lastDefined executes the source with the globals of an expression and returns the last function or class that it
// defines.
const lastDefined = `[names := {"__name__": "__main__"}, exec(source, names), ` +
	`[v for k, v in names.items() if callable(v) and getattr(v, "__module__", None) == "__main__"][-1]][-1]`

// definition returns the name of the last function or class that statements define at the top level; ok is false for an
// expression.
func definition(text string) (name string, ok bool) {
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimPrefix(line, "async "), " ")
		switch word {
		case "def", "class":
			if end := strings.IndexAny(rest, "(: \n"); end > 0 {
				name = rest[:end]
			}
			ok = true
		case "import", "from":
			ok = true
		}
	}
	return name, ok && name != ""
}

// dedent removes the indentation of the first line from all lines, for source in a Go literal.
func dedent(s string) string {
	lines := strings.Split(strings.TrimRight(strings.TrimLeft(s, "\n"), " \t\n"), "\n")
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " \t"))]
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, indent)
	}
	return strings.Join(lines, "\n") + "\n"
}

func isDotted(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" {
			return false
		}
		for i, r := range part {
			if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= 0x80 || i > 0 && '0' <= r &&
				r <= '9') {
				return false
			}
		}
	}
	return true
}

// Name returns the name of the function without its module, with which the keys of its tasks begin.
func (f PyFunc) Name() string { return f.name }

// PyKwarg is a keyword argument.
type PyKwarg struct {
	Name  string
	Value any
}

// PyCall is a call of a Python function. Append returns the spec of its task, which is a pickle of a Dask Task. (IsSpec
// distinguishes it from specs of Go functions.)
type PyCall struct {
	deps []Key
	task *pickle.Object // its first argument is the key
}

// Call returns a call of the function. Arguments are values, futures and others (see Arg), and slices, maps and structs
// that contain these at any depth.
//
// Python receives a slice of numbers as a numpy array, other slices as lists, maps and structs as dicts, and Arrow
// tables as such. Values from Python that Go cannot decode (*wire.Object) are passed on unchanged.
func (f PyFunc) Call(args []any, kwargs []PyKwarg) (*PyCall, error) {
	w := pyWriter{seen: make(map[Key]bool)}
	list, named, err := f.arguments(&w, args, kwargs)
	if err != nil {
		return nil, err
	}
	call := pickle.NewTask(nil, pickle.Global{Module: "dask.utils", Name: "apply"},
		pickle.NewTask(nil, f.fn, f.args...), list.node())
	if len(kwargs) > 0 {
		call.Args = append(call.Args, named.tree)
	}
	return &PyCall{deps: w.deps, task: call}, nil
}

func (f PyFunc) arguments(w *pyWriter, args []any, kwargs []PyKwarg) (list pyList, named pyValue, err error) {
	list = make(pyList, len(args))
	for i, a := range args {
		if list[i], err = w.value(a); err != nil {
			return nil, named, fmt.Errorf("argument %d of Python function %s: %w", i, f.name, err)
		}
	}
	d, lazy := new(pickle.Dict), false
	for _, k := range kwargs {
		x, err := w.value(k.Value)
		if err != nil {
			return nil, named, fmt.Errorf("argument %s of Python function %s: %w", k.Name, f.name, err)
		}
		if _, twice := d.Get(k.Name); twice {
			return nil, named, fmt.Errorf("duplicate argument %s of Python function %s", k.Name, f.name)
		}
		d.Set(k.Name, x.tree)
		lazy = lazy || x.lazy
	}
	return list, dictNode(d, lazy), nil
}

// Request returns function, arguments and keyword arguments of a call outside of the task system (Dask's run), each
// pickled: unpickling imports the function. The arguments cannot contain futures.
func (f PyFunc) Request(args []any, kwargs []PyKwarg) (fn, list, named []byte, err error) {
	w := pyWriter{seen: make(map[Key]bool), eager: true}
	l, d, err := f.arguments(&w, args, kwargs)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(w.deps) > 0 {
		return nil, nil, nil, &SpecError{Reason: "call of Python function " + f.name + " outside of the task system " +
			"takes values, not futures; submit a task instead"}
	}
	out := make([][]byte, 3)
	for i, tree := range []pickle.Value{pickle.Call(f.fn, f.args...), pickle.Tuple(l.trees()), d.tree} {
		if out[i], err = pickle.Dump(tree); err != nil {
			return nil, nil, nil, &SpecError{Reason: "call of Python function " + f.name, Err: err}
		}
	}
	return out[0], out[1], out[2], nil
}

// Deps returns the keys that the call refers to, each once.
func (p *PyCall) Deps() []Key { return p.deps }

// Append appends the spec of the task with this key.
func (p *PyCall) Append(dst []byte, key Key) ([]byte, error) {
	k, err := PyKey(key)
	if err != nil {
		return dst, err
	}
	return p.append(dst, k)
}

func (p *PyCall) append(dst []byte, key pickle.Value) ([]byte, error) {
	p.task.Args[0] = key
	out, err := pickle.Append(dst, p.task, pickle.Options{})
	if err != nil {
		return dst, &SpecError{Reason: "call of a Python function", Err: err}
	}
	return out, nil
}

// Hash returns 32 hex digits that identify function and arguments.
func (p *PyCall) Hash() (string, error) {
	b, err := p.append(nil, nil)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:16]), nil
}
