// Package task has the definitions that client, scheduler and worker share: keys, the registry of functions, encoded
// calls and values.
//
// # Functions
//
// Functions are registered under a name at package level, in every process of a cluster; processes with equal Hash have
// the same functions. Programs register them with Func of package client or of the root package. A Builder encodes a
// call, ParseCall and Call.Run run it:
//
//	var inc = task.Register1("inc", func(ctx context.Context, x int) (int, error) { return x + 1, nil })
//
//	var b task.Builder
//	b.Begin(inc)
//	task.NewParam[int]().Arg(&b, task.Val(41))
//	spec := b.Append(nil)
//
//	c, err := task.ParseCall(spec)
//	v, err := c.Run(ctx, nil) // 42
//
// Arguments may refer to results of other tasks: directly (RefTo), in lists and maps (List, Dict) and in fields of type
// Ref at any depth. Call.Deps has their keys, and Run takes their values in the same order.
//
// # Values
//
// A Value is a result as a worker stores it: the live Go value, and its frames once they are needed. Go values with a
// Python equivalent are encoded as such; others are pickled dicts and lists with "go-type" in the header.
//
// # Graphs
//
// Package taskgraph encodes the graphs that a Go client sends as expr_ser of update-graph, and decodes them.
//
// # Untrusted input
//
// Specs, values and graphs may come from any peer: decoding allocates only for received bytes, nesting is bounded, and
// only registered functions are executed.
package task
