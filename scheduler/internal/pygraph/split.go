package pygraph

import (
	"errors"
	"fmt"
	"io"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/internal/wire/pickled"
	"go.millstream.dev/wire"
)

// Names of Dask's that an expression may be made of.
var (
	reconstruct = pickle.Global{Module: "dask._expr", Name: "Expr._reconstruct"}
	llgExpr     = pickle.Global{Module: "dask._expr", Name: "LLGExpr"}
	mapExpr     = pickle.Global{Module: "distributed.client", Name: "_MapExpr"}
)

// taskModule is where the nodes of Dask's graphs live.
const taskModule = "dask._task_spec"

// errDoubt ends a Split that cannot be sure. It does not leave this package.
var errDoubt = errors.New("only Python can tell")

// doubt says what Python has to decide, for tests and people who look for lost speed.
func doubt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errDoubt, fmt.Sprintf(format, args...))
}

// Split makes tasks of the expression that a client sent as expr_ser of an update-graph.
// keys are those that the client wants; an LLGExpr is culled to what they need.
//
// ok is false where only Python can tell what the expression means. The error is for bytes
// that are no pickle: Python would refuse them too.
func Split(expr *wire.Serialized, keys []task.Key, lim Limits) (g *Graph, ok bool, err error) {
	g, err = split(expr, keys, lim.withDefaults())
	switch {
	case errors.Is(err, errDoubt):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return g, true, nil
}

func split(expr *wire.Serialized, keys []task.Key, lim Limits) (*Graph, error) {
	p, err := pickled.Of(expr, untrusted)
	if err != nil {
		return nil, fmt.Errorf("the graph cannot be read: %w", err)
	}
	size := len(p.Data)
	tree, err := pickled.Tree(p, pickle.Limits{Nodes: lim.Values, Memo: lim.Values})
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("the graph is a pickle that ends too early: %w", err)
		}
		// Beyond a limit, or something that Python's unpickler may yet know.
		return nil, doubt("%v", err)
	}
	s := splitter{lim: lim, left: lim.Bytes + 2*size, in: inputs{deps: lim.Values / 4}}
	o, isObject := tree.(*pickle.Object)
	if !isObject || o.Kind != pickle.Reduce || len(o.Steps) > 0 || o.Func != pickle.Value(reconstruct) ||
		len(o.Args) < 3 {
		return nil, doubt("a %s is no expression", pickle.TypeName(tree))
	}
	// Expr._reconstruct(class, *operands, token, cache)
	if cache, isDict := o.Args[len(o.Args)-1].(*pickle.Dict); !isDict || cache.Len() > 0 {
		return nil, doubt("an expression with cached properties")
	}
	operands := o.Args[1 : len(o.Args)-2]
	var g *Graph
	switch {
	case o.Args[0] == pickle.Value(llgExpr) && len(operands) == 1:
		if err = s.survey(tree); err == nil {
			g, err = s.lowLevel(operands[0], keys)
		}
	case o.Args[0] == pickle.Value(mapExpr) && len(operands) == 7:
		if err = s.survey(tree); err == nil {
			g, err = s.mapped(operands)
		}
	default:
		err = doubt("an expression of %s", pickle.TypeName(o.Args[0]))
	}
	if err != nil {
		return nil, err
	}
	g.Globals, g.Code = s.globals, s.code
	return g, nil
}

// splitter is one Split.
type splitter struct {
	lim  Limits
	left int // bytes that may still be written
	mem  arena
	in   inputs

	globals []string
	code    bool
}

// take counts what is written.
func (s *splitter) take(n int) error {
	if s.left -= n; s.left < 0 {
		return doubt("the tasks are larger than %d bytes together (Limits.Bytes)", s.lim.Bytes)
	}
	return nil
}
