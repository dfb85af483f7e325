package stages

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/order"
	"go.millstream.dev/frame/internal/plan"
)

// Window is an operator that adds columns with functions of the rows of a task, which has all rows of its keys.
type Window struct {
	Partition []string
	Order     []plan.SortKey
	Funcs     []plan.WindowFunc
}

func (w *Window) open(in *arrow.Schema) (link, error) {
	x := windower{schema: in, windows: make([]order.Window, len(w.Funcs))}
	var err error
	if x.partition, err = columnsAt(in, w.Partition); err != nil {
		return link{}, err
	}
	if x.keys, err = sortKeys(in, w.Order); err != nil {
		return link{}, err
	}
	fields := slices.Clone(in.Fields())
	for i, f := range w.Funcs {
		if x.windows[i], err = f.Window(in); err != nil {
			return link{}, err
		}
		t, err := x.windows[i].Type(in)
		if err != nil {
			return link{}, err
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: t, Nullable: true})
	}
	return link{arrow.NewSchema(fields, nil), func(next sink) sink {
		x.next = next
		return &x
	}}, nil
}

// windower is the sink of a Window.
type windower struct {
	schema    *arrow.Schema
	partition []int
	keys      []order.SortKey
	windows   []order.Window
	batches   []arrow.RecordBatch
	next      sink
}

func (w *windower) push(b arrow.RecordBatch) error {
	w.batches = append(w.batches, b)
	return nil
}

func (w *windower) finish() error {
	if len(w.batches) == 0 {
		return w.next.finish()
	}
	var all []order.SortKey
	for _, p := range w.partition {
		all = append(all, order.SortKey{Col: p})
	}
	sorted, err := order.Sort(w.schema, w.batches, append(all, w.keys...))
	if err != nil {
		return err
	}
	w.batches = nil
	out, err := order.Windows(w.schema, []arrow.RecordBatch{sorted}, w.partition, w.keys, w.windows)
	if err != nil {
		return err
	}
	return end(feedBatch(context.Background(), out, true, w.next), w.next)
}

// lowerWindow brings the rows of equal keys together: by an exchange, or without keys in one task.
func (r *Runner) lowerWindow(ctx context.Context, n *plan.Window) (*flow, error) {
	f, err := r.lower(ctx, n.In)
	if err != nil {
		return nil, err
	}
	if len(f.parts) > 1 {
		buckets := 1
		if len(n.Partition) > 0 {
			if f.bytes < 0 {
				if f, err = r.measure(ctx, f); err != nil {
					return nil, err
				}
			}
			buckets = r.partitions(f.bytes, len(f.parts))
		}
		outs := r.submit(ctx, f, Buckets{N: buckets, Keys: n.Partition})
		if f, err = r.exchange(ctx, outs, buckets, f.schema); err != nil {
			return nil, err
		}
	}
	f.add(Op{Node: r.number(n), Window: &Window{Partition: n.Partition, Order: n.Order, Funcs: n.Funcs}}, n.Schema())
	f.rows, f.bytes = r.guess(n)
	return f, nil
}
