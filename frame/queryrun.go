package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/preview"
	"go.millstream.dev/frame/internal/stages"
)

// Compute runs the query and returns its result as a frame, which has at least one partition. It returns when the last
// tasks are submitted: it waits only for sizes on which their number depends. If ctx ends before, the tasks of the run
// are released.
func (q *Query) Compute(ctx context.Context) (*Frame, error) {
	f, _, _, err := q.run(ctx, q.cfg)
	return f, err
}

// run runs the optimized plan. The runner, which is closed, has the measurements.
func (q *Query) run(ctx context.Context, cfg stages.Config) (*Frame, plan.Node, *stages.Runner, error) {
	if q.err != nil {
		return nil, nil, nil, q.err
	}
	r, err := stages.New(ctx, q.c, cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	defer r.Close()
	n, release, err := withDevices(ctx, q.c, plan.Optimize(q.node))
	var parts []*client.Future[arrow.RecordBatch]
	if err == nil {
		parts, err = r.Run(ctx, n)
		release()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("frame: query: %w", ctx.Err())
		}
		return nil, nil, nil, withKind(err)
	}
	return newFrame(q.c, q.node.Schema(), parts), n, r, nil
}

// Collect runs the query and copies its result to the client. The caller releases the table.
func (q *Query) Collect(ctx context.Context) (arrow.Table, error) {
	f, err := q.Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	return f.Table(ctx)
}

// NumRows runs the query and returns the number of its rows.
func (q *Query) NumRows(ctx context.Context) (int64, error) {
	f, err := q.Agg(Count()).Compute(ctx)
	if err != nil {
		return 0, err
	}
	defer f.Release()
	batches, err := f.Collect(ctx)
	if err != nil {
		return 0, err
	}
	defer releaseAll(batches)
	return countIn(batches)
}

// Explain returns the plan that would run, one line for each operator, with estimates of the sizes of results where
// they are known. It runs nothing.
func (q *Query) Explain() (string, error) {
	if q.err != nil {
		return "", q.err
	}
	return explainDevices(plan.Optimize(q.node)), nil
}

// ExplainRun runs the query, waits for it, releases its result and returns the plan with the rows, the bytes and the
// time of every operator. The time is the sum over all tasks.
func (q *Query) ExplainRun(ctx context.Context) (string, error) {
	cfg := q.cfg
	cfg.Measure = true
	f, n, r, err := q.run(ctx, cfg)
	if err != nil {
		return "", err
	}
	f.Release()
	return r.Describe(n), nil
}

// WriteIPC runs the query and writes its result as files in the Arrow IPC format, as Frame.WriteIPC.
func (q *Query) WriteIPC(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return q.write(ctx, func(f *Frame) ([]string, error) { return f.WriteIPC(ctx, dir, opts) })
}

// WriteCSV runs the query and writes its result as CSV files, as Frame.WriteCSV.
func (q *Query) WriteCSV(ctx context.Context, dir string, opts WriteOptions) ([]string, error) {
	return q.write(ctx, func(f *Frame) ([]string, error) { return f.WriteCSV(ctx, dir, opts) })
}

func (q *Query) write(ctx context.Context, write func(*Frame) ([]string, error)) ([]string, error) {
	f, err := q.Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	return write(f)
}

// Head runs the query for its first n rows and returns them. Only as many partitions are computed as are needed.
func (q *Query) Head(ctx context.Context, n int64) (*Preview, error) {
	f, err := q.Limit(n).Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	batches, err := f.Collect(ctx)
	if err != nil {
		return nil, err
	}
	defer releaseAll(batches)
	b, err := concat(f.schema, batches)
	if err != nil {
		return nil, err
	}
	return &Preview{Batch: b}, nil
}

// Preview has the first rows of a query, see Query.Head.
type Preview struct {
	// Batch has the rows.
	Batch arrow.RecordBatch
}

// String returns the rows as a table for a terminal. Long values are shortened, and columns after the 24th are omitted.
func (p *Preview) String() string { return preview.Format(p.Batch) }

// Release releases the rows.
func (p *Preview) Release() { p.Batch.Release() }
