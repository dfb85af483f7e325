package stages

import (
	"context"

	"go.millstream.dev/frame/internal/plan"
)

// lowerShuffle exchanges rows by the hash of their keys. One partition is divided as well, if there should be several.
func (r *Runner) lowerShuffle(ctx context.Context, n *plan.Shuffle) (*flow, error) {
	if err := r.measureTables(ctx, n); err != nil {
		return nil, err
	}
	f, err := r.lower(ctx, n.In)
	if err != nil {
		return nil, err
	}
	rows, bytes := r.guess(n)
	buckets := n.N
	if buckets == 0 {
		if buckets = r.partitions(bytes, len(f.parts)); bytes < 0 {
			buckets = max(r.threads, len(f.parts))
		}
	}
	out, err := r.exchange(ctx, r.submit(ctx, f, Buckets{N: buckets, Keys: n.Keys}), buckets, f.schema)
	if err != nil {
		return nil, err
	}
	out.rows, out.bytes = rows, bytes
	return out, nil
}
