// Package tracker holds the state of a client: the keys of its futures, the goroutines that wait for them, and the
// messages that have not been sent to the scheduler.
//
// One mutex guards keys and messages together, because their order matters: a key that is released and requested again
// must not be released in the end. The mutex is never held while a message is sent or received. A goroutine of package
// link empties the queue with Take, and passes the messages of the scheduler to Receive.
package tracker
