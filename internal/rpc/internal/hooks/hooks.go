// Package hooks calls optional methods of comms: those that the backends of this module have beyond comm.Comm.
package hooks

import (
	"context"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// Notifier is implemented by comms that call a function at their end. It saves a goroutine per comm if thousands are
// open.
type Notifier interface {
	// AfterDone calls f once, when Done is closed, or immediately if it already is. f must return quickly. A second
	// call replaces f.
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

// TryWriter is implemented by comms that can send a message without waiting for the peer.
type TryWriter interface {
	// TryWrite sends a short message, as Write does, if that does not wait: no other Write is in progress and the peer
	// has received nearly everything before it. It reports false if it has sent nothing.
	TryWrite(ctx context.Context, m *wire.Message) (sent bool, err error)
}

// Receiver is implemented by comms that count received bytes.
type Receiver interface {
	// Received returns the number of bytes that the peer has sent so far, including those of a message that is still
	// being read. It is safe for concurrent use.
	Received() int64
}

// Received returns the number of bytes that have arrived on c so far; 0 if c does not count them.
func Received(c comm.Comm) int64 {
	if r, ok := c.(Receiver); ok {
		return r.Received()
	}
	return 0
}
