package task

import (
	"fmt"
	"math/big"
	"reflect"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// pyValue is an argument as a tree of package pickle. A lazy value has parts that the worker evaluates before the call:
// Dask only finds these in its own containers.
type pyValue struct {
	tree pickle.Value
	lazy bool
}

// pyWriter converts arguments to trees and collects the keys that they refer to.
type pyWriter struct {
	deps  []Key
	seen  map[Key]bool
	depth int
	eager bool // values are decoded with the pickle, not when a task runs
}

// PyKey returns a key in its Python form: arrays are tuples.
func PyKey(k Key) (pickle.Value, error) {
	v, err := msgpack.Decode([]byte(k))
	if err != nil {
		return nil, &SpecError{Reason: "a key", Err: err}
	}
	return toTuples(v), nil
}

func toTuples(v any) pickle.Value {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make(pickle.Tuple, len(list))
	for i, x := range list {
		out[i] = toTuples(x)
	}
	return out
}

// argument is implemented by arguments of typed calls: Future, Node, Ref, Val, List, Dict.
type argument interface{ AppendArg(b *Builder) error }

// plainArg is an argument that contains Go values, or other arguments.
type plainArg interface{ plain() any }

func (a val[T]) plain() any  { return a.v }
func (a list[T]) plain() any { return []Arg[T](a) }
func (a dict[T]) plain() any { return map[string]Arg[T](a) }

func (w *pyWriter) value(v any) (pyValue, error) {
	if w.depth++; w.depth > maxDepth {
		return pyValue{}, &EncodeError{Type: reflect.TypeOf(v), Reason: tooDeep}
	}
	defer func() { w.depth-- }()
	switch x := v.(type) {
	case nil:
		return pyValue{}, nil
	case plainArg:
		return w.value(x.plain())
	case argument:
		return w.reference(x)
	case *wire.NDArray, *wire.DeviceArray, *wire.Object, *wire.Serialized:
		if reflect.ValueOf(v).IsNil() {
			return pyValue{}, nil
		}
		return w.lazyFrames(v)
	case pickle.Scalar, *pickle.Object, *pickle.Array, pickle.Global:
		return w.lazyPickle(v)
	case *big.Int, *big.Rat, *wire.Exception, wire.Date, wire.NaiveTime, wire.TimeOfDay, wire.ByteArray,
		pickle.TimeDelta, pickle.Timezone, pickle.Decimal, pickle.UUID, pickle.Path, pickle.Range:
		return leaf(x)
	case wire.Tuple:
		items, err := w.items(x)
		if items.lazy() {
			return pyValue{pickle.NewTaskTuple(items.trees()...), true}, err
		}
		return pyValue{pickle.Tuple(items.trees()), false}, err
	case wire.Set:
		items, err := w.items(x)
		if items.lazy() {
			return pyValue{pickle.NewTaskSet(items.trees()...), true}, err
		}
		return pyValue{&pickle.Set{Items: items.trees()}, false}, err
	case wire.Dict:
		return w.pairs(x)
	}
	if hasCodec(reflect.TypeOf(v)) {
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			return pyValue{}, nil
		}
		return w.lazyFrames(v)
	}
	if a := numberArray(v); a != nil {
		return w.lazyFrames(a)
	}
	return w.kind(reflect.ValueOf(v))
}

// reference returns the result of a task as an argument.
func (w *pyWriter) reference(a argument) (pyValue, error) {
	var b Builder
	if err := a.AppendArg(&b); err != nil {
		return pyValue{}, err
	}
	if len(b.deps) != 1 || len(b.args) == 0 || b.args[0] != nodeRef { // a Ref that holds a value
		if r, ok := a.(interface{ refValue() any }); ok {
			return w.value(r.refValue())
		}
		return pyValue{}, &EncodeError{Type: reflect.TypeOf(a), Reason: "not an argument for a Python function; " +
			"use a value or a future"}
	}
	k := b.deps[0]
	if !w.seen[k] {
		w.seen[k] = true
		w.deps = append(w.deps, k)
	}
	key, err := PyKey(k)
	return pyValue{pickle.NewTaskRef(key), true}, err
}

func (r Ref[T]) refValue() any { return r.value }

// lazyFrames returns a value in the frames of its family, which the worker decodes, so that schedulers need neither
// numpy nor pyarrow.
func (w *pyWriter) lazyFrames(v any) (pyValue, error) {
	s, ok := v.(*wire.Serialized)
	if !ok {
		var err error
		if s, err = encodeWire(v); err != nil {
			return pyValue{}, err
		}
	}
	h, err := msgpack.Decode(s.Header)
	if err != nil {
		return pyValue{}, &EncodeError{Type: reflect.TypeOf(v), Reason: err.Error()}
	}
	if d, ok := h.(wire.Dict); ok {
		if c, _ := d.Get("compression"); isCompressed(c) {
			return pyValue{}, &EncodeError{Type: reflect.TypeOf(v), Reason: "frames are compressed; decode it first"}
		}
	}
	var header pyWriter
	tree, err := header.value(h)
	if err != nil {
		return pyValue{}, err
	}
	frames := make([]pickle.Value, len(s.Frames))
	for i, f := range s.Frames {
		if f.OnDevice() {
			return pyValue{}, &EncodeError{Type: reflect.TypeOf(v), Reason: "the value is in GPU memory; scatter it " +
				"and pass the future"}
		}
		if frames[i] = f.Bytes(); f.Len() == 0 {
			frames[i] = []byte{}
		}
	}
	open := pickle.Global{Module: "distributed.protocol.serialize", Name: "merge_and_deserialize"}
	if w.eager {
		return pyValue{pickle.Call(open, tree.tree, &pickle.List{Items: frames}), false}, nil
	}
	return pyValue{pickle.NewTask(nil, open, tree.tree, &pickle.List{Items: frames}), true}, nil
}

func isCompressed(v any) bool {
	list, _ := v.([]any)
	for _, x := range list {
		if _, ok := x.(string); ok {
			return true
		}
	}
	return false
}

// lazyPickle returns a value whose class may be known only to workers.
func (w *pyWriter) lazyPickle(v any) (pyValue, error) {
	if w.eager {
		return pyValue{v, false}, nil
	}
	data, err := pickle.Dump(v)
	if err != nil {
		return pyValue{}, &EncodeError{Type: reflect.TypeOf(v), Reason: err.Error()}
	}
	return pyValue{pickle.NewTask(nil, pickle.Global{Module: "pickle", Name: "loads"}, data), true}, nil
}

func leaf(v any) (pyValue, error) {
	switch x := v.(type) {
	case wire.ByteArray:
		return pyValue{&pickle.ByteArray{Data: x}, false}, nil
	case *big.Int:
		if x == nil {
			return pyValue{}, nil
		}
	case *big.Rat:
		if x == nil {
			return pyValue{}, nil
		}
	}
	return pyValue{v, false}, nil
}

// kind converts types that are encoded by their kind.
func (w *pyWriter) kind(v reflect.Value) (pyValue, error) {
	t := v.Type()
	if t == timeType {
		return plainTree(v)
	}
	if pt := reflect.PointerTo(t); t.Kind() != reflect.Pointer && pt.Implements(marshalerType) &&
		pt.Implements(unmarshalerType) {
		return plainTree(v)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return pyValue{}, nil
		}
		return w.value(v.Elem().Interface())
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && v.IsNil() || t.Elem().Kind() == reflect.Uint8 {
			return plainTree(v)
		}
		items := make(pyList, v.Len())
		for i := range items {
			x, err := w.value(v.Index(i).Interface())
			if err != nil {
				return pyValue{}, inPath(err, fmt.Sprintf("[%d]", i))
			}
			items[i] = x
		}
		return pyValue{items.node(), items.lazy()}, nil
	case reflect.Map:
		if v.IsNil() {
			return pyValue{}, nil
		}
		var d wire.Dict
		for _, k := range sortedMapKeys(v) {
			d = append(d, wire.Pair{Key: k.Interface(), Value: v.MapIndex(k).Interface()})
		}
		return w.pairs(d)
	case reflect.Struct:
		fields, err := fieldsOf(t)
		if err != nil {
			return pyValue{}, err
		}
		d := make(wire.Dict, len(fields))
		for i, f := range fields {
			d[i] = wire.Pair{Key: f.name, Value: v.Field(f.index).Interface()}
		}
		return w.pairs(d)
	}
	return plainTree(v)
}

func plainTree(v reflect.Value) (pyValue, error) {
	tree, err := toTree(v, 0)
	return pyValue{tree, false}, err
}

func (w *pyWriter) pairs(pairs wire.Dict) (pyValue, error) {
	d, lazy := new(pickle.Dict), false
	for _, p := range pairs {
		k, err := w.value(p.Key)
		if err != nil {
			return pyValue{}, err
		}
		switch key := k.tree.(type) {
		case *pickle.List: // an array: Python keys are tuples
			k.tree = pickle.Tuple(key.Items)
		case *pickle.Dict:
			if k.tree, err = keyTree(reflect.ValueOf(p.Key), w.depth); err != nil {
				return pyValue{}, err
			}
		}
		x, err := w.value(p.Value)
		if err != nil {
			return pyValue{}, inPath(err, fmt.Sprintf("[%v]", p.Key))
		}
		d.Set(k.tree, x.tree)
		lazy = lazy || k.lazy || x.lazy
	}
	return dictNode(d, lazy), nil
}

func (w *pyWriter) items(list []any) (pyList, error) {
	out := make(pyList, len(list))
	for i, a := range list {
		x, err := w.value(a)
		if err != nil {
			return nil, inPath(err, fmt.Sprintf("[%d]", i))
		}
		out[i] = x
	}
	return out, nil
}

// pyList is a list of arguments.
type pyList []pyValue

func (l pyList) lazy() bool {
	for _, x := range l {
		if x.lazy {
			return true
		}
	}
	return false
}

func (l pyList) trees() []pickle.Value {
	out := make([]pickle.Value, len(l))
	for i, x := range l {
		out[i] = x.tree
	}
	return out
}

// node returns a list: that of Dask if it has lazy values.
func (l pyList) node() pickle.Value {
	if l.lazy() {
		return pickle.NewTaskList(l.trees()...)
	}
	return &pickle.List{Items: l.trees()}
}

func dictNode(d *pickle.Dict, lazy bool) pyValue {
	if lazy {
		return pyValue{pickle.NewTaskDict(d), true}
	}
	return pyValue{d, false}
}
