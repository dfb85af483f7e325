// Package gotask reads how a task of a Python graph names a Go function.
//
// A Dask graph holds Python objects. Some of them stand for a function of Go: they were
// made by the decorator millstream.go, by Millstream's Go client, or by one of the ways that
// need nothing but Dask. Recognise finds out which function it is, and what the arguments
// are; it looks at inert trees of package pickle only, and nothing is executed.
//
// # The ways
//
//	annotation   dask.annotate(go={"fn": "sumsq", "args": [3, 4]}) or go="sumsq", which takes
//	             the task's own arguments
//	namespace    client.submit(types.SimpleNamespace, go="sumsq", args=[3, 4])
//	module       a global of a module gotask: gotask.sumsq
//	name         a function of __main__, which travels with its code, called go_sumsq
//	stub         @millstream.go("sumsq"), see Stub
//	encoded      what a Go client writes for its own functions, see NewTask
//
// A name alone is weak evidence: a Python program may have a function go_home that means
// nothing of the kind. Call.Weak says so, and whoever asks then looks at the registry.
package gotask
