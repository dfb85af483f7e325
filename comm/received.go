package comm

// Receiver is implemented by comms that count the bytes that arrive.
type Receiver interface {
	// Received returns the number of bytes that the peer has sent so far, including those of a
	// message that is still being read. Any goroutine may call it.
	Received() int64
}

// Received returns the number of bytes that have arrived on c so far; 0 if c does not count them.
func Received(c Comm) int64 {
	if r, ok := c.(Receiver); ok {
		return r.Received()
	}
	return 0
}
