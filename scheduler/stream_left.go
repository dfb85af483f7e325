package scheduler

import (
	"context"
	"slices"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/wire"
)

// readAhead is the result of a Read.
type readAhead struct {
	m   *wire.Message
	err error
}

// maxAhead is how many messages are read after a client has hung up to see whether they need its graph.
const maxAhead = 1000

// ownOps are the ops of a client that want nothing of its graphs after it has gone. Any other, such as
// client-desires-keys of fire_and_forget, may.
var ownOps = []string{"update-graph", "close-client", "close-stream", "heartbeat-client", "client-releases-keys",
	"cancel-keys"}

// next returns the next message of the peer.
func (rd *reader) next(ctx context.Context) (*wire.Message, error) {
	if len(rd.ahead) == 0 {
		return rd.st.Comm.Read(ctx)
	}
	r := rd.ahead[0]
	if r.err == nil {
		rd.ahead = slices.Delete(rd.ahead, 0, 1)
	}
	return r.m, r.err
}

// untilLeft returns a context for opening a graph in m. It ends when the client has hung up, unless m or one of the
// messages that are still to be read may want the graph after that. stop frees it; nothing else reads from the stream
// before.
func (rd *reader) untilLeft(ctx context.Context, m *wire.Message) (opening context.Context, stop func()) {
	opening, cancel := context.WithCancelCause(ctx)
	opened, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-opened:
			return
		case <-ctx.Done():
			return
		case <-rd.st.Comm.Done():
		}
		if wantsNothing(m) && rd.readRest(ctx) {
			cancel(graphs.ErrClientLeft)
		}
	}()
	return opening, func() {
		close(opened)
		<-watched
		cancel(nil)
	}
}

// readRest reads what a client that has hung up had sent before, and reports whether none of it wants its graphs.
func (rd *reader) readRest(ctx context.Context) bool {
	none := true
	for _, r := range rd.ahead {
		none = none && (r.err != nil || wantsNothing(r.m))
	}
	for n := len(rd.ahead); n == 0 || rd.ahead[n-1].err == nil && n < maxAhead; n = len(rd.ahead) {
		m, err := rd.st.Comm.Read(ctx)
		rd.ahead = append(rd.ahead, readAhead{m, err})
		none = none && (err != nil || wantsNothing(m))
	}
	return none
}

// wantsNothing reports whether the ops of a message want nothing after their client has gone.
func wantsNothing(m *wire.Message) bool {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return true // an error, which ends the stream
	}
	ops := message.ReadOps(m.Body())
	for ops.Next() {
		if !slices.Contains(ownOps, string(ops.Op())) {
			return false
		}
	}
	return true
}

// releaseAhead frees the messages that were read and not taken.
func (rd *reader) releaseAhead() {
	for _, r := range rd.ahead {
		if r.m != nil {
			r.m.Release()
		}
	}
	rd.ahead = nil
}
