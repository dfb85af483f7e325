package frame

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/gpu"
	hashjoin "go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/wire"
)

// Queries of frames on devices. The joins and group-bys next to the frames run on the GPUs of their workers, as tasks
// that take and return device batches: a join or group-by divides its input into buckets by the hash of the keys, which
// are fetched from device to device. Their result is a frame on devices, which takes their place in the plan.

// onDevices reports whether the GPUs of workers can compute the result of an operator: its tables are on devices, and
// it and its inputs have kernels.
func onDevices(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Source:
		t, ok := n.Table.(frameTable)
		return ok && t.f.loc == Device
	case *plan.Project:
		return !slices.ContainsFunc(n.Cols, func(c plan.Named) bool {
			return expr.Unnamed(c.Expr).Op != expr.OpColumn
		}) && onDevices(n.In)
	case *plan.Aggregate:
		keys, specs, err := plan.Specs(n.In.Schema(), n.Keys, n.Aggs)
		return err == nil && gpu.GroupSupported(n.In.Schema(), keys, specs) == nil &&
			gpu.Supported(n.In.Schema()) == nil && onDevices(n.In)
	case *plan.Join:
		_, ok := deviceJoins[n.Kind]
		return ok && n.Cond == nil && !n.NullAware && sameKeys(n) && gpu.Supported(n.Both()) == nil &&
			onDevices(n.Left) && onDevices(n.Right)
	}
	return false
}

var deviceJoins = map[plan.JoinKind]hashjoin.Kind{plan.Inner: hashjoin.Inner, plan.Left: hashjoin.Left,
	plan.Full: hashjoin.Full, plan.Semi: hashjoin.Semi, plan.Anti: hashjoin.Anti}

// sameKeys reports whether a join has keys, of the same types on both sides.
func sameKeys(n *plan.Join) bool {
	l, err := indices(n.Left.Schema(), n.LeftKeys)
	if err != nil {
		return false
	}
	r, err := indices(n.Right.Schema(), n.RightKeys)
	if err != nil || len(l) != len(r) || len(l) == 0 || len(l) > gpu.MaxKeys {
		return false
	}
	for i := range l {
		if !arrow.TypeEqual(n.Left.Schema().Field(l[i]).Type, n.Right.Schema().Field(r[i]).Type) {
			return false
		}
	}
	return true
}

// computes reports whether an operator is worth to be the last one on devices: a selection of columns is not.
func computes(n plan.Node) bool {
	switch n.(type) {
	case *plan.Aggregate, *plan.Join:
		return true
	}
	return false
}

// withDevices runs the operators of a plan that devices can compute, and returns the plan with their results. release
// releases these, when the tasks of the plan are submitted.
func withDevices(ctx context.Context, c *client.Client, n plan.Node) (_ plan.Node, release func(), err error) {
	var made []*Frame
	release = func() {
		for _, f := range made {
			f.Release()
		}
	}
	kernels := true
	out := plan.Replace(n, func(n plan.Node) plan.Node {
		if err != nil || !kernels || !computes(n) || !onDevices(n) {
			return nil
		}
		x := &deviceRun{ctx: ctx, c: c, workers: sourceWorkers(n, nil)}
		if kernels, err = x.kernels(); err != nil || !kernels {
			return nil
		}
		var f *Frame
		if f, err = x.run(n); err != nil {
			return nil
		}
		made = append(made, f)
		return &plan.Source{Table: resultTable{frameTable{f}, n.Label()}}
	})
	if err != nil {
		release()
		return nil, nil, err
	}
	return out, release, nil
}

// resultTable is the result of an operator on devices.
type resultTable struct {
	frameTable
	label string
}

func (t resultTable) Describe() string { return t.label + ", on devices, copied to host memory" }

// placedTable is a frame on devices that is used there.
type placedTable struct{ frameTable }

func (t placedTable) Describe() string { return t.describe() + " on devices" }

// explainDevices returns a plan as text, with the operators that run on devices.
func explainDevices(n plan.Node) string {
	placed := map[plan.Node]bool{}
	var mark func(n plan.Node)
	mark = func(n plan.Node) {
		placed[n] = len(n.Inputs()) > 0
		for _, in := range n.Inputs() {
			mark(in)
		}
	}
	n = plan.Replace(n, func(n plan.Node) plan.Node {
		if !computes(n) || !onDevices(n) {
			return nil
		}
		out := plan.Replace(n, func(n plan.Node) plan.Node {
			if s, ok := n.(*plan.Source); ok {
				return &plan.Source{Table: placedTable{s.Table.(frameTable)}}
			}
			return nil
		})
		mark(out)
		return out
	})
	return plan.Explain(n, func(n plan.Node) []string {
		if placed[n] {
			return []string{"on devices"}
		}
		return nil
	})
}

// sourceWorkers returns the workers that have the tables of a plan.
func sourceWorkers(n plan.Node, list []string) []string {
	if s, ok := n.(*plan.Source); ok {
		for _, w := range s.Table.(frameTable).f.workers {
			if !slices.Contains(list, w) {
				list = append(list, w)
			}
		}
	}
	for _, in := range n.Inputs() {
		list = sourceWorkers(in, list)
	}
	return list
}

// deviceRun submits the tasks of operators on devices.
type deviceRun struct {
	ctx     context.Context
	c       *client.Client
	workers []string
	used    []func() // release the futures between operators
}

// kernels reports whether the devices of all workers run kernels.
func (x *deviceRun) kernels() (bool, error) {
	checks := make([]*client.Future[bool], len(x.workers))
	for i, w := range x.workers {
		checks[i] = deviceKernels.Submit(x.ctx, x.c, client.Val(w), client.WithWorkers(w), client.WithImpure())
	}
	defer client.ReleaseAll(checks)
	ok, err := client.Gather(x.ctx, checks)
	return err == nil && !slices.Contains(ok, false), withKind(err)
}

// run submits the tasks of an operator and returns its result.
func (x *deviceRun) run(n plan.Node) (*Frame, error) {
	defer func() {
		for _, f := range x.used {
			f()
		}
	}()
	r, err := x.rows(n)
	if err != nil {
		return nil, err
	}
	return newDeviceFrame(x.c, n.Schema(), cloneFutures(x.c, r.parts), x.workers), nil
}

// placedRows are the rows of an operator on devices: columns of batches, with the names of the plan.
type placedRows struct {
	parts  []*client.Future[wire.Dict]
	names  []string // of the columns in the batches
	schema *arrow.Schema
}

func (r placedRows) columns() (columnStep, error) {
	b, err := encodeSchema(r.schema)
	return columnStep{Names: r.names, Schema: b}, err
}

func (x *deviceRun) rows(n plan.Node) (placedRows, error) {
	switch n := n.(type) {
	case *plan.Source:
		f := n.Table.(frameTable).f
		return placedRows{f.device, fieldNames(f.schema), f.schema}, f.usable()
	case *plan.Project:
		in, err := x.rows(n.In)
		if err != nil {
			return in, err
		}
		out := placedRows{parts: in.parts, schema: n.Schema()}
		for _, c := range n.Cols {
			i, err := columnIndex(in.schema, expr.Columns(c.Expr)[0])
			if err != nil {
				return out, err
			}
			out.names = append(out.names, in.names[i])
		}
		return out, nil
	case *plan.Aggregate:
		return x.group(n)
	}
	return x.join(n.(*plan.Join))
}

func fieldNames(s *arrow.Schema) []string {
	names := make([]string, s.NumFields())
	for i := range names {
		names[i] = s.Field(i).Name
	}
	return names
}

// made returns the rows of new batches, whose futures are released at the end of the run.
func (x *deviceRun) made(s *arrow.Schema, parts []*client.Future[wire.Dict]) placedRows {
	x.used = append(x.used, func() { client.ReleaseAll(parts) })
	return placedRows{parts, fieldNames(s), s}
}

// buckets divides rows by the hash of keys, and returns the buckets of each of n partitions.
func (x *deviceRun) buckets(r placedRows, keys []string, n int) ([][]*client.Future[wire.Dict], columnStep, error) {
	in, err := r.columns()
	if err != nil || n == 1 {
		return [][]*client.Future[wire.Dict]{r.parts}, in, err
	}
	out := make([][]*client.Future[wire.Dict], n)
	for _, p := range r.parts {
		list := deviceSplit.Submit(x.ctx, x.c, p, client.Val(in), client.Val(keys), client.Val(n),
			client.WithWorkers(x.workers...), client.WithImpure())
		x.used = append(x.used, func() { list.Release() })
		for i := range out {
			out[i] = append(out[i], deviceBucket.Submit(x.ctx, x.c, list, client.Val(i),
				client.WithWorkers(x.workers...)))
		}
	}
	for _, list := range out {
		x.used = append(x.used, func() { client.ReleaseAll(list) })
	}
	in.Names = fieldNames(r.schema)
	return out, in, nil
}

func (x *deviceRun) group(n *plan.Aggregate) (placedRows, error) {
	in, err := x.rows(n.In)
	if err != nil {
		return in, err
	}
	count := 1
	if len(n.Keys) > 0 && len(in.parts) > 1 {
		count = x.partitions(len(in.parts))
	}
	buckets, columns, err := x.buckets(in, n.Keys, count)
	if err != nil {
		return in, err
	}
	g := groupStep{In: columns, Keys: n.Keys, Aggs: n.Aggs}
	if g.Schema, err = encodeSchema(n.Schema()); err != nil {
		return in, err
	}
	out := make([]*client.Future[wire.Dict], count)
	for i, list := range buckets {
		out[i] = deviceGroupPart.Submit(x.ctx, x.c, client.List(client.Args(list)...), client.Val(g),
			client.WithWorkers(x.workers...), client.WithImpure())
	}
	return x.made(n.Schema(), out), nil
}

func (x *deviceRun) join(n *plan.Join) (placedRows, error) {
	left, err := x.rows(n.Left)
	if err != nil {
		return left, err
	}
	right, err := x.rows(n.Right)
	if err != nil {
		return right, err
	}
	count := 1
	if most := max(len(left.parts), len(right.parts)); most > 1 {
		count = x.partitions(most)
	}
	j := joinStep{Kind: deviceJoins[n.Kind], LeftKeys: n.LeftKeys, RightKeys: n.RightKeys}
	var lists [2][][]*client.Future[wire.Dict]
	if lists[0], j.Left, err = x.buckets(left, n.LeftKeys, count); err != nil {
		return left, err
	}
	if lists[1], j.Right, err = x.buckets(right, n.RightKeys, count); err != nil {
		return right, err
	}
	for _, f := range n.Schema().Fields() {
		if len(left.schema.FieldIndices(f.Name)) > 0 {
			j.LeftOut = append(j.LeftOut, f.Name)
		} else {
			j.RightOut = append(j.RightOut, f.Name)
		}
	}
	if j.Schema, err = encodeSchema(n.Schema()); err != nil {
		return left, err
	}
	out := make([]*client.Future[wire.Dict], count)
	for i := range out {
		out[i] = deviceJoinPart.Submit(x.ctx, x.c, client.List(client.Args(lists[0][i])...),
			client.List(client.Args(lists[1][i])...), client.Val(j), client.WithWorkers(x.workers...),
			client.WithImpure())
	}
	return x.made(n.Schema(), out), nil
}

// partitions returns the number of partitions of the result of an exchange: a partition for every worker, and as many
// as the input has.
func (x *deviceRun) partitions(inputs int) int {
	return min(max(inputs, len(x.workers)), gpu.MaxPartitions)
}
