package pygraph

import (
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// inputs converts arguments to the operands of a Task, as Dask's parse_input does: a future becomes an Alias, and a
// list, tuple, set or dict with a future in it becomes a container of Dask. All other values stay as they are. It
// visits each node once, however often it is shared.
type inputs struct {
	// containers are the visited containers, opaque the nodes below values that are only searched for references.
	containers map[any]*input
	opaque     map[any]struct{}
	// deps is the number of references that may still be added: a few nested lists can name one future 2^100 times.
	deps int
}

// input is a converted argument.
type input struct {
	node pickle.Value
	// deps are the keys that it refers to; without any, node is the argument itself.
	deps []pickle.Value
	open bool // being parsed: finding it again means that it contains itself
}

// parse returns the operand of a Task for v. Scalars take no time and no memory.
func (in *inputs) parse(v pickle.Value) (pickle.Value, []pickle.Value, error) {
	switch x := v.(type) {
	case nil, bool, int64, float64, string, []byte, *pickle.Buffer, *pickle.ByteArray:
		return v, nil, nil
	case pickle.Tuple:
		if len(x) == 0 {
			return v, nil, nil
		}
		return in.container(&x[0], v, x, "Tuple") // the address of the first item identifies the tuple
	case *pickle.List:
		return in.container(x, v, x.Items, "List")
	case *pickle.Set:
		return in.container(x, v, x.Items, "Set")
	case *pickle.Dict:
		return in.dict(x)
	case *pickle.Object:
		if node, dep, ok := reference(x); ok {
			return node, []pickle.Value{dep}, nil
		}
	}
	return v, nil, in.search(v)
}

// reference reads a future, a TaskRef or an Alias.
func reference(o *pickle.Object) (node, dep pickle.Value, ok bool) {
	if o.Kind != pickle.Reduce || len(o.Steps) > 0 || len(o.Args) == 0 {
		return nil, nil, false
	}
	g, _ := o.Class()
	switch {
	case (g.Is("distributed.client", "Future") || g.Is(taskModule, "TaskRef")) && len(o.Args) == 1:
		return pickle.NewAlias(o.Args[0], o.Args[0]), o.Args[0], true
	case g.Is(taskModule, "Alias") && len(o.Args) == 2:
		return o, o.Args[1], true
	}
	return nil, nil, false
}

// container parses the items of a list, tuple or set, identified by id.
func (in *inputs) container(id any, v pickle.Value, items []pickle.Value, class string) (pickle.Value, []pickle.Value,
	error) {
	c, known, err := in.enter(id)
	if known || err != nil {
		return c.node, c.deps, err
	}
	var changed []pickle.Value
	for i, item := range items {
		node, deps, err := in.parse(item)
		if err != nil {
			return nil, nil, err
		}
		if len(deps) > 0 && changed == nil {
			changed = append(make([]pickle.Value, 0, len(items)), items[:i]...)
		}
		if changed != nil {
			changed = append(changed, node)
		}
		if err := in.note(c, deps); err != nil {
			return nil, nil, err
		}
	}
	if c.open, c.node = false, v; changed != nil {
		c.node = pickle.Call(pickle.Global{Module: taskModule, Name: class}, changed...)
	}
	return c.node, c.deps, nil
}

// dict parses the values of a dict. Dask does not parse its keys.
func (in *inputs) dict(d *pickle.Dict) (pickle.Value, []pickle.Value, error) {
	c, known, err := in.enter(d)
	if known || err != nil {
		return c.node, c.deps, err
	}
	changed := new(pickle.Dict)
	for k, v := range d.All() {
		if err := in.search(k); err != nil {
			return nil, nil, err
		}
		node, deps, err := in.parse(v)
		if err != nil {
			return nil, nil, err
		}
		changed.Set(k, node)
		if err := in.note(c, deps); err != nil {
			return nil, nil, err
		}
	}
	if c.open, c.node = false, d; len(c.deps) > 0 {
		c.node = pickle.Call(pickle.Global{Module: taskModule, Name: "Dict"}, changed)
	}
	return c.node, c.deps, nil
}

// note adds the references of an item.
func (in *inputs) note(c *input, deps []pickle.Value) error {
	if in.deps -= len(deps); in.deps < 0 {
		return needsPython("very many references")
	}
	c.deps = append(c.deps, deps...)
	return nil
}

// enter starts parsing a container; known reports whether it was parsed before.
func (in *inputs) enter(id any) (c *input, known bool, err error) {
	if c, ok := in.containers[id]; ok {
		if c.open {
			return c, true, needsPython("an argument that contains itself")
		}
		return c, true, nil
	}
	if in.containers == nil {
		in.containers = make(map[any]*input)
	}
	c = &input{open: true}
	in.containers[id] = c
	return c, false, nil
}

// search checks that a value that stays as it is contains no part of a graph. An object may be a list or a dict of
// another class, which Dask would parse.
func (in *inputs) search(v pickle.Value) error {
	switch v.(type) {
	case nil, bool, int64, float64, string, []byte:
		return nil
	}
	var found error
	pickle.Walk(v, func(n pickle.Value) bool {
		switch x := n.(type) {
		case pickle.Global:
			if x.Module == taskModule || x.Module == "distributed.client" || x.Module == "dask.delayed" {
				found = needsPython("%s inside of a %s", x, pickle.TypeName(v))
			}
		case *pickle.PersistentID:
			found = needsPython("a persistent id")
		case pickle.Tuple:
			if len(x) == 0 {
				return false
			}
			return in.first(&x[0])
		case *pickle.Object, *pickle.List, *pickle.Dict, *pickle.Set, *pickle.FrozenSet:
			return in.first(n)
		}
		return found == nil
	})
	return found
}

// first reports whether a node below an opaque one is visited for the first time.
func (in *inputs) first(id any) bool {
	if _, seen := in.opaque[id]; seen {
		return false
	}
	if in.opaque == nil {
		in.opaque = make(map[any]struct{})
	}
	in.opaque[id] = struct{}{}
	return true
}

// deps returns the keys of a task's dependencies, each once.
func (s *splitter) deps(values []pickle.Value) ([]task.Key, error) {
	if len(values) == 0 {
		return nil, nil
	}
	keys := make([]task.Key, 0, len(values))
	var seen map[task.Key]struct{}
	for _, v := range values {
		k, err := s.key(v)
		if err != nil {
			return nil, err
		}
		if len(values) <= 8 {
			if contains(keys, k) {
				continue
			}
		} else {
			if seen == nil {
				seen = make(map[task.Key]struct{}, len(values))
			}
			if _, there := seen[k]; there {
				continue
			}
			seen[k] = struct{}{}
		}
		if err := s.take(len(k) + 16); err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func contains(keys []task.Key, k task.Key) bool {
	for _, x := range keys {
		if x == k {
			return true
		}
	}
	return false
}
