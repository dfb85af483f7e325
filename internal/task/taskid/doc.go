// Package taskid has the names of tasks and of the functions that they call, as the engines of scheduler and worker
// compare them: keys, and the hashes of registries. It does no I/O and imports nothing but internal/wire/msgpack and
// the standard library, so that the engines need no more. Programs use the same types as task.Key and others.
package taskid
