package pygraph

import (
	"math/big"
	"unicode/utf8"

	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
)

// splitMap creates the tasks of client.map. The operands are func, iterables, key, pure, annotations, kwargs and the
// keys, which the client has already computed.
func (s *splitter) splitMap(operands []pickle.Value) (*Graph, error) {
	fn := operands[0]
	iterables, ok := operands[1].(pickle.Tuple)
	if !ok {
		return nil, needsPython("iterables are a %s", pickle.TypeName(operands[1]))
	}
	if a, ok := operands[4].(*pickle.Dict); !ok || a.Len() > 0 {
		return nil, needsPython("a map with annotations of its own")
	}
	keys, ok := sequence(operands[6])
	if !ok {
		return nil, needsPython("keys are a %s", pickle.TypeName(operands[6]))
	}
	kwargs, kwdeps, err := s.kwargs(operands[5])
	if err != nil {
		return nil, err
	}
	columns := make([]column, len(iterables))
	n := keys.Len()
	for i, it := range iterables {
		c, ok := iterable(it)
		if !ok {
			return nil, needsPython("iterating over a %s", pickle.TypeName(it))
		}
		columns[i], n = c, min(n, c.Len())
	}
	if len(columns) == 0 {
		n = 0
	}
	if n > s.lim.Nodes {
		return nil, needsPython("%d tasks", n)
	}
	w, err := pickle.NewTaskWriter(fn, kwargs)
	if err != nil {
		return nil, needsPython("%v", err)
	}
	if err := s.take(len(w.Prefix())); err != nil {
		return nil, err
	}
	f, _ := gotask.FromFunc(fn)
	m := mapper{splitter: s, w: w, columns: columns, kwdeps: kwdeps, goName: f.Name, weak: f.Way == gotask.Name}
	return m.all(keys, n)
}

// mapper writes the tasks of one map.
type mapper struct {
	*splitter
	w       *pickle.TaskWriter
	columns []column
	kwdeps  []pickle.Value
	goName  string
	weak    bool

	args []pickle.Value // of the current task
	refs []pickle.Value
	bufs [][]byte
}

func (m *mapper) all(keys column, n int) (*Graph, error) {
	g := &Graph{Nodes: make([]Node, 0, n), Ordered: true}
	index := make(map[task.Key]int, n)
	for i := range n {
		key := keys.At(i)
		k, err := m.key(key)
		if err != nil {
			return nil, err
		}
		node, err := m.node(k, key, i)
		if err != nil {
			return nil, err
		}
		// Of equal keys the last one is used, at the position of the first, as in a dict.
		at, again := index[k]
		if again {
			g.Nodes[at] = node
			continue
		}
		index[k] = len(g.Nodes)
		g.Nodes = append(g.Nodes, node)
	}
	return g, nil
}

// node creates the task of row i.
func (m *mapper) node(k task.Key, key pickle.Value, i int) (Node, error) {
	m.args, m.refs, m.bufs = m.args[:0], append(m.refs[:0], m.kwdeps...), nil
	for _, c := range m.columns {
		node, deps, err := m.in.parse(c.At(i))
		if err != nil {
			return Node{}, err
		}
		m.args, m.refs = append(m.args, node), append(m.refs, deps...)
	}
	deps, err := m.deps(m.refs)
	if err != nil {
		return Node{}, err
	}
	if len(deps) < len(m.refs) {
		m.refs = distinct(m.refs)
	}
	own, err := m.w.Append(m.mem.room(64+len(k)), key, m.args, m.refs, &m.bufs)
	if err != nil {
		return Node{}, needsPython("%v", err)
	}
	own = m.mem.keep(own)
	if err := m.take(len(own)); err != nil {
		return Node{}, err
	}
	if shared := m.w.Buffers(); len(shared) > 0 {
		m.bufs = append(append(make([][]byte, 0, len(shared)+len(m.bufs)), shared...), m.bufs...)
	}
	return Node{Key: k, Deps: deps, Spec: Spec{Shared: m.w.Prefix(), Own: own, Buffers: m.bufs}, Order: int64(i),
		Go: m.goName, Weak: m.weak}, nil
}

// distinct removes duplicate strings; a Python set removes duplicates of all other keys.
func distinct(refs []pickle.Value) []pickle.Value {
	seen := make(map[string]struct{}, len(refs))
	out := refs[:0]
	for _, r := range refs {
		if text, ok := r.(string); ok {
			if _, there := seen[text]; there {
				continue
			}
			seen[text] = struct{}{}
		}
		out = append(out, r)
	}
	return out
}

// kwargs parses the keyword arguments, which are shared by all tasks.
func (s *splitter) kwargs(v pickle.Value) (*pickle.Dict, []pickle.Value, error) {
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, nil, needsPython("keyword arguments are a %s", pickle.TypeName(v))
	}
	out := new(pickle.Dict)
	var refs []pickle.Value
	for k, v := range d.All() {
		if _, ok := k.(string); !ok {
			return nil, nil, needsPython("a keyword is a %s", pickle.TypeName(k))
		}
		if !small(v) {
			return nil, nil, needsPython("a large keyword argument, which becomes a task of its own")
		}
		node, deps, err := s.in.parse(v)
		if err != nil {
			return nil, nil, err
		}
		out.Set(k, node)
		refs = append(refs, deps...)
	}
	return out, refs, nil
}

// smallBytes is the maximum size of a keyword argument that is part of each task. Dask converts larger ones, by its own
// estimate, to separate tasks.
const smallBytes = 100_000

// small reports whether Dask would consider v small too: its estimate is never below Dask's for values in pickles.
func small(v pickle.Value) bool {
	left := smallBytes
	pickle.Walk(v, func(n pickle.Value) bool {
		left -= 96
		switch x := n.(type) {
		case string:
			left -= 4 * len(x)
		case []byte:
			left -= len(x)
		case *pickle.ByteArray:
			left -= len(x.Data)
		case *pickle.Buffer:
			left -= len(x.Data)
		case *big.Int:
			left -= x.BitLen() / 6
		case *pickle.List:
			left -= 16 * len(x.Items)
		case pickle.Tuple:
			left -= 16 * len(x)
		case *pickle.Set:
			left -= 256 * len(x.Items)
		case *pickle.FrozenSet:
			left -= 256 * len(x.Items)
		case *pickle.Dict:
			left -= 256 * x.Len()
		case *pickle.Object:
			left -= 256 + 64*len(x.Steps)
		}
		return left > 0
	})
	return left > 0
}

// column is the sequence of values of one parameter of a map.
type column interface {
	Len() int
	At(i int) pickle.Value
}

type (
	items  []pickle.Value
	chars  []string
	octets []byte
	span   struct {
		start, step int64
		n           int
	}
)

func (c items) Len() int               { return len(c) }
func (c items) At(i int) pickle.Value  { return c[i] }
func (c chars) Len() int               { return len(c) }
func (c chars) At(i int) pickle.Value  { return c[i] }
func (c octets) Len() int              { return len(c) }
func (c octets) At(i int) pickle.Value { return int64(c[i]) }
func (c span) Len() int                { return c.n }
func (c span) At(i int) pickle.Value   { return c.start + int64(i)*c.step }

// sequence reads a list or tuple.
func sequence(v pickle.Value) (column, bool) {
	switch x := v.(type) {
	case *pickle.List:
		return items(x.Items), true
	case pickle.Tuple:
		return items(x), true
	}
	return nil, false
}

// iterable reads a value that Go can iterate over in the order of Python. The order of a set, for example, is unknown.
func iterable(v pickle.Value) (column, bool) {
	switch x := v.(type) {
	case string:
		if !utf8.ValidString(x) {
			return nil, false
		}
		list := make(chars, 0, len(x))
		for _, r := range x {
			list = append(list, string(r))
		}
		return list, true
	case []byte:
		return octets(x), true
	case *pickle.Dict:
		list := make(items, 0, x.Len())
		for k := range x.All() {
			list = append(list, k)
		}
		return list, true
	case *pickle.Object:
		return rangeOf(x)
	}
	return sequence(v)
}

// maxRange keeps the numbers of a range and their differences within an int64.
const maxRange = 1 << 62

// rangeOf reads range(start, stop, step).
func rangeOf(o *pickle.Object) (column, bool) {
	g, _ := o.Class()
	if o.Kind != pickle.Reduce || len(o.Steps) > 0 || len(o.Args) != 3 || !g.Is("builtins", "range") {
		return nil, false
	}
	var n [3]int64
	for i, a := range o.Args {
		x, ok := a.(int64)
		if !ok || x >= maxRange || x <= -maxRange {
			return nil, false
		}
		n[i] = x
	}
	start, stop, step := n[0], n[1], n[2]
	var count int64
	switch {
	case step > 0 && stop > start:
		count = (stop-start-1)/step + 1
	case step < 0 && stop < start:
		count = (start-stop-1)/-step + 1
	case step == 0:
		return nil, false
	}
	return span{start, step, int(count)}, true
}
