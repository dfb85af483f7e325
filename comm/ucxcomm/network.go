package ucxcomm

import (
	"context"
	"maps"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
)

// NewNetwork returns the network of this machine, comm.Default, with its own settings for ucx, ucxx and ucx-file
// addresses. It needs no Close: UCX is started by the first comm or listener with these settings and closed with the
// last.
func NewNetwork(s Settings) comm.Network {
	s.Options = maps.Clone(s.Options)
	return ownNetwork{backendsOf(s)}
}

// backendsOf returns the backends of all schemes of this package.
func backendsOf(s Settings) map[string]comm.Backend {
	return map[string]comm.Backend{"ucx": newBackend("ucx", s), "ucxx": newBackend("ucxx", s), FileScheme: newFile(s)}
}

type ownNetwork struct{ backends map[string]comm.Backend }

func (n ownNetwork) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	scheme, loc := commaddr.Parse(address)
	b, ok := n.backends[scheme]
	if !ok || cfg.RequireEncryption { // comm.Default rejects the second
		return comm.Default.Dial(ctx, address, cfg)
	}
	return comm.Connect(ctx, address, cfg, func(ctx context.Context) (comm.Comm, error) {
		return b.Dial(ctx, loc, cfg)
	})
}

func (n ownNetwork) Listen(ctx context.Context, address string, cfg comm.ListenConfig) (comm.Listener, error) {
	scheme, loc := commaddr.Parse(address)
	b, ok := n.backends[scheme]
	if !ok || cfg.RequireEncryption {
		return comm.Default.Listen(ctx, address, cfg)
	}
	return b.Listen(ctx, loc, cfg)
}
