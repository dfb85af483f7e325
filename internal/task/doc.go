// Package task has what client, scheduler and worker must agree on: keys, the registry of
// functions, encoded calls, values and graphs.
//
// # Functions
//
// Functions are registered under a name at package level, by every process of a cluster;
// Hash tells whether two processes have the same ones. Users do it with package client's or
// package millstream's Func. A call is written by a Builder and run by ParseCall and
// Call.Run:
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
// Arguments may refer to results of other tasks: themselves (RefTo), in lists and maps (List,
// Dict) and in fields of type Ref at any depth. Call.Deps lists their keys, and Run takes
// their values in the same order.
//
// # Values
//
// A Value is a result as a worker keeps it: the live Go value, and its frames when somebody
// asks for them. Go values that Python has too are encoded as such; others are pickled dicts
// and lists with "go-type" in the header.
//
// # Graphs
//
// GraphWriter makes what a Go client sends as update-graph's expr_ser, and GraphReader walks
// over it.
//
// # Hostile bytes
//
// Specs, values and graphs may come from anyone: reading them allocates for bytes that are
// there, nesting is bounded, and nothing is executed but registered functions.
package task
