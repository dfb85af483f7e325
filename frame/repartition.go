package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// cut is the range of rows From to To of consecutive partitions.
type cut struct {
	First    int // partition
	From, To int64
}

var (
	joinParts = client.Func3("millstream.frame.join", func(_ context.Context, batches []arrow.RecordBatch, from,
		to int64) (arrow.RecordBatch, error) {
		return join(batches, from, to)
	})
	deviceJoinParts = client.Func3("millstream.frame.device_join", deviceJoin)
)

// deviceJoin is join of batches on devices, through host memory.
func deviceJoin(ctx context.Context, parts []wire.Dict, from, to int64) (wire.Dict, error) {
	batches := make([]arrow.RecordBatch, len(parts))
	defer func() { releaseAll(batches) }()
	for i, d := range parts {
		b, err := deviceBatch(d)
		if err != nil {
			return nil, err
		}
		if batches[i], err = b.CopyToHost(ctx); err != nil {
			return nil, err
		}
	}
	host, err := join(batches, from, to)
	if err != nil {
		return nil, err
	}
	defer host.Release()
	out, err := copyBatchToDevice(ctx, host)
	if err != nil {
		return nil, err
	}
	return out.value()
}

// join returns the rows from and to, counted through all batches.
func join(batches []arrow.RecordBatch, from, to int64) (arrow.RecordBatch, error) {
	if len(batches) == 0 {
		return nil, fmt.Errorf("frame: no batches to join")
	}
	if from < 0 || to < from {
		return nil, fmt.Errorf("frame: invalid range of rows %d to %d", from, to)
	}
	var slices []arrow.RecordBatch
	defer func() { releaseAll(slices) }()
	var at int64
	for _, b := range batches {
		n := b.NumRows()
		if lo, hi := max(from-at, 0), min(to-at, n); lo < hi {
			slices = append(slices, b.NewSlice(lo, hi))
		}
		at += n
	}
	if to > at {
		return nil, fmt.Errorf("frame: range of rows ends at %d, but there are %d", to, at)
	}
	out, err := concat(batches[0].Schema(), slices)
	if err != nil {
		return nil, err
	}
	if out.NumRows() == 0 || len(slices) != 1 {
		return out, nil
	}
	// A slice would keep the whole batch alive and be sent with it: a small one is copied.
	if rows := batches[0].NumRows(); len(batches) == 1 && out.NumRows()*2 < rows {
		defer out.Release()
		return detach(out)
	}
	return out, nil
}

// detach returns a copy that shares no memory.
func detach(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	half := b.NumRows() / 2
	lo, hi := b.NewSlice(0, half), b.NewSlice(half, b.NumRows())
	defer lo.Release()
	defer hi.Release()
	return concat(b.Schema(), []arrow.RecordBatch{lo, hi})
}

// Repartition returns the same rows in the same order in n partitions whose lengths differ by at most one row. It waits
// for the lengths of the partitions. Those of a frame on devices are joined in the memory of their workers.
func (f *Frame) Repartition(ctx context.Context, n int) (*Frame, error) {
	if n < 1 {
		return nil, fmt.Errorf("frame: Repartition into %d partitions; use at least one", n)
	}
	if err := f.usable(); err != nil {
		return nil, err
	}
	if f.NumPartitions() == 0 {
		return nil, errors.New("frame: Repartition: frame without partitions")
	}
	rows, err := f.Rows(ctx)
	if err != nil {
		return nil, err
	}
	if f.loc == Device {
		out := submitCuts(ctx, f.c, deviceJoinParts, f.device, rows, n, client.WithWorkers(f.workers...))
		return newDeviceFrame(f.c, f.schema, out, f.workers), nil
	}
	return newFrame(f.c, f.schema, submitCuts(ctx, f.c, joinParts, f.parts, rows, n)), nil
}

// submitCuts submits the join of each of n cuts of partitions with the given numbers of rows.
func submitCuts[B any](ctx context.Context, c *client.Client, join *client.Fn3[[]B, int64, int64, B],
	parts []*client.Future[B], rows []int64, n int, opts ...client.Option) []*client.Future[B] {
	out := make([]*client.Future[B], n)
	for i, x := range cutEvenly(rows, n) {
		var args []client.Arg[B]
		for at, have := x.First, int64(0); at < len(parts) && (len(args) == 0 || have < x.To); at++ {
			args = append(args, parts[at])
			have += rows[at]
		}
		// Empty partitions have distinct keys as well, because keys are hashes of the arguments.
		out[i] = join.Submit(ctx, c, client.List(args...), client.Val(x.From), client.Val(x.To), opts...)
	}
	return out
}

// cutEvenly divides partitions with the given numbers of rows into n cuts.
func cutEvenly(rows []int64, n int) []cut {
	var total int64
	for _, r := range rows {
		total += r
	}
	cuts := make([]cut, n)
	first, before := 0, int64(0) // rows of the partitions before first
	for i := range cuts {
		from, to := total*int64(i)/int64(n), total*int64(i+1)/int64(n)
		for first < len(rows)-1 && before+rows[first] <= from {
			before += rows[first]
			first++
		}
		cuts[i] = cut{First: first, From: from - before, To: to - before}
	}
	return cuts
}
