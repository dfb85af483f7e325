// Package taskid has the identifiers of tasks and of the functions that they call, which the engines of scheduler and
// worker compare: keys, and the hashes of registries. It does no I/O and imports only internal/wire/msgpack and the
// standard library, so that the engines depend on nothing else. Programs use the same types as task.Key and others.
package taskid
