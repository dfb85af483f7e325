package collective

import (
	"context"

	"go.millstream.dev/comm"
	"go.millstream.dev/ucx"
)

// NewComm makes a transport of plain comms (tcp, tls, inproc): peers[r] is the connection with rank r, nil at
// the own rank. The transport owns them, also when NewComm fails. A comm that ends without a farewell is the
// death of its rank.
func NewComm(rank int, peers []comm.Comm) (Transport, error) { return nil, ErrClosed }

// NewUCX makes a transport whose data goes over UCX, while the given transport of NewComm stays open beside it for
// farewells, aborts and the notice of death. worker must be this group's alone, as UCX matches tags by worker;
// the transport closes it, also when NewUCX fails. addresses are all ranks' worker addresses, as the
// cluster carried them; if nil they are exchanged over the mesh.
func NewUCX(ctx context.Context, mesh Transport, worker *ucx.Worker, addresses []ucx.WorkerAddress) (Transport, error) {
	return nil, ErrClosed
}
