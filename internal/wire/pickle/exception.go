package pickle

import (
	"fmt"
	"strings"
)

// Exception is a Python exception, as far as its pickle describes it without being executed.
type Exception struct {
	// Module and Type identify its class: "builtins", "ValueError".
	Module, Type string
	// Args are its arguments, decoded.
	Args []any
	// Text is the probable result of str(): the only argument's text, or all of them.
	Text string
	// Cause is the exception it was raised from or, without one, the one being handled at that time. It is nil if there
	// is none or the pickle does not contain it: Python's own pickles do not, those of tblib, which Dask uses, do.
	Cause *Exception
	// Traceback are the calls that led to it, outermost first, if the pickle contains them.
	Traceback []TraceFrame

	tree *Object // as it was read, to be written again unchanged
}

// TraceFrame is one call of a traceback.
type TraceFrame struct {
	File     string
	Line     int
	Function string
}

// NewException returns an exception to be sent to Python, with one argument, its text: NewException("builtins",
// "ValueError", "no such key").
func NewException(module, typ, text string) *Exception {
	return &Exception{Module: module, Type: typ, Args: []any{text}, Text: text}
}

// Error returns the type and the text: "ValueError: no such key".
func (e *Exception) Error() string {
	name := e.Type
	if e.Module != "" && e.Module != "builtins" {
		name = e.Module + "." + name
	}
	if e.Text == "" {
		return name
	}
	return name + ": " + e.Text
}

// Unwrap returns the cause.
func (e *Exception) Unwrap() error {
	if e.Cause == nil {
		return nil
	}
	return e.Cause
}

// pickleTree returns the original tree, or Type(*Args).
func (e *Exception) pickleTree(int) (Value, error) {
	if e.tree != nil {
		return e.tree, nil
	}
	return &Object{Func: Global{e.Module, e.Type}, Args: Tuple(e.Args)}, nil
}

// AsException reads a node as an exception whatever the name of its class, if only an exception is possible.
func AsException(v Value) (*Exception, bool) {
	o, ok := v.(*Object)
	if !ok {
		return nil, false
	}
	d := decoder{done: make(map[any]any), open: make(map[any]struct{})}
	return d.exception(o, 0)
}

// looksLikeException recognizes exceptions by conventional names.
func looksLikeException(g Global) bool {
	if g.Module == "builtins" {
		switch g.Name {
		case "StopIteration", "StopAsyncIteration", "GeneratorExit", "SystemExit", "KeyboardInterrupt", "BaseException":
			return true
		}
	}
	if g.Is("distributed.scheduler", "KilledWorker") {
		return true
	}
	for _, end := range []string{"Error", "Exception", "Warning"} {
		if strings.HasSuffix(g.Name, end) {
			return true
		}
	}
	return false
}

func buildException(d *decoder, o *Object) (any, bool, error) {
	e, ok := d.exception(o, 0)
	return e, ok, nil
}

// maxCauses bounds a chain of causes, which may be circular in hostile input.
const maxCauses = 64

// exception decodes Class(*args), or one of the forms of tblib:
//
//	unpickle_exception(class, args, cause, tb, context, …)
//	unpickle_exception_with_attrs(class, {"args": args, …}, cause, tb, context, …)
func (d *decoder) exception(o *Object, depth int) (*Exception, bool) {
	if depth > maxCauses || o.Kind != Reduce && o.Kind != NewObj {
		return nil, false
	}
	g, ok := o.Class()
	if !ok {
		return nil, false
	}
	e := &Exception{tree: o}
	args := o.Args
	var file Value // of an OSError, which is an argument but not one of args
	if g.Module == "tblib.pickling_support" {
		if len(o.Args) < 4 {
			return nil, false
		}
		if g.Name == "unpickle_exception" { // OSError's own arguments, with the file's name
			args, ok = o.Args[1].(Tuple)
		} else if attrs, isDict := o.Args[1].(*Dict); isDict {
			v, _ := attrs.Get("args")
			args, ok = v.(Tuple)
			file, _ = attrs.Get("filename")
		} else {
			ok = false
		}
		class, okc := o.Args[0].(Global)
		if !ok || !okc {
			return nil, false
		}
		g = class
		e.Traceback = Traceback(o.Args[3])
		for _, at := range []int{2, 4} {
			if at < len(o.Args) && e.Cause == nil {
				if c, ok := o.Args[at].(*Object); ok && c != o {
					e.Cause, _ = d.exception(c, depth+1)
				}
			}
		}
	}
	e.Module, e.Type = g.Module, g.Name
	if isOSError(g) && len(args) > 2 && len(args) <= 5 {
		file, args = args[2], args[:2]
	}
	items, err := d.items(args)
	if err != nil {
		items = args // what Go values cannot hold stays a tree
	}
	e.Args = items
	e.Text = exceptionText(g, items, file)
	return e, true
}

func exceptionText(g Global, args []any, file Value) string {
	switch len(args) {
	case 0:
		return ""
	case 1:
		if s, ok := args[0].(string); ok && !g.Is("builtins", "KeyError") { // str of a KeyError is its key's repr
			return s
		}
		return Repr(args[0])
	}
	if isOSError(g) && len(args) == 2 {
		text := fmt.Sprintf("[Errno %v] %v", args[0], args[1])
		if file != nil {
			text += ": " + Repr(file)
		}
		return text
	}
	return Repr(Tuple(args))
}

// isOSError recognizes OSError and its subclasses, whose text consists of number, message and file.
func isOSError(g Global) bool {
	if g.Module != "builtins" {
		return false
	}
	switch g.Name {
	case "OSError", "BlockingIOError", "ChildProcessError", "ConnectionError", "BrokenPipeError",
		"ConnectionAbortedError",
		"ConnectionRefusedError", "ConnectionResetError", "FileExistsError", "FileNotFoundError", "InterruptedError",
		"IsADirectoryError", "NotADirectoryError", "PermissionError", "ProcessLookupError", "TimeoutError":
		return true
	}
	return false
}

// maxFrames bounds the traceback of one pickle.
const maxFrames = 1024

// Traceback reads the pickle of a traceback, as written by tblib and sent by Dask, outermost call first. It returns nil
// for anything else.
func Traceback(v Value) []TraceFrame {
	var frames []TraceFrame
	for range maxFrames {
		o, ok := v.(*Object)
		if !ok {
			return frames
		}
		g, _ := o.Class()
		var frame, line, next Value
		switch {
		case g.Is("tblib.pickling_support", "unpickle_traceback") && len(o.Args) == 3:
			frame, line, next = o.Args[0], o.Args[1], o.Args[2]
		case g.Is("tblib", "Traceback"):
			frame, line, next = attribute(o, "tb_frame"), attribute(o, "tb_lineno"), attribute(o, "tb_next")
		default:
			return frames
		}
		n, _ := line.(int64)
		code := attribute(frame, "f_code")
		file, _ := attribute(code, "co_filename").(string)
		name, _ := attribute(code, "co_name").(string)
		frames = append(frames, TraceFrame{File: file, Line: int(n), Function: name})
		v = next
	}
	return frames
}

// attribute returns a named value of the state of an object, nil if there is none.
func attribute(v Value, name string) Value {
	o, ok := v.(*Object)
	if !ok {
		return nil
	}
	state, _ := o.State()
	if t, ok := state.(Tuple); ok && len(t) == 2 { // (dict, slots)
		if d, ok := t[1].(*Dict); ok {
			if a, ok := d.Get(name); ok {
				return a
			}
		}
		state = t[0]
	}
	d, _ := state.(*Dict)
	a, _ := d.Get(name)
	return a
}

// DumpException pickles an error in the form of "exception" in Dask's messages: bytes, to be sent with wire.Serialize.
// An *Exception is preserved; other errors become RuntimeError.
func DumpException(err error) ([]byte, error) {
	e, ok := err.(*Exception)
	if !ok {
		e = NewException("builtins", "RuntimeError", err.Error())
	}
	return Append(nil, e, Options{Protocol: 4})
}

// LoadException reads the value of "exception" of a message. Nothing in it is executed: for an unknown class the name
// is kept.
func LoadException(b []byte, lim Limits) (*Exception, error) {
	tree, err := Load(b, nil, lim)
	if err != nil {
		return nil, err
	}
	v, err := Decode(tree)
	if err != nil {
		return nil, err
	}
	if e, ok := v.(*Exception); ok {
		return e, nil
	}
	return nil, fmt.Errorf("wire: %s is not an exception", TypeName(tree))
}
