package registration

import (
	"context"
	"errors"
	"sync/atomic"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/stream"
)

// Session is the stream between the worker and one scheduler.
type Session struct {
	// Send writes messages to the scheduler.
	Send *rpc.Writer
	// Millstream indicates a Millstream scheduler, to which a worker reconnects.
	Millstream bool

	comm    comm.Comm
	in      *rpc.Reader
	failure atomic.Pointer[error]
	over    context.Context // ends with the stream
	end     context.CancelFunc
}

var errOver = errors.New("session closed")

// maxBatches is the maximum number of batches that wait for a turn. With more the stream is not read, which blocks the
// scheduler's sends.
const maxBatches = 64

func newSession(c comm.Comm) *Session {
	s := &Session{comm: c, Send: rpc.NewWriter(c, rpc.WriterConfig{Linger: stream.Linger}),
		Millstream: c.Info().Millstream != nil, in: rpc.NewReader(c, rpc.ReaderConfig{Credits: maxBatches})}
	s.over, s.end = context.WithCancel(context.Background())
	s.Send.Start()
	return s
}

// Fail ends the session after a protocol violation, or because the scheduler closed it. Only the first error counts.
func (s *Session) Fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	s.comm.Abort()
}

// Over returns a context that ends with the stream of the session.
func (s *Session) Over() context.Context { return s.over }

// Read calls deliver with the batches of the stream until the stream ends, and returns the reason. Each batch must be
// released with Release. The session is closed when Read returns.
func (s *Session) Read(ctx context.Context, deliver func(*wire.Message)) error {
	err := s.in.Run(ctx, func(m *wire.Message) error {
		deliver(m)
		return nil
	})
	if f := s.failure.Load(); f != nil {
		err = *f
	}
	s.end()
	s.Send.Abort(errOver)
	<-s.Send.Done()
	return err
}

// Release releases a batch of Read.
func (s *Session) Release(m *wire.Message) { s.in.Release(m) }
