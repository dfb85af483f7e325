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

// Session is the worker's stream with one scheduler.
type Session struct {
	// Send sends to the scheduler.
	Send *rpc.Writer
	// Millstream tells that the scheduler is Millstream's, and may come back.
	Millstream bool

	comm    comm.Comm
	in      *rpc.Reader
	failure atomic.Pointer[error]
	over    context.Context // ends with the stream
	end     context.CancelFunc
}

var errOver = errors.New("the session is over")

// maxBatches is how many batches of the scheduler may wait for a turn: behind it the stream is not read, and the
// scheduler notices.
const maxBatches = 64

func newSession(c comm.Comm) *Session {
	s := &Session{comm: c, Send: rpc.NewWriter(c, rpc.WriterConfig{Linger: stream.Linger}),
		Millstream: c.Info().Millstream != nil, in: rpc.NewReader(c, rpc.ReaderConfig{Credits: maxBatches})}
	s.over, s.end = context.WithCancel(context.Background())
	s.Send.Start()
	return s
}

// Fail ends the session because the scheduler speaks another protocol, or closed it. Only the first error counts.
func (s *Session) Fail(err error) {
	s.failure.CompareAndSwap(nil, &err)
	s.comm.Abort()
}

// Over returns a context that ends with the session's stream.
func (s *Session) Over() context.Context { return s.over }

// Read hands the stream's batches over until the stream ends, and returns why it did. Each batch must be given back
// with Release. The session is over then.
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

// Release gives a batch of Read back.
func (s *Session) Release(m *wire.Message) { s.in.Release(m) }
