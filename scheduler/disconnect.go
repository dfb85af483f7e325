package scheduler

import (
	"context"
	"slices"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/wire"
)

// maxAhead is the number of messages that are read after a client has disconnected to see whether they need its graph.
const maxAhead = 1000

// ownOps are the ops that do not need the graphs of their client after it has disconnected. Any other, such as
// client-desires-keys of fire_and_forget, may.
var ownOps = []string{"update-graph", "close-client", "close-stream", "heartbeat-client", "client-releases-keys",
	"cancel-keys"}

// openContext returns a context for opening a graph in m. It ends when the client has disconnected, unless m or one of
// the messages that are still to be read may need the graph after that. stop frees it; nothing else reads from the
// stream before stop returns.
func (rd *reader) openContext(ctx context.Context, m *wire.Message) (opening context.Context, stop func()) {
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
		if needsNoGraph(m) && rd.readRest(ctx) {
			cancel(graphs.ErrClientLeft)
		}
	}()
	return opening, func() {
		close(opened)
		<-watched
		cancel(nil)
	}
}

// readRest reads the messages that a disconnected client had sent, and reports whether none of them needs its graphs.
func (rd *reader) readRest(ctx context.Context) bool {
	none := true
	rd.st.In.Ahead(ctx, maxAhead, func(m *wire.Message) { none = none && needsNoGraph(m) })
	return none
}

// needsNoGraph reports whether no op of a message needs graphs after its client has disconnected. An invalid message
// ends the stream.
func needsNoGraph(m *wire.Message) bool {
	ops := message.OpsOf(m)
	for ops.Next() {
		if !slices.Contains(ownOps, string(ops.Op())) {
			return false
		}
	}
	return true
}
