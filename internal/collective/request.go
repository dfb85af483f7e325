package collective

import "context"

// Request is an operation under way, returned by the Start functions. Its buffers are borrowed until Done is
// closed. All methods are safe for any number of goroutines.
type Request struct {
	done chan struct{}
	n    int
	err  error // written before done is closed
}

func newRequest() *Request { return &Request{done: make(chan struct{})} }

func (r *Request) finish(n int, err error) {
	r.n, r.err = n, err
	close(r.done)
}

// Done is closed when the operation has ended.
func (r *Request) Done() <-chan struct{} { return r.done }

// Err is nil while the operation is under way and when it succeeded.
func (r *Request) Err() error {
	select {
	case <-r.done:
		return r.err
	default:
		return nil
	}
}

// Len is the length in bytes of what a finished Recv has received.
func (r *Request) Len() int {
	select {
	case <-r.done:
		return r.n
	default:
		return 0
	}
}

// Wait waits for the end of the operation and returns its error. When ctx ends first only the waiting ends:
// the operation is bound by the context that it was started with.
func (r *Request) Wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	default:
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
