package rpc

import (
	"context"
	"errors"
	"slices"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// ReaderConfig configures a Reader. The zero value delivers batches without a limit.
type ReaderConfig struct {
	// Credits is the maximum number of delivered batches that have not been released: beyond it the stream is not read,
	// which applies back-pressure to the peer. 0 is without a limit.
	Credits int
	// Owner, if not nil, releases the batches. Its end ends Run.
	Owner interface {
		// Done returns a channel that is closed when the owner has ended; ClosedError returns the error of Run then.
		Done() <-chan struct{}
		ClosedError() error
	}
}

// Reader reads a stream of messages from one peer in batches. It is the counterpart of a Writer.
type Reader struct {
	comm    comm.Comm
	cfg     ReaderConfig
	credits chan struct{} // holds a token for each batch that is not released; nil without a limit
	ended   <-chan struct{}
	ahead   []readAhead
	closed  bool // the comm ended Run
}

// readAhead is the result of a Read of the comm that Run has not processed yet.
type readAhead struct {
	m   *wire.Message
	err error
}

// NewReader returns a Reader on a comm, which reads nothing before Run.
func NewReader(c comm.Comm, cfg ReaderConfig) *Reader {
	r := &Reader{comm: c, cfg: cfg}
	if cfg.Credits > 0 {
		r.credits = make(chan struct{}, cfg.Credits)
	}
	if cfg.Owner != nil {
		r.ended = cfg.Owner.Done()
	}
	return r
}

// Run passes each batch of the stream to deliver, in order, until the comm or ctx ends, or deliver returns an error. It
// returns the error that ended it; see PeerClosed. A batch has a body in host memory, which is not validated;
// message.ReadOps iterates over it. deliver owns the batch until it is released with Release or Recycle, also if it
// returns an error. Run must be called once, by one goroutine.
func (r *Reader) Run(ctx context.Context, deliver func(*wire.Message) error) error {
	defer r.releaseAhead()
	for {
		m, err := r.next(ctx)
		if err != nil {
			r.closed = errors.Is(err, comm.ErrClosed)
			return err
		}
		if _, err = message.Body(m); err == nil {
			err = r.take(ctx)
		}
		if err != nil {
			m.Release()
			return err
		}
		if err := deliver(m); err != nil {
			return err
		}
	}
}

// PeerClosed reports, after Run, whether the end of the comm ended it.
func (r *Reader) PeerClosed() bool { return r.closed }

// next returns the next batch of the peer.
func (r *Reader) next(ctx context.Context) (*wire.Message, error) {
	if len(r.ahead) == 0 {
		return r.comm.Read(ctx)
	}
	a := r.ahead[0]
	if a.err == nil {
		r.ahead = slices.Delete(r.ahead, 0, 1)
	}
	return a.m, a.err
}

// take waits for a credit.
func (r *Reader) take(ctx context.Context) error {
	if r.credits == nil {
		return nil
	}
	select {
	case r.credits <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ended:
		return r.cfg.Owner.ClosedError()
	}
}

// Release releases a batch. It is safe for concurrent use.
func (r *Reader) Release(m *wire.Message) {
	m.Release()
	r.giveBack()
}

// Recycle releases a batch that is not referenced any more, so that its memory may be reused. It is safe for concurrent
// use.
func (r *Reader) Recycle(m *wire.Message) {
	m.Recycle()
	r.giveBack()
}

func (r *Reader) giveBack() {
	if r.credits != nil {
		<-r.credits
	}
}

// Ahead calls f for each batch that the peer has sent after the one that was delivered last, until the comm ends or
// there are limit of them. Run delivers them later. f may get a batch without a body. Ahead must be called by the
// goroutine of Run, or one that it waits for.
func (r *Reader) Ahead(ctx context.Context, limit int, f func(*wire.Message)) {
	for _, a := range r.ahead {
		if a.err == nil {
			f(a.m)
		}
	}
	for n := len(r.ahead); n == 0 || r.ahead[n-1].err == nil && n < limit; n = len(r.ahead) {
		m, err := r.comm.Read(ctx)
		r.ahead = append(r.ahead, readAhead{m, err})
		if err == nil {
			f(m)
		}
	}
}

// releaseAhead releases batches that were read ahead and not delivered.
func (r *Reader) releaseAhead() {
	for _, a := range r.ahead {
		if a.m != nil {
			a.m.Release()
		}
	}
	r.ahead = nil
}
