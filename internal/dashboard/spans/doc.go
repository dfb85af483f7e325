// Package spans keeps the history of a cluster, stretches of time in which a thread of a worker executed a task, or a
// worker moved data, and paints pictures of it: the store behind the task stream of the dashboard.
//
// The scheduler fills a Batch without locks and hands it over; a goroutine of the Store gives each span a row and
// appends it to a block. Times are kept in microseconds since the origin of the history.
package spans
