//go:build cgo

package ucxcomm

import (
	"context"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/testkit/commtest"
)

// network makes comms of one backend.
type network struct{ b *backend }

func (n network) Dial(ctx context.Context, address string, cfg comm.DialConfig) (comm.Comm, error) {
	_, loc := commaddr.Parse(address)
	return comm.Connect(ctx, address, cfg, func(ctx context.Context) (comm.Comm, error) {
		return n.b.Dial(ctx, loc, cfg)
	})
}

func (n network) Listen(ctx context.Context, address string, cfg comm.ListenConfig) (comm.Listener, error) {
	_, loc := commaddr.Parse(address)
	return n.b.Listen(ctx, loc, cfg)
}

func TestConformance(t *testing.T) {
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			commtest.Run(t, commtest.Factory{Network: network{b}, Address: b.scheme + "://127.0.0.1:0", Rounds: 100})
		})
	}
	t.Run("registered", func(t *testing.T) {
		commtest.Run(t, commtest.Factory{Address: "ucx://127.0.0.1:0", Rounds: 40, Large: 9 << 20})
	})
}
