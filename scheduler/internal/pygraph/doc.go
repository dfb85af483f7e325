// Package pygraph splits the graphs that Python clients send most often into tasks, without Python: those of
// client.submit (an LLGExpr of one Task), of client.map (distributed.client._MapExpr), and small LLGExpr graphs of
// plain nodes.
//
// A graph is one pickle. Dask's scheduler executes it, computes the tasks of the expression, and pickles each of them
// for its worker. Split does the same on the inert tree of internal/wire/pickle: it finds the function, the arguments
// and the keys, and writes for each task the pickle that a worker opens. Objects that are shared in Python stay shared
// within each task; out-of-band buffers stay out of band. Nothing is executed.
//
//	g, ok, err := pygraph.Split(expr, keys, pygraph.Limits{})
//	switch {
//	case err != nil: // invalid in Python, too: report it to the client
//	case !ok:        // only Python can evaluate it: use the materializer
//	default:         // g.Nodes
//	}
//
// ok is false for everything that is not known to be safe: expressions of other classes, legacy tuples, objects that
// contain futures, iterables that only Python can iterate. A slower result is acceptable, a different one is not.
//
// The tasks of a map share the function and the keyword arguments, which are written once: the run_spec of each task is
// Spec.Shared followed by Spec.Own. Only the message to a worker has both in one piece.
package pygraph
