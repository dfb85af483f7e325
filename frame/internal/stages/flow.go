package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/scan"
)

// flow is a stage that has not been submitted: partitions and the operators on each.
type flow struct {
	schema *arrow.Schema // of the result
	parts  []part
	// bytes is an estimate of the size of the result; -1 if it is unknown. It is measured if measured is set.
	bytes    int64
	rows     int64
	measured bool
}

// part is a task that has not been submitted.
type part struct {
	// The input: partitions of a frame, which belongs to the caller, buckets of other stages, or a part of a file.
	first []*client.Future[arrow.RecordBatch]
	lists []*client.Future[Batches]
	split *scan.Split
	read  scan.ReadOptions
	in    []byte // encoded schema of the input
	// builds are the right sides of joins.
	builds []*client.Future[Batches]
	ops    []Op
}

// add appends an operator to every partition.
func (f *flow) add(op Op, schema *arrow.Schema) {
	for i := range f.parts {
		f.parts[i].ops = append(slices.Clip(f.parts[i].ops), op)
	}
	f.schema = schema
}

// submit submits the tasks of a stage, and releases their inputs, which are results of earlier stages.
func (r *Runner) submit(ctx context.Context, f *flow, b Buckets) []*client.Future[Out] {
	out := r.submitRange(ctx, f, 0, len(f.parts), b)
	r.releaseInputs(f)
	return out
}

// submitRange submits some tasks of a stage. Its inputs, which tasks may share, are not released.
func (r *Runner) submitRange(ctx context.Context, f *flow, from, to int, b Buckets) []*client.Future[Out] {
	out := make([]*client.Future[Out], 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, hold(r, submitPart(ctx, r, run, &f.parts[i], i, b)))
	}
	return out
}

// submitPart submits one task.
func submitPart[R any](ctx context.Context, r *Runner,
	fn *client.Fn4[Task, []arrow.RecordBatch, []Batches, []Batches, R], p *part, i int, b Buckets) *client.Future[R] {
	t := Task{Run: r.id, Partition: i, Schema: p.in, Split: p.split, Read: p.read, Ops: p.ops, Buckets: b}
	r.tasks++
	return fn.Submit(ctx, r.c, client.Val(t), client.List(client.Args(p.first)...),
		client.List(client.Args(p.lists)...), client.List(client.Args(p.builds)...))
}

// releaseInputs releases the results of earlier stages that the partitions of a submitted flow have used.
func (r *Runner) releaseInputs(f *flow) {
	for _, p := range f.parts {
		for _, l := range p.lists {
			release(r, l)
		}
		for _, l := range p.builds {
			release(r, l)
		}
	}
}

// exchange returns a flow of n partitions, which are the buckets of submitted tasks.
func (r *Runner) exchange(ctx context.Context, outs []*client.Future[Out], n int, schema *arrow.Schema) (*flow, error) {
	encoded, err := scan.EncodeSchema(schema)
	if err != nil {
		return nil, err
	}
	f := &flow{schema: schema, parts: make([]part, n), bytes: -1, rows: -1}
	for i := range f.parts {
		f.parts[i] = part{in: encoded, lists: make([]*client.Future[Batches], len(outs))}
	}
	for j, o := range outs {
		for i := range f.parts {
			f.parts[i].lists[j] = hold(r, pick.Submit(ctx, r.c, o, client.Val(i)))
		}
		r.tasks += n
		release(r, o)
	}
	return f, nil
}

// measure submits a flow, waits for it and returns a flow of its results, whose size is known.
func (r *Runner) measure(ctx context.Context, f *flow) (*flow, error) {
	return r.await(ctx, f.schema, r.submit(ctx, f, Buckets{}))
}

// await waits for submitted tasks and returns a flow of their results.
func (r *Runner) await(ctx context.Context, schema *arrow.Schema, outs []*client.Future[Out]) (*flow, error) {
	stats, err := r.stats(ctx, outs)
	if err != nil {
		return nil, err
	}
	one, err := r.exchange(ctx, outs, 1, schema)
	if err != nil {
		return nil, err
	}
	out := apart(one)
	out.bytes, out.rows, out.measured = 0, 0, true
	for _, s := range stats {
		out.bytes += s.Bytes
		out.rows += s.Rows
	}
	return out, nil
}

// apart returns a flow with a partition for each list of the only partition of an exchange.
func apart(one *flow) *flow {
	p := one.parts[0]
	out := &flow{schema: one.schema, parts: make([]part, len(p.lists)), bytes: -1, rows: -1}
	for i, l := range p.lists {
		out.parts[i] = part{in: p.in, lists: []*client.Future[Batches]{l}}
	}
	return out
}

// stats waits for the measurements of tasks.
func (r *Runner) stats(ctx context.Context, outs []*client.Future[Out]) ([]Stats, error) {
	futures := make([]*client.Future[Stats], len(outs))
	for i, o := range outs {
		futures[i] = statsOf.Submit(ctx, r.c, o)
	}
	defer client.ReleaseAll(futures)
	stats, err := client.Gather(ctx, futures)
	if err != nil {
		return nil, err
	}
	for _, s := range stats {
		r.record(s)
	}
	return stats, nil
}

// together returns a flow with one partition that has the results of all partitions of a submitted stage.
func together(f *flow) *flow {
	one := *f
	p := part{in: f.parts[0].in}
	for _, x := range f.parts {
		if len(x.ops) > 0 || x.split != nil || len(x.first) > 0 {
			panic(fmt.Sprintf("stages: together with %d operators", len(x.ops)))
		}
		p.lists = append(p.lists, x.lists...)
	}
	one.parts = []part{p}
	return &one
}
