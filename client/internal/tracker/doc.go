// Package tracker is the state of a client: the keys that its futures hold, who waits for them, and the messages that
// the scheduler has yet to get.
//
// One mutex guards keys and messages together, because their order is one: a key that is released and wanted again must
// not be released in the end. It is never held while anything is sent or received. A goroutine of package link empties
// the queue with Take, and hands what the scheduler sends to Receive.
package tracker
