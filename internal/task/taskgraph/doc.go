// Package taskgraph implements the format in which Go clients send graphs of tasks to a scheduler: keys, encoded calls
// of package task, dependencies, annotations.
package taskgraph
