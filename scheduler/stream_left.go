package scheduler

import (
	"context"
	"slices"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/wire"
)

// maxAhead is how many messages are read after a client has hung up to see whether they need its graph.
const maxAhead = 1000

// ownOps are the ops of a client that want nothing of its graphs after it has gone. Any other, such as
// client-desires-keys of fire_and_forget, may.
var ownOps = []string{"update-graph", "close-client", "close-stream", "heartbeat-client", "client-releases-keys",
	"cancel-keys"}

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
	rd.st.In.Ahead(ctx, maxAhead, func(m *wire.Message) { none = none && wantsNothing(m) })
	return none
}

// wantsNothing reports whether the ops of a message want nothing after their client has gone. A message that cannot be
// read ends the stream.
func wantsNothing(m *wire.Message) bool {
	ops := message.OpsOf(m)
	for ops.Next() {
		if !slices.Contains(ownOps, string(ops.Op())) {
			return false
		}
	}
	return true
}
