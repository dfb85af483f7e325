// Package hooks calls optional methods of comms: what the backends of this module have beyond the interface comm.Comm.
package hooks

import "go.millstream.dev/comm"

// Notifier is implemented by comms that call a function at their end. It saves a goroutine
// per comm where thousands are open.
type Notifier interface {
	// AfterDone calls f once, when Done is closed, or at once if it already is. f must
	// return quickly. A second call replaces f.
	AfterDone(f func())
}

// AfterDone calls f once when c has ended, also if it ended before. f must return quickly
// and must not call methods of c.
func AfterDone(c comm.Comm, f func()) {
	if n, ok := c.(Notifier); ok {
		n.AfterDone(f)
		return
	}
	go func() {
		<-c.Done()
		f()
	}()
}

// Receiver is implemented by comms that count the bytes that arrive.
type Receiver interface {
	// Received returns the number of bytes that the peer has sent so far, including those of a
	// message that is still being read. Any goroutine may call it.
	Received() int64
}

// Received returns the number of bytes that have arrived on c so far; 0 if c does not count them.
func Received(c comm.Comm) int64 {
	if r, ok := c.(Receiver); ok {
		return r.Received()
	}
	return 0
}
