package pickle

import "fmt"

// TaskWriter writes many of Dask's tasks that call one function with the same keyword arguments, like those of a map.
// Each is a separate pickle, but all begin with the same bytes, which contain the function and the keyword arguments:
// Prefix. Append writes the rest.
//
// Objects that the arguments of a task share with the function are one object in Python too, as if both were written by
// one Append.
//
// It must be used by one goroutine.
type TaskWriter struct {
	prefix  []byte
	buffers [][]byte
	memo    map[any]int
	places  int
	fn      int // places of the memo
	kwargs  int
}

// taskNodes bounds the output beyond a multiple of the nodes of a task.
const taskNodes = 1 << 16

// NewTaskWriter writes the prefix. kwargs may be nil. The pickles have protocol 5, and Buffer values are out of band.
func NewTaskWriter(fn Value, kwargs *Dict) (*TaskWriter, error) {
	if kwargs == nil {
		kwargs = new(Dict)
	}
	t := new(TaskWriter)
	w := writer{b: []byte{opProto, 5}, opts: Options{Protocol: 5, Buffers: &t.buffers,
		Depth: Limits{}.withDefaults().Depth}, budget: taskNodes}
	// Everything is remembered: it is not known yet what the tasks share with it.
	w.cyclic, w.shared = true, make(map[any]bool)
	w.shared[nil] = true
	w.count(Tuple{fn, kwargs})
	for _, part := range []struct {
		v     Value
		place *int
	}{{fn, &t.fn}, {kwargs, &t.kwargs}} {
		if err := w.value(part.v); err != nil {
			return nil, fmt.Errorf("pickle: %w", err)
		}
		// It may be in the memo already, and not on top of it; a number never is.
		*part.place = w.places
		w.places++
		w.op(opMemoize)
		w.op(opPop)
	}
	w.string(taskModule)
	w.string("Task")
	w.op(opStackGlobal)
	w.op(opEmptyTuple)
	w.op(opNewObj)
	w.op(opMark)
	w.op(opNewFalse) // _data_producer
	t.prefix, t.memo, t.places = w.b, w.memo, w.places
	return t, nil
}

// Prefix returns the common beginning of all pickles. It must not be modified.
func (t *TaskWriter) Prefix() []byte { return t.prefix }

// Buffers returns the out-of-band buffers of the prefix. Those of a task follow them.
func (t *TaskWriter) Buffers() [][]byte { return t.buffers }

// Append appends the rest of the pickle of the task key = fn(*args, **kwargs), which needs deps. Buffers of args are
// appended to buffers, which may be nil if they have none. After an error dst has its previous length.
func (t *TaskWriter) Append(dst []byte, key Value, args, deps []Value, buffers *[][]byte) ([]byte, error) {
	w := writer{b: dst, opts: Options{Protocol: 5, Buffers: buffers, Depth: Limits{}.withDefaults().Depth},
		budget: taskNodes, base: t.memo, places: t.places}
	for _, v := range args {
		if isContainer(v) && !isSimpleRef(v) {
			w.count(Tuple(args))
			break
		}
	}
	if err := w.taskState(t, key, args, deps); err != nil {
		return dst, fmt.Errorf("pickle: %w", err)
	}
	return w.b, nil
}

// taskState writes the slots of a Task after the first, in the order of their names.
func (w *writer) taskState(t *TaskWriter, key Value, args, deps []Value) error {
	w.op(opMark)
	for _, d := range deps {
		if err := w.value(d); err != nil {
			return err
		}
	}
	w.op(opFrozenSet) // _dependencies
	w.op(opNone)      // _is_coro
	w.op(opNone)      // _repr
	w.op(opNone)      // _token
	if err := w.tuple(Tuple(args)); err != nil {
		return err
	}
	w.get(t.fn)
	if err := w.value(key); err != nil {
		return err
	}
	w.get(t.kwargs)
	w.op(opTuple)
	w.op(opBuild)
	w.op(opStop)
	return nil
}

// isSimpleRef reports whether a node is a reference by a plain key, for which a search for shared nodes is not
// worthwhile.
func isSimpleRef(v Value) bool {
	o, ok := v.(*Object)
	if !ok || o.Kind != Reduce || len(o.Steps) > 0 || len(o.Args) > 2 {
		return false
	}
	if g, _ := o.Func.(Global); g.Module != taskModule {
		return false
	}
	for _, a := range o.Args {
		if _, ok := a.(string); !ok {
			return false
		}
	}
	return true
}

// isContainer reports whether a node has children.
func isContainer(v Value) bool {
	switch v.(type) {
	case *List, Tuple, *Dict, *Set, *FrozenSet, *Object, *PersistentID:
		return true
	}
	return false
}
