// Package pygraph splits the graphs that Python clients send most often into tasks, without
// Python: what client.submit sends (an LLGExpr of one Task), what client.map sends
// (distributed.client._MapExpr), and small LLGExpr graphs of plain nodes.
//
// A graph arrives as one pickle. Dask's scheduler executes it, asks the expression for its
// tasks, and pickles each of them for its worker. Split does the same on the inert tree of
// internal/wire/pickle: it finds the function, the arguments and the keys, and writes for each task
// the pickle that a worker opens. What was one object in Python stays one object in each
// task; out-of-band buffers stay out of band. Nothing is executed.
//
//	g, ok, err := pygraph.Split(expr, keys, pygraph.Limits{})
//	switch {
//	case err != nil: // no Python could read it either: tell the client
//	case !ok:        // something that only Python can tell: give it to the materialiser
//	default:         // g.Nodes
//	}
//
// Whatever is not known to be safe is not ok: expressions of other classes, legacy tuples,
// objects with futures inside, iterables that only Python can iterate. Slower is fine,
// different is not.
//
// The tasks of a map share the function and the keyword arguments, so these are written
// once: the run_spec of each task is Spec.Shared followed by Spec.Own. Only the message
// that carries it to a worker holds both in one piece.
package pygraph
