package pygraph

import (
	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// lowLevel creates the tasks of an LLGExpr: {key: node}. client.submit sends one with one Task.
func (s *splitter) lowLevel(operand pickle.Value, wanted []task.Key) (*Graph, error) {
	d, ok := operand.(*pickle.Dict)
	if !ok {
		return nil, needsPython("the graph is a %s", pickle.TypeName(operand))
	}
	if d.Len() > s.lim.Nodes {
		return nil, needsPython("%d tasks", d.Len())
	}
	plain := make([]plainNode, 0, d.Len())
	index := make(map[task.Key]int, d.Len())
	for key, v := range d.All() {
		n, err := s.plain(key, v)
		if err != nil {
			return nil, err
		}
		if n.task.Class == "Alias" && n.target == n.key {
			continue // an alias of itself: the task is in another graph
		}
		if _, again := index[n.key]; again {
			return nil, needsPython("key %s twice", n.key) // distinct in Python, equal as keys
		}
		index[n.key] = len(plain)
		plain = append(plain, n)
	}
	needed := cull(plain, index, wanted)
	g := &Graph{Ordered: d.Len() == 1}
	for i := range plain {
		if !needed[i] {
			continue
		}
		n, err := s.emit(&plain[i])
		if err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, n)
	}
	return g, nil
}

// plainNode is a parsed node of an LLGExpr.
type plainNode struct {
	key    task.Key
	deps   []task.Key
	target task.Key // of an Alias
	task   *pickle.Task
}

// plain reads a node. Only known classes are accepted, in exactly the form in which Dask pickles them.
func (s *splitter) plain(key, v pickle.Value) (n plainNode, err error) {
	if n.key, err = s.key(key); err != nil {
		return n, err
	}
	o, ok := v.(*pickle.Object)
	if !ok {
		return n, needsPython("%s is a %s", n.key, pickle.TypeName(v))
	}
	g, _ := o.Class()
	if g.Module != taskModule {
		return n, needsPython("%s is a %s", n.key, pickle.TypeName(v))
	}
	switch g.Name {
	case "Task":
		state, ok := o.State()
		slots, isTuple := state.(pickle.Tuple)
		if !ok || !isTuple || len(slots) != 9 || o.Kind != pickle.NewObj || len(o.Args) > 0 || o.Kwargs != nil ||
			len(o.Steps) != 1 {
			return n, needsPython("%s is a Task of another layout", n.key)
		}
		if _, ok := slots[1].(*pickle.FrozenSet); !ok {
			return n, needsPython("the dependencies of %s are a %s", n.key, pickle.TypeName(slots[1]))
		}
	case "Alias", "DataNode":
		if o.Kind != pickle.Reduce || len(o.Args) != 2 || len(o.Steps) > 0 {
			return n, needsPython("%s is a %s of another layout", n.key, g.Name)
		}
	default:
		return n, needsPython("%s is a %s", n.key, g.Name)
	}
	if n.task, ok = pickle.AsTask(o); !ok {
		return n, needsPython("%s cannot be read", n.key)
	}
	own, err := s.key(n.task.Key)
	if err != nil {
		return n, err
	}
	if own != n.key {
		return n, needsPython("%s stands under the key %s", own, n.key)
	}
	if n.deps, err = s.deps(n.task.Dependencies); err != nil {
		return n, err
	}
	if g.Name == "Alias" {
		n.target = n.deps[0]
	}
	return n, nil
}

// cull finds the nodes that the wanted keys depend on.
func cull(nodes []plainNode, index map[task.Key]int, wanted []task.Key) []bool {
	needed := make([]bool, len(nodes))
	todo := make([]int, 0, len(nodes))
	add := func(keys []task.Key) {
		for _, k := range keys {
			if i, ok := index[k]; ok && !needed[i] {
				needed[i] = true
				todo = append(todo, i)
			}
		}
	}
	add(wanted)
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		add(nodes[i].deps)
	}
	return needed
}

// emit writes the pickle of a node unchanged.
func (s *splitter) emit(n *plainNode) (Node, error) {
	var bufs [][]byte
	spec, err := pickle.Append(s.mem.room(512), n.task.Node,
		pickle.Options{Protocol: 5, Buffers: &bufs, Nodes: 1 << 16})
	if err != nil {
		return Node{}, needsPython("%v", err)
	}
	spec = s.mem.keep(spec)
	if err := s.take(len(spec)); err != nil {
		return Node{}, err
	}
	out := Node{Key: n.key, Deps: n.deps, Spec: Spec{Own: spec, Buffers: bufs}, Producer: n.task.DataProducer ||
		n.task.Class == "DataNode"}
	// The worker reports a Go function that cannot be called with these arguments.
	if call, err := gotask.FromTask(n.task); err == nil && call != nil {
		out.Go, out.Weak = call.Name, call.Weak
	}
	return out, nil
}
