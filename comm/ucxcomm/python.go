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
	// unmatchedMessages is how many messages a writer may be ahead of the peer's reads.
	// UCX keeps small messages that nobody has asked for without any bound.
	unmatchedMessages = 64
	// receiveAhead bounds the memory that is allocated for frames of one message that have
	// not come yet, or to one frame where that is more; see announced.go for all messages.
	receiveAhead = 64 << 20
	// receiveWindow is how many receives of one message wait at once.
	receiveWindow = 64
	// giveBack is how long an aborted operation may take to give its memory back.
	giveBack = 10 * time.Second
)

// bounds are what a peer may send.
type bounds struct {
	bytes     int64
	frames    int
	handshake bool // before the handshake is done
	// soon is how long a lane looks for the message before it sleeps.
	soon time.Duration
	// account counts what the peer announces; nil: nothing is counted.
	account *account
}

// reserve is for ucx.Allocators.
func (b bounds) reserve(ctx context.Context, n int) error { return b.account.reserve(ctx, int64(n)) }

func (b bounds) framesError(n uint64) error {
	return &limitError{what: "frames", got: satAdd(0, n), limit: int64(b.frames), key: "Limits.Frames"}
}

var errNoFrames = errors.New("a message has at least one frame, its body")

// errShutdown is a peer that closed in peace.
var errShutdown = fmt.Errorf("closed by the peer: %w", io.EOF)

// errForm is a message in the other of distributed-ucxx's two forms.
var errForm = errors.New("no message of the expected form: is multi-buffer mode (distributed-ucxx.multi-buffer, " +
	"Settings.MultiBuffer) on at one side only?")

// idleError is a read whose context ended before anything had arrived: the comm lives.
type idleError struct{ cause error }

func (e *idleError) Error() string { return e.cause.Error() }
func (e *idleError) Unwrap() error { return e.cause }

// pythonLink moves messages in distributed-ucxx's format.
type pythonLink struct {
	ep           *meeting
	multi        bool
	host, device mem.Resource // nil: Go's heap

	// Owner: who has the comm's turn to read.
	lead    [leadSize]byte
	leading *ucx.Request // receive of the next message's lead; it outlives a read that gave up

	// Owner: who has the comm's turn to write.
	unmatched []*ucx.Request // leads that the peer may not have begun to receive
}

// view is a frame for one operation.
func view(f wire.Frame) ucx.View {
	if b := f.Buffer(); b != nil {
		return ucx.Buffer(b)
	}
	return ucx.Bytes(f.Bytes())
}

// ready waits for what GPUs still write: a send that waits for it would be overtaken by
// the next one.
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

// cut ends the endpoint in the middle of a message and returns err when UCX has given
// back the memory of the operations.
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
