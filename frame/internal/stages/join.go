package stages

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// kernelKinds are the kinds of joins of package join; the second is that with the sides exchanged.
var kernelKinds = map[plan.JoinKind][2]join.Kind{
	plan.Inner: {join.Inner, join.Inner}, plan.Left: {join.Left, join.Right}, plan.Full: {join.Full, join.Full},
	plan.Semi: {join.Semi, join.Semi}, plan.Anti: {join.Anti, join.Anti}, plan.Cross: {join.Cross, join.Cross},
}

// lowerJoin joins two flows. A small side is sent to all tasks of the other; otherwise both are exchanged by the hash
// of their keys.
func (r *Runner) lowerJoin(ctx context.Context, n *plan.Join) (*flow, error) {
	if err := r.measureTables(ctx, n); err != nil {
		return nil, err
	}
	left, err := r.lower(ctx, n.Left)
	if err != nil {
		return nil, err
	}
	right, err := r.lower(ctx, n.Right)
	if err != nil {
		return nil, err
	}
	j := &joining{r: r, n: n, probe: left, build: right}
	// The table is that of the smaller side, if the kind allows it.
	if n.Kind != plan.Semi && n.Kind != plan.Anti && less(left.bytes, right.bytes) {
		j.swap()
	}
	out, err := j.run(ctx)
	if err != nil {
		return nil, err
	}
	out.rows, out.bytes = r.guess(n)
	out.measured = false
	return out, nil
}

// less reports whether a size is known to be less than another.
func less(a, b int64) bool { return a >= 0 && (b < 0 || a < b) }

// joining is a join of two flows.
type joining struct {
	r            *Runner
	n            *plan.Join
	probe, build *flow
	swapped      bool // probe is the right side
}

func (j *joining) swap() { j.probe, j.build, j.swapped = j.build, j.probe, !j.swapped }

// broadcasts reports whether the kind allows to send the table to all tasks: no row of the table is returned by itself,
// because several tasks would return it.
func (j *joining) broadcasts() bool {
	return j.n.Kind != plan.Full && !(j.n.Kind == plan.Left && j.swapped)
}

func (j *joining) run(ctx context.Context) (*flow, error) {
	r, limit := j.r, j.r.cfg.BroadcastBytes
	if len(j.n.LeftKeys) == 0 || j.n.NullAware {
		// Without keys there is no exchange: every row meets every row.
		if j.n.Kind == plan.Left && j.swapped {
			j.swap()
		}
		limit = 1 << 62
	}
	if j.n.Kind == plan.Full && limit == 1<<62 {
		return j.oneTask(ctx)
	}
	if !j.broadcasts() {
		if j.n.Kind == plan.Full || !less(j.probe.bytes, limit) {
			return j.exchange(ctx)
		}
		j.swap() // the right side is small as well
	}
	if limit < 0 || j.build.bytes > 4*limit && !j.build.measured {
		return j.exchange(ctx)
	}
	if len(j.build.parts) > 0 && !submitted(j.build) {
		m, err := r.measure(ctx, j.build)
		if err != nil {
			return nil, err
		}
		j.build = m
	}
	if j.build.bytes > limit {
		return j.exchange(ctx)
	}
	return j.broadcast()
}

// submitted reports whether a flow is the measured results of tasks, without operators on them.
func submitted(f *flow) bool {
	for _, p := range f.parts {
		if len(p.ops) > 0 || p.split != nil || len(p.first) > 0 {
			return false
		}
	}
	return f.measured
}

// broadcast sends the table to all tasks of the other side.
func (j *joining) broadcast() (*flow, error) {
	j.r.tables++
	table := fmt.Sprintf("%s-%d", j.r.id, j.r.tables)
	var builds []*client.Future[Batches]
	for _, p := range j.build.parts {
		builds = append(builds, p.lists...)
	}
	out := *j.probe
	out.parts = slices.Clone(j.probe.parts)
	for i := range out.parts {
		p := &out.parts[i]
		op, err := j.op(len(p.builds), len(builds), table)
		if err != nil {
			return nil, err
		}
		op.Phase = "broadcast"
		p.ops = append(slices.Clip(p.ops), op)
		p.builds = append(slices.Clip(p.builds), builds...)
	}
	return j.ordered(&out), nil
}

// exchange divides both sides by the hash of their keys.
func (j *joining) exchange(ctx context.Context) (*flow, error) {
	r := j.r
	bytes := int64(-1)
	if j.probe.bytes >= 0 && j.build.bytes >= 0 {
		bytes = j.probe.bytes + j.build.bytes
	}
	n := r.partitions(bytes, max(len(j.probe.parts), len(j.build.parts)))
	probeKeys, buildKeys := j.keys()
	probe, err := r.exchange(ctx, r.submit(ctx, j.probe, Buckets{N: n, Keys: probeKeys}), n, j.probe.schema)
	if err != nil {
		return nil, err
	}
	build, err := r.exchange(ctx, r.submit(ctx, j.build, Buckets{N: n, Keys: buildKeys}), n, j.build.schema)
	if err != nil {
		return nil, err
	}
	return j.zip(probe, build)
}

// oneTask joins all rows in one task.
func (j *joining) oneTask(ctx context.Context) (*flow, error) {
	r := j.r
	probe, err := r.measure(ctx, j.probe)
	if err != nil {
		return nil, err
	}
	build, err := r.measure(ctx, j.build)
	if err != nil {
		return nil, err
	}
	return j.zip(together(probe), together(build))
}

// zip joins the partitions of both sides one by one.
func (j *joining) zip(probe, build *flow) (*flow, error) {
	for i := range probe.parts {
		p := &probe.parts[i]
		op, err := j.op(0, len(build.parts[i].lists), "")
		if err != nil {
			return nil, err
		}
		p.builds, p.ops = build.parts[i].lists, []Op{op}
	}
	return j.ordered(probe), nil
}

// keys returns those of the two sides.
func (j *joining) keys() (probe, build []string) {
	if j.swapped {
		return j.n.RightKeys, j.n.LeftKeys
	}
	return j.n.LeftKeys, j.n.RightKeys
}

// op returns the operator for a table in n builds of a task.
func (j *joining) op(from, n int, table string) (Op, error) {
	encoded, err := scan.EncodeSchema(j.build.schema)
	if err != nil {
		return Op{}, err
	}
	k := kernelKinds[j.n.Kind][0]
	if j.swapped {
		k = kernelKinds[j.n.Kind][1]
	}
	x := &Join{Kind: k, Build: encoded, Cond: j.n.Cond, NullAware: j.n.NullAware, From: from, To: from + n,
		Table: table}
	x.Keys, x.BuildKeys = j.keys()
	for _, f := range j.n.Schema().Fields() {
		if has(j.probe.schema, f.Name) {
			x.Left = append(x.Left, f.Name)
		} else {
			x.Right = append(x.Right, f.Name)
		}
	}
	return Op{Node: j.r.number(j.n), Join: x}, nil
}

func has(s *arrow.Schema, name string) bool { return len(s.FieldIndices(name)) > 0 }

// ordered adds the projection to the order of the columns of the plan, if the sides are exchanged.
func (j *joining) ordered(f *flow) *flow {
	f.schema = j.n.Schema()
	if j.swapped {
		var cols []plan.Named
		for _, x := range j.n.Schema().Fields() {
			cols = append(cols, plan.Named{Name: x.Name, Expr: expr.Col(x.Name)})
		}
		f.add(Op{Node: j.r.number(j.n), Phase: "order", Project: cols}, j.n.Schema())
	}
	return f
}
