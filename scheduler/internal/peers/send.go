package peers

import (
	"context"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// Send sends a message on a comm.
func Send(ctx context.Context, c comm.Comm, v any) error {
	m, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	defer m.Release()
	return c.Write(ctx, m)
}
