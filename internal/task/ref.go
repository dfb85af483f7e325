package task

import (
	"fmt"
	"reflect"
)

// Arg is an argument for a parameter of type T: a value (Val), the result of a task (a client.Future[T], or RefTo), or
// a slice or map that contains these (List, Dict).
type Arg[T any] interface {
	// AppendArg encodes the argument as a node.
	AppendArg(b *Builder) error
	// ArgOf marks the type of the argument; it does nothing.
	ArgOf(T)
}

// Val returns an argument with a literal value.
func Val[T any](v T) Arg[T] { return val[T]{v} }

type val[T any] struct{ v T }

func (a val[T]) ArgOf(T) {}

func (a val[T]) AppendArg(b *Builder) error {
	b.args = append(b.args, nodeValue)
	return codecFor[T]().append(b, a.v)
}

// RefTo returns a reference to the result of the task with key k.
func RefTo[T any](k Key) Ref[T] { return Ref[T]{key: k} }

// Ref is a field, element or argument that is replaced by the result of another task: when the function runs, Get
// returns it. A Ref may also hold a literal value (RefOf). The zero Ref holds the zero value.
type Ref[T any] struct {
	key   Key
	value T
}

// RefOf returns a Ref that holds a value.
func RefOf[T any](v T) Ref[T] { return Ref[T]{value: v} }

// Get returns the value: within a function that received the Ref, or of RefOf.
func (r Ref[T]) Get() T { return r.value }

// Key returns the key of the task that r refers to, "" if it holds a value.
func (r Ref[T]) Key() Key { return r.key }

// ArgOf marks a Ref as an Arg.
func (r Ref[T]) ArgOf(T) {}

// AppendArg encodes the reference as a node.
func (r Ref[T]) AppendArg(b *Builder) error {
	if r.key != "" {
		b.Ref(r.key)
		return nil
	}
	return val[T]{r.value}.AppendArg(b)
}

func (r *Ref[T]) appendRef(b *Builder) error { return r.AppendArg(b) }

// readRef resolves the reference to a value in the process that runs the function.
func (r *Ref[T]) readRef(rd *reader) (err error) {
	r.key = ""
	r.value, err = readNode(rd, codecFor[T]())
	return err
}

// treeRef is the part of Ref that results use: in a result it is the value.
type treeRef interface {
	treeValue() reflect.Value
}

func (r *Ref[T]) treeValue() reflect.Value { return reflect.ValueOf(&r.value).Elem() }

// List returns an argument for a parameter of type []T; each element is a value or the result of a task.
func List[T any](args ...Arg[T]) Arg[[]T] { return list[T](args) }

type list[T any] []Arg[T]

func (a list[T]) ArgOf([]T) {}

func (a list[T]) AppendArg(b *Builder) error {
	b.List(len(a))
	for i, x := range a {
		if x == nil {
			return &EncodeError{Type: reflect.TypeFor[[]T](), Path: fmt.Sprintf("[%d]", i),
				Reason: "the argument is nil"}
		}
		if err := x.AppendArg(b); err != nil {
			return inPath(err, fmt.Sprintf("[%d]", i))
		}
	}
	return nil
}

// Dict returns an argument for a parameter of type map[string]T; each value is a literal or the result of a task.
func Dict[T any](args map[string]Arg[T]) Arg[map[string]T] { return dict[T](args) }

type dict[T any] map[string]Arg[T]

func (a dict[T]) ArgOf(map[string]T) {}

func (a dict[T]) AppendArg(b *Builder) error {
	b.Map(len(a))
	for _, k := range sortedKeys(a) {
		if a[k] == nil {
			return &EncodeError{Type: reflect.TypeFor[map[string]T](), Path: fmt.Sprintf("[%q]", k),
				Reason: "the argument is nil"}
		}
		_ = appendText(b, k)
		if err := a[k].AppendArg(b); err != nil {
			return inPath(err, fmt.Sprintf("[%q]", k))
		}
	}
	return nil
}

// readNode decodes an argument of a type whose codec is known.
func readNode[T any](r *reader, c *codec[T]) (T, error) {
	var zero T
	kind, err := r.ReadUint()
	if err != nil {
		return zero, err
	}
	switch kind {
	case nodeValue:
		return c.read(r)
	case nodeRef:
		v, err := r.ref()
		if err != nil {
			return zero, err
		}
		return As[T](v)
	}
	var out T
	if err := readContainer(r, kind, reflect.ValueOf(&out).Elem()); err != nil {
		return zero, err
	}
	return out, nil
}

// readContainer decodes a slice or map that contains references.
func readContainer(r *reader, kind uint64, v reflect.Value) error {
	n, err := r.ReadUint()
	if err != nil {
		return err
	}
	if n > uint64(r.Remaining()) { // each node has at least one byte
		return &SpecError{Reason: fmt.Sprintf("list of %d arguments in %d bytes", n, r.Remaining())}
	}
	if err := r.descend(); err != nil {
		return err
	}
	t := v.Type()
	switch {
	case kind == nodeList && t.Kind() == reflect.Slice:
		out := reflect.MakeSlice(t, 0, min(int(n), 1<<16))
		zero := reflect.Zero(t.Elem())
		for i := range int(n) {
			out = reflect.Append(out, zero)
			if err := readNodeInto(r, out.Index(i)); err != nil {
				return inPath(err, fmt.Sprintf("[%d]", i))
			}
		}
		v.Set(out)
	case kind == nodeMap && t.Kind() == reflect.Map:
		out := reflect.MakeMap(t)
		for range int(n) {
			k, x := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			if err := planOf(t.Key()).read(r, k); err != nil {
				return err
			}
			if err := readNodeInto(r, x); err != nil {
				return inPath(err, fmt.Sprintf("[%v]", k))
			}
			out.SetMapIndex(k, x)
		}
		v.Set(out)
	case kind == nodeList || kind == nodeMap:
		return &TypeError{Want: t.String(), Got: "a list or map of arguments"}
	default:
		return &SpecError{Reason: fmt.Sprintf("unknown kind of argument %d", kind)}
	}
	r.depth--
	return nil
}

// readNodeInto decodes a node by reflection.
func readNodeInto(r *reader, v reflect.Value) error {
	kind, err := r.ReadUint()
	if err != nil {
		return err
	}
	switch kind {
	case nodeValue:
		return planOf(v.Type()).read(r, v)
	case nodeRef:
		x, err := r.ref()
		if err != nil {
			return err
		}
		return x.into(v)
	}
	return readContainer(r, kind, v)
}
