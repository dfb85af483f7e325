// Package trace converts histories of package spans to and from other formats: the JSON of Chrome's trace viewer, which
// Perfetto reads, too, and, in package arrowtrace, Arrow.
//
// In a trace, workers are processes and rows are threads, with metadata events for their names; spans are complete
// events ("ph":"X") with the key, bytes, peer and transport as arguments.
package trace
