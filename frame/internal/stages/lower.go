package stages

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// number returns the number of an operator of the plan.
func (r *Runner) number(n plan.Node) int {
	id, ok := r.ids[n]
	if !ok {
		id = len(r.ids)
		r.ids[n] = id
	}
	return id
}

// lower returns the flow of an operator. Operators on single rows are added to the flow of their input; others submit
// it, and wait for it if they have to know its size.
func (r *Runner) lower(ctx context.Context, n plan.Node) (*flow, error) {
	id := r.number(n)
	switch n := n.(type) {
	case *plan.Source:
		return r.lowerSource(ctx, n)
	case *plan.Scan:
		return r.lowerScan(n)
	case *plan.Filter:
		return r.lowerRows(ctx, n.In, n, Op{Node: id, Filter: &n.Cond})
	case *plan.Project:
		return r.lowerRows(ctx, n.In, n, Op{Node: id, Project: n.Cols})
	case *plan.Sample:
		return r.lowerRows(ctx, n.In, n, Op{Node: id, Sample: &Sample{Fraction: n.Fraction, Seed: n.Seed}})
	case *plan.Describe:
		return r.lowerRows(ctx, n.In, n, Op{Node: id, Describe: &n.Summary})
	case *plan.Union:
		return r.lowerUnion(ctx, n)
	case *plan.Limit:
		return r.lowerLimit(ctx, n)
	case *plan.Aggregate:
		return r.lowerAggregate(ctx, n)
	case *plan.Join:
		return r.lowerJoin(ctx, n)
	case *plan.Sort:
		return r.lowerSort(ctx, n)
	case *plan.Window:
		return r.lowerWindow(ctx, n)
	case *plan.Shuffle:
		return r.lowerShuffle(ctx, n)
	}
	return nil, fmt.Errorf("frame: operator %T cannot be run", n)
}

// lowerRows adds an operator to the flow of its input.
func (r *Runner) lowerRows(ctx context.Context, in, n plan.Node, op Op) (*flow, error) {
	f, err := r.lower(ctx, in)
	if err != nil {
		return nil, err
	}
	f.add(op, n.Schema())
	f.rows, f.bytes = r.guess(n)
	f.measured = false
	return f, nil
}

// lowerSource returns the partitions of a frame.
func (r *Runner) lowerSource(ctx context.Context, n *plan.Source) (*flow, error) {
	host, ok := n.Table.(Host)
	if !ok {
		return nil, fmt.Errorf("frame: %s has no partitions in memory", n.Table.Describe())
	}
	parts, end, err := host.Parts(ctx)
	if err != nil {
		return nil, err
	}
	r.ends = append(r.ends, end)
	encoded, err := scan.EncodeSchema(n.Schema())
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return emptyFlow(n.Schema())
	}
	f := &flow{schema: n.Schema(), parts: make([]part, len(parts))}
	for i, p := range parts {
		f.parts[i] = part{in: encoded, first: []*client.Future[arrow.RecordBatch]{p}}
	}
	f.rows, f.bytes = r.guess(n)
	return f, nil
}

// lowerScan returns the splits of files.
func (r *Runner) lowerScan(n *plan.Scan) (*flow, error) {
	encoded, err := scan.EncodeSchema(n.Schema())
	if err != nil {
		return nil, err
	}
	read := scan.ReadOptions{Columns: n.Cols, Prune: pruneConds(n.Conds)}
	f := &flow{schema: n.Schema(), parts: make([]part, len(n.Source.Splits))}
	for i := range n.Source.Splits {
		f.parts[i] = part{in: encoded, split: &n.Source.Splits[i], read: read}
	}
	f.rows, f.bytes = r.guess(n)
	return f, nil
}

// lowerUnion returns the partitions of all inputs.
func (r *Runner) lowerUnion(ctx context.Context, n *plan.Union) (*flow, error) {
	out := &flow{schema: n.Schema()}
	for _, in := range n.In {
		f, err := r.lower(ctx, in)
		if err != nil {
			return nil, err
		}
		out.parts = append(out.parts, f.parts...)
	}
	out.rows, out.bytes = r.guess(n)
	return out, nil
}

// lowerLimit runs the first partitions, and more of them while there are too few rows.
func (r *Runner) lowerLimit(ctx context.Context, n *plan.Limit) (*flow, error) {
	f, err := r.lower(ctx, n.In)
	if err != nil {
		return nil, err
	}
	id := r.number(n)
	most := n.Offset + n.N
	f.add(Op{Node: id, Phase: "partial", Limit: &Limit{To: most}}, n.Schema())
	out := &flow{schema: f.schema}
	var have int64
	for wave, at := 1, 0; at < len(f.parts) && (have < most || at == 0); wave = max(4*wave, r.threads) {
		to := min(len(f.parts), at+wave)
		m, err := r.await(ctx, f.schema, r.submitRange(ctx, f, at, to, Buckets{}))
		if err != nil {
			return nil, err
		}
		at = to
		out.parts = append(out.parts, m.parts...)
		have += m.rows
	}
	r.releaseInputs(f) // tasks share them, for example the right sides of joins
	if len(out.parts) == 0 {
		return emptyFlow(n.Schema())
	}
	out = together(out)
	out.add(Op{Node: id, Limit: &Limit{From: n.Offset, To: most}}, n.Schema())
	out.rows, out.bytes = min(have, n.N), -1
	return out, nil
}

// guess returns an estimate of the size of the result of an operator, -1 if it is unknown.
func (r *Runner) guess(n plan.Node) (rows, bytes int64) {
	return plan.Guess(n, r.size)
}

// size returns the measured size of a table.
func (r *Runner) size(t plan.Table) (rows, bytes int64, ok bool) {
	if s, ok := r.sizes[t]; ok {
		return s.Rows, s.Bytes, true
	}
	return t.Size()
}

// measureTables measures the tables of a plan, which waits for their partitions.
func (r *Runner) measureTables(ctx context.Context, n plan.Node) error {
	if s, ok := n.(*plan.Source); ok {
		if _, _, known := r.size(s.Table); known {
			return nil
		}
		f, err := r.lowerSource(ctx, s)
		if err != nil {
			return err
		}
		var futures []*client.Future[Size]
		for _, p := range f.parts {
			for _, b := range p.first {
				futures = append(futures, sizeOf.Submit(ctx, r.c, b))
			}
		}
		defer client.ReleaseAll(futures)
		sizes, err := client.Gather(ctx, futures)
		if err != nil {
			return err
		}
		var all Size
		for _, x := range sizes {
			all.Rows += x.Rows
			all.Bytes += x.Bytes
		}
		r.sizes[s.Table] = all
		return nil
	}
	for _, in := range n.Inputs() {
		if err := r.measureTables(ctx, in); err != nil {
			return err
		}
	}
	return nil
}
