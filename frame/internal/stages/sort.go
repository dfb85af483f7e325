package stages

import (
	"context"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/order"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/vec"
)

// Sort is an operator that sorts the rows of a task. With Limit it keeps only the first rows; -1 keeps all.
type Sort struct {
	Keys  []plan.SortKey
	Limit int64
}

func (s *Sort) open(in *arrow.Schema) (link, error) {
	keys, err := sortKeys(in, s.Keys)
	if err != nil {
		return link{}, err
	}
	if s.Limit < 0 || s.Limit > math.MaxInt32 {
		return link{in, func(next sink) sink { return &sorter{in, keys, nil, next} }}, nil
	}
	t, err := order.NewTop(in, keys, int(s.Limit))
	if err != nil {
		return link{}, err
	}
	return link{in, func(next sink) sink { return &topper{t, next} }}, nil
}

// sortKeys resolves keys against columns.
func sortKeys(s *arrow.Schema, keys []plan.SortKey) ([]order.SortKey, error) {
	out := make([]order.SortKey, len(keys))
	for i, k := range keys {
		at, err := expr.ColumnIndex(s, k.Col)
		if err != nil {
			return nil, err
		}
		out[i] = order.SortKey{Col: at, Desc: k.Descending, NullsFirst: k.NullsFirst}
	}
	return out, nil
}

// sorter is a sink that sorts all rows.
type sorter struct {
	schema  *arrow.Schema
	keys    []order.SortKey
	batches []arrow.RecordBatch
	next    sink
}

func (s *sorter) push(b arrow.RecordBatch) error {
	s.batches = append(s.batches, b)
	return nil
}

func (s *sorter) finish() error {
	if len(s.batches) == 0 {
		return s.next.finish()
	}
	batches := s.batches
	s.batches = nil
	return end(order.SortTo(s.schema, batches, s.keys, morsel, s.next.push), s.next)
}

// topper is a sink that keeps the first rows.
type topper struct {
	t    *order.Top
	next sink
}

func (t *topper) push(b arrow.RecordBatch) error { return t.t.Add(b) }

func (t *topper) finish() error {
	out, err := t.t.Finish()
	if err != nil {
		return err
	}
	if out.NumRows() == 0 {
		return t.next.finish()
	}
	return end(t.next.push(out), t.next)
}

// sampleRows is the number of rows of all partitions together whose keys are the samples of a sort, for each range.
const sampleRows = 200

// sampleKeys returns keys of some of the rows of a partition as an encoded batch.
var sampleKeys = client.Func3("millstream.frame.sort-sample", func(_ context.Context, rows Batches,
	keys []plan.SortKey, n int) (arrow.RecordBatch, error) {
	var total int64
	for _, b := range rows {
		total += b.NumRows()
	}
	s := rows[0].Schema()
	at, err := sortKeys(s, keys)
	if err != nil {
		return nil, err
	}
	var samples []arrow.RecordBatch
	for i, b := range rows {
		share := int64(n)
		if total > 0 {
			share = (int64(n)*b.NumRows() + total - 1) / total
		}
		x, err := order.Sample(b, at, int(share), uint64(i))
		if err != nil {
			return nil, err
		}
		samples = append(samples, x)
	}
	return vec.Concat(samples[0].Schema(), samples)
})

// lowerSort sorts: a few rows in one task, more in ranges of keys, whose bounds are those of samples.
func (r *Runner) lowerSort(ctx context.Context, n *plan.Sort) (*flow, error) {
	f, err := r.lower(ctx, n.In)
	if err != nil {
		return nil, err
	}
	id := r.number(n)
	if n.Limit >= 0 {
		return r.lowerTop(ctx, n, f)
	}
	op := Op{Node: id, Sort: &Sort{Keys: n.Keys, Limit: -1}}
	if len(f.parts) <= 1 {
		f.add(op, n.Schema())
		return f, nil
	}
	if !submitted(f) {
		if f, err = r.measure(ctx, f); err != nil {
			return nil, err
		}
	}
	ranges := r.partitions(f.bytes, len(f.parts))
	var out *flow
	if f.bytes <= r.cfg.MergeBytes || ranges == 1 {
		out = together(f)
	} else if out, err = r.exchangeRanges(ctx, f, n.Keys, ranges); err != nil {
		return nil, err
	}
	out.add(op, n.Schema())
	out.rows, out.bytes = f.rows, f.bytes
	return out, nil
}

// exchangeRanges divides measured rows by ranges of keys.
func (r *Runner) exchangeRanges(ctx context.Context, f *flow, keys []plan.SortKey, n int) (*flow, error) {
	futures := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		futures[i] = sampleKeys.Submit(ctx, r.c, p.lists[0], client.Val(keys),
			client.Val(max(20, n*sampleRows/len(f.parts))))
	}
	defer client.ReleaseAll(futures)
	samples, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, err
	}
	at, err := sortKeys(f.schema, keys)
	if err != nil {
		return nil, err
	}
	bounds, err := order.Bounds(samples, at, n)
	if err != nil {
		return nil, err
	}
	return r.exchange(ctx, r.submit(ctx, f, Buckets{N: n, Order: keys, Bounds: bounds}), n, f.schema)
}

// lowerTop keeps the first rows of every partition, and then of all.
func (r *Runner) lowerTop(ctx context.Context, n *plan.Sort, f *flow) (*flow, error) {
	op := Op{Node: r.number(n), Sort: &Sort{Keys: n.Keys, Limit: n.Limit}}
	if len(f.parts) > 1 {
		op.Phase = "partial"
		f.add(op, n.Schema())
		op.Phase = ""
		outs := r.submit(ctx, f, Buckets{})
		var err error
		if f, err = r.exchange(ctx, outs, 1, n.Schema()); err != nil {
			return nil, err
		}
	}
	f.add(op, n.Schema())
	f.rows, f.bytes = r.guess(n)
	return f, nil
}

// divider returns the function that divides rows into buckets.
func (b Buckets) divider(s *arrow.Schema) (func(arrow.RecordBatch) ([]arrow.RecordBatch, error), error) {
	if len(b.Order) == 0 {
		keys, err := columnsAt(s, b.Keys)
		if err != nil {
			return nil, err
		}
		return func(x arrow.RecordBatch) ([]arrow.RecordBatch, error) { return vec.Partition(x, keys, b.N) }, nil
	}
	keys, err := sortKeys(s, b.Order)
	if err != nil {
		return nil, err
	}
	return func(x arrow.RecordBatch) ([]arrow.RecordBatch, error) {
		return order.RangePartition(x, keys, b.Bounds, b.N)
	}, nil
}
