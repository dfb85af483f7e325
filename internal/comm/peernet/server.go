package peernet

import (
	"context"
	"fmt"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/wire"
)

type channelArgs struct {
	Kind  string `rpc:"kind"`
	Hello []byte `rpc:"hello"`
}

// Register sets the handler of ChannelOp, which passes a comm to the acceptor of the channel's kind (see Serve); the
// acceptor keeps it as long as needed. The op belongs into Waiting and Detached of the server's configuration.
func (p *Peers) Register(s *rpc.Server) { rpc.Handle(s, ChannelOp, p.channel) }

func (p *Peers) channel(ctx context.Context, r *rpc.Request, in channelArgs) (any, error) {
	if len(in.Hello) > MaxHello {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "hello", Reason: fmt.Sprintf("%d bytes, maximum %d",
			len(in.Hello), MaxHello)}
	}
	accept, err := p.Acceptor(in.Kind)
	if err != nil {
		return nil, err
	}
	// From here on the comm is no longer a request: the acceptor may wait.
	r.Takeover()
	serve, err := accept(ctx, append([]byte(nil), in.Hello...))
	if err != nil {
		return nil, err
	}
	defer r.Comm.Close()
	m, err := wire.Encode("OK", r.Comm.Info().EncodeOptions())
	if err != nil {
		return nil, err
	}
	err = r.Comm.Write(ctx, m)
	m.Release()
	if err != nil {
		r.Comm.Abort()
	}
	serve(ctx, r.Comm) // also with a failed comm: serve detects the failure and drops it
	return rpc.NoReply, nil
}
