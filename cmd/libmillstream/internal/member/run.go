package member

import (
	"context"

	"go.millstream.dev/clique"
)

// Run calls f with the rank, for an algorithm that consists of several collectives, and with the context of blocking
// operations. Other operations of the member must wait until it returns.
func (m *Member) Run(f func(ctx context.Context, r *clique.Rank) error) error {
	r, err := m.Rank()
	if err != nil {
		return err
	}
	ctx, cancel := m.bounded()
	defer cancel()
	return f(ctx, r)
}
