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

// Names of Dask classes and functions in expressions.
var (
	reconstruct = pickle.Global{Module: "dask._expr", Name: "Expr._reconstruct"}
	llgExpr     = pickle.Global{Module: "dask._expr", Name: "LLGExpr"}
	mapExpr     = pickle.Global{Module: "distributed.client", Name: "_MapExpr"}
)

// taskModule is the module of the node classes of Dask graphs.
const taskModule = "dask._task_spec"

// errNeedsPython is returned inside this package for expressions that only Python can evaluate.
var errNeedsPython = errors.New("only Python can evaluate the graph")

// needsPython returns an error with the part that needs Python, for tests and profiling.
func needsPython(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNeedsPython, fmt.Sprintf(format, args...))
}

// Split creates the tasks of the expression that a client sent as expr_ser of an update-graph. keys are those that the
// client requests; an LLGExpr is culled to their dependencies.
//
// ok is false if only Python can evaluate the expression. The error is for data that is not a pickle: Python would
// reject it too.
func Split(expr *wire.Serialized, keys []task.Key, lim Limits) (g *Graph, ok bool, err error) {
	g, err = split(expr, keys, lim.withDefaults())
	switch {
	case errors.Is(err, errNeedsPython):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	return g, true, nil
}

func split(expr *wire.Serialized, keys []task.Key, lim Limits) (*Graph, error) {
	p, err := pickled.Of(expr, untrusted)
	if err != nil {
		return nil, fmt.Errorf("read graph: %w", err)
	}
	size := len(p.Data)
	tree, err := pickled.Tree(p, pickle.Limits{Nodes: lim.Values, Memo: lim.Values})
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("graph is a truncated pickle: %w", err)
		}
		// A limit, or a form that Python's unpickler may support.
		return nil, needsPython("%v", err)
	}
	s := splitter{lim: lim, left: lim.Bytes + 2*size, in: inputs{deps: lim.Values / 4}}
	o, isObject := tree.(*pickle.Object)
	if !isObject || o.Kind != pickle.Reduce || len(o.Steps) > 0 || o.Func != pickle.Value(reconstruct) ||
		len(o.Args) < 3 {
		return nil, needsPython("a %s is not an expression", pickle.TypeName(tree))
	}
	// Expr._reconstruct(class, *operands, token, cache)
	if cache, isDict := o.Args[len(o.Args)-1].(*pickle.Dict); !isDict || cache.Len() > 0 {
		return nil, needsPython("an expression with cached properties")
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
			g, err = s.splitMap(operands)
		}
	default:
		err = needsPython("an expression of %s", pickle.TypeName(o.Args[0]))
	}
	if err != nil {
		return nil, err
	}
	g.Globals, g.Code = s.globals, s.code
	return g, nil
}

// splitter is the state of one Split.
type splitter struct {
	lim  Limits
	left int // bytes that may still be written
	mem  arena
	in   inputs

	globals []string
	code    bool
}

// take counts the written bytes.
func (s *splitter) take(n int) error {
	if s.left -= n; s.left < 0 {
		return needsPython("the tasks are larger than %d bytes together (Limits.Bytes)", s.lim.Bytes)
	}
	return nil
}
