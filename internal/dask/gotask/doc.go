// Package gotask decodes the names of Go functions in tasks of Python graphs.
//
// A Dask graph holds Python objects. Some of them represent a Go function: they were created by the decorator
// millstream.go, by Millstream's Go client, or in one of the ways that only need Dask. Recognize returns the function
// and its arguments; it inspects the inert trees of package pickle, and executes nothing.
//
// # The ways
//
//	annotation   dask.annotate(go={"fn": "sumsq", "args": [3, 4]}) or go="sumsq", which uses
//	             the arguments of the task
//	namespace    client.submit(types.SimpleNamespace, go="sumsq", args=[3, 4])
//	module       a global of a module gotask: gotask.sumsq
//	name         a function of __main__ named go_sumsq, which is sent with its code
//	stub         @millstream.go("sumsq"), see Stub
//	encoded      a call of a Go client, see NewTask
//
// A name alone is weak evidence: a Python program may have a function go_home that is unrelated. Call.Weak reports
// this, and the caller then checks the registry.
package gotask
