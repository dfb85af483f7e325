package comm

// Notifier is implemented by comms that call a function at their end. It saves a goroutine
// per comm where thousands are open.
type Notifier interface {
	// AfterDone calls f once, when Done is closed, or at once if it already is. f must
	// return quickly. A second call replaces f.
	AfterDone(f func())
}

// AfterDone calls f once when c has ended, also if it ended before. f must return quickly
// and must not call methods of c.
func AfterDone(c Comm, f func()) {
	if n, ok := c.(Notifier); ok {
		n.AfterDone(f)
		return
	}
	go func() {
		<-c.Done()
		f()
	}()
}
