package gotask

import (
	"fmt"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
)

// readAnnotation decodes the annotation go of a map of annotations. It returns nil if there is none. Args are nil if
// the annotation has only a name.
func readAnnotation(raw []byte) (*Call, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	r := msgpack.NewReader(raw)
	if r.Kind() != msgpack.MapKind {
		return nil, nil
	}
	n, err := r.ReadMapLen()
	for ; err == nil && n > 0; n-- {
		if r.Kind() != msgpack.Str {
			if err = r.Skip(); err == nil {
				err = r.Skip()
			}
			continue
		}
		var k []byte
		if k, err = r.ReadStringBytes(); err != nil {
			break
		}
		if string(k) != "go" {
			err = r.Skip()
			continue
		}
		value, err := r.ReadRaw()
		if err != nil {
			return nil, &Error{"", fmt.Sprintf("annotations: %v", err)}
		}
		return callOf(value)
	}
	if err != nil {
		return nil, &Error{"", fmt.Sprintf("annotations: %v", err)}
	}
	return nil, nil
}

// errAnnotation describes the form of the annotation.
const errAnnotation = "the annotation go must have the form go=\"name\" or go={\"fn\": \"name\", \"args\": […]}"

// callOf decodes the value of the annotation. Other values, such as a number of a program that uses the annotation
// differently, are not a call.
func callOf(raw []byte) (*Call, error) {
	v, err := msgpack.Decode(raw)
	if err != nil {
		return nil, &Error{"", fmt.Sprintf("annotations: %v", err)}
	}
	switch v := v.(type) {
	case string:
		if !validName(v) {
			return nil, &Error{"", errAnnotation}
		}
		return &Call{Name: v, Way: Annotation}, nil
	case msgpack.Map:
		fn, ok := v.Get("fn")
		if !ok {
			return nil, nil
		}
		name, ok := fn.(string)
		if !ok || !validName(name) {
			return nil, &Error{"", errAnnotation}
		}
		c := &Call{Name: name, Way: Annotation}
		list, ok := v.Get("args")
		if !ok || list == nil {
			return c, nil
		}
		args, ok := list.([]any)
		if !ok {
			return nil, &Error{name, errAnnotation}
		}
		c.Args = make([]pickle.Value, len(args))
		for i, a := range args {
			if c.Args[i], err = nodeOf(a, 0); err != nil {
				return nil, &Error{name, fmt.Sprintf("argument %d of the annotation go: %v", i, err)}
			}
		}
		return c, nil
	}
	return nil, nil
}

// nodeOf converts a value of the body of a message to a node.
func nodeOf(v any, depth int) (pickle.Value, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	switch v := v.(type) {
	case []any:
		l := &pickle.List{Items: make([]pickle.Value, len(v))}
		for i, x := range v {
			var err error
			if l.Items[i], err = nodeOf(x, depth+1); err != nil {
				return nil, err
			}
		}
		return l, nil
	case msgpack.Map:
		for _, frame := range []string{msgpack.Serialized, msgpack.Pickled} {
			if _, ok := v.Get(frame); ok && len(v) == 1 {
				return nil, fmt.Errorf("annotations can only have None, bool, numbers, str, bytes, lists and dicts; " +
					"pass other values as arguments of the task (go=\"name\")")
			}
		}
		d := new(pickle.Dict)
		for _, p := range v {
			key, err := nodeOf(p.Key, depth+1)
			if err != nil {
				return nil, err
			}
			x, err := nodeOf(p.Value, depth+1)
			if err != nil {
				return nil, err
			}
			d.Set(key, x)
		}
		return d, nil
	case uint64:
		return bigOf(v), nil
	}
	return v, nil
}

// Annotated reports whether annotations, as msgpack, name a Go function: all tasks with these annotations are then
// calls of it.
func Annotated(annotations []byte) bool {
	c, err := readAnnotation(annotations)
	return c != nil && err == nil
}
