package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
	"go.millstream.dev/wire"
)

const (
	// unmatchedMessages is how many messages a writer may be ahead of the peer's reads. UCX queues small messages
	// without any bound.
	unmatchedMessages = 64
	// receiveAhead bounds the memory that is allocated for frames of one message that have not arrived, or to one frame
	// if that is more; see announced.go for all messages.
	receiveAhead = 64 << 20
	// receiveWindow is how many receives of one message are pending at once.
	receiveWindow = 64
	// giveBack is how long an aborted operation may take to release its memory.
	giveBack = 10 * time.Second
)

// bounds are the limits of received messages.
type bounds struct {
	bytes     int64
	frames    int
	handshake bool // before the handshake is done
	// soon is how long a data connection spins for the message before it sleeps.
	soon time.Duration
	// account counts the announced bytes of the peer; nil: not counted.
	account *account
}

// reserve implements ucx.Allocators.Reserve.
func (b bounds) reserve(ctx context.Context, n int) error { return b.account.reserve(ctx, int64(n)) }

func (b bounds) framesError(n uint64) error {
	return &limitError{what: "frames", got: satAdd(0, n), limit: int64(b.frames), key: "Limits.Frames"}
}

var errNoFrames = errors.New("message without a body")

// errShutdown is returned when the peer has closed cleanly.
var errShutdown = fmt.Errorf("closed by the peer: %w", io.EOF)

// errForm is returned for a message in the other of distributed-ucxx's two forms.
var errForm = errors.New("no message of the expected form: is multi-buffer mode (distributed-ucxx.multi-buffer, " +
	"Settings.MultiBuffer) on at one side only?")

// idleError is returned by a read whose context ended before any data had arrived: the comm stays usable.
type idleError struct{ cause error }

func (e *idleError) Error() string { return e.cause.Error() }
func (e *idleError) Unwrap() error { return e.cause }

// pythonLink moves messages in distributed-ucxx's format.
type pythonLink struct {
	ep           *taggedEndpoint
	multi        bool
	host, device mem.Resource // nil: Go's heap

	// Owner: the current reader of the comm.
	lead    [leadSize]byte
	leading *ucx.Request // receive of the next message's lead; it outlives a read that gave up

	// Owner: the current writer of the comm.
	unmatched []*ucx.Request // leads that the peer may not have begun to receive
}

// view is a frame for one operation.
func view(f wire.Frame) ucx.View {
	if b := f.Buffer(); b != nil {
		return ucx.Buffer(b)
	}
	return ucx.Bytes(f.Bytes())
}

// ready waits for pending writes of GPUs: a send that waits would be overtaken by the next one.
func ready(ctx context.Context, m *wire.Message) error {
	for _, f := range m.Frames {
		if b := f.Buffer(); b != nil {
			if err := b.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut ends the endpoint in the middle of a message and returns err when UCX has released the memory of the operations.
func (l *pythonLink) cut(err error, open []*ucx.Request) error {
	abortEndpoint(l.ep.raw())
	ctx, cancel := context.WithTimeout(context.Background(), giveBack)
	defer cancel()
	for _, r := range open {
		_ = r.Wait(ctx)
	}
	return err
}

// abortEndpoint closes an endpoint without waiting for the peer.
func abortEndpoint(ep *ucx.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = ep.Shutdown(ctx)
}
