package stages

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/group"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
)

// Group is an operator that computes aggregates of groups, or a part of that work.
type Group struct {
	Keys []string
	Aggs []plan.Agg
	Mode group.Mode
	// Rows is the encoded schema of the rows that are grouped, also if the input has states.
	Rows []byte
}

func (g *Group) open(e *env, in *arrow.Schema) (link, error) {
	rows, err := scan.DecodeSchema(g.Rows)
	if err != nil {
		return link{}, err
	}
	keys, specs, err := plan.Specs(rows, g.Keys, g.Aggs)
	if err != nil {
		return link{}, err
	}
	x, err := group.New(rows, keys, specs, g.Mode)
	if err != nil {
		return link{}, err
	}
	if err := x.SetPosition(e.task.Partition, 0); err != nil {
		return link{}, err
	}
	return link{x.Schema(), func(next sink) sink {
		return &grouper{g: x, mayPass: g.Mode == group.Partial && len(keys) > 0, next: next}
	}}, nil
}

// grouper is the sink of a Group.
type grouper struct {
	g       *group.Grouper
	rows    int64
	mayPass bool
	passes  bool // rows become states without being grouped, because there are hardly less groups
	before  int64
	groups  int64 // after the rows before
	next    sink
}

// useless reports whether a partial aggregate should pass rows through: most of the last half of its rows were the
// first of their groups or, after many rows, there are more than half as many groups as rows. It decides whenever the
// number of rows has doubled: many rows of few partitions meet groups again that the first rows do not.
func (g *grouper) useless() bool {
	if g.rows < max(morsel, 2*g.before) {
		return false
	}
	before, groups := g.before, g.groups
	g.before, g.groups = g.rows, int64(g.g.Groups())
	if before == 0 {
		return false
	}
	return g.groups-groups > (g.rows-before)*3/4 || g.rows >= 8*morsel && g.groups > g.rows/2
}

func (g *grouper) push(b arrow.RecordBatch) error {
	if g.passes {
		out, err := g.g.States(b)
		if err != nil {
			return err
		}
		return g.next.push(out)
	}
	if err := g.g.Add(b); err != nil {
		return err
	}
	g.rows += b.NumRows()
	if g.mayPass && g.useless() {
		g.passes = true
		return g.emit()
	}
	return nil
}

// emit passes the groups on.
func (g *grouper) emit() error {
	out, err := g.g.Finish()
	if err != nil || out.NumRows() == 0 {
		return err
	}
	return g.next.push(out)
}

func (g *grouper) finish() error {
	if g.passes {
		return g.next.finish()
	}
	return end(g.emit(), g.next)
}

// mergeTasks is the number of partial aggregates that one task merges.
const mergeTasks = 16

// lowerAggregate computes aggregates of every partition, and merges them: few groups in a tree of tasks, many by an
// exchange of the groups by the hash of their keys.
func (r *Runner) lowerAggregate(ctx context.Context, n *plan.Aggregate) (*flow, error) {
	f, err := r.lower(ctx, n.In)
	if err != nil {
		return nil, err
	}
	rows := n.In.Schema()
	encoded, err := scan.EncodeSchema(rows)
	if err != nil {
		return nil, err
	}
	keys, specs, err := plan.Specs(rows, n.Keys, n.Aggs)
	if err != nil {
		return nil, err
	}
	states, err := group.StateSchema(rows, keys, specs)
	if err != nil {
		return nil, err
	}
	op := func(phase string, m group.Mode) Op {
		return Op{Node: r.number(n), Phase: phase, Group: &Group{Keys: n.Keys, Aggs: n.Aggs, Mode: m, Rows: encoded}}
	}
	if len(f.parts) == 1 {
		f.add(op("", group.Complete), n.Schema())
		f.rows, f.bytes = r.guess(n)
		f.measured = false
		return f, nil
	}
	f.add(op("partial", group.Partial), states)
	if f, err = r.measure(ctx, f); err != nil {
		return nil, err
	}
	groups, bytes := f.rows, f.bytes
	buckets := r.partitions(bytes, len(f.parts))
	if len(n.Keys) == 0 || bytes <= r.cfg.MergeBytes || buckets == 1 {
		if f, err = r.mergeTree(ctx, f, op("merge", group.Merge)); err != nil {
			return nil, err
		}
	} else {
		outs := r.submit(ctx, f, Buckets{N: buckets, Keys: n.Keys})
		if f, err = r.exchange(ctx, outs, buckets, states); err != nil {
			return nil, err
		}
	}
	f.add(op("final", group.Final), n.Schema())
	f.rows, f.bytes, f.measured = groups, bytes, false
	return f, nil
}

// mergeTree merges partitions of measured states until few are left, which are one partition of the result.
func (r *Runner) mergeTree(ctx context.Context, f *flow, merge Op) (*flow, error) {
	for len(f.parts) > mergeTasks {
		next := &flow{schema: f.schema}
		for at := 0; at < len(f.parts); at += mergeTasks {
			some := &flow{schema: f.schema, parts: f.parts[at:min(len(f.parts), at+mergeTasks)]}
			next.parts = append(next.parts, together(some).parts...)
		}
		next.add(merge, f.schema)
		one, err := r.exchange(ctx, r.submit(ctx, next, Buckets{}), 1, f.schema)
		if err != nil {
			return nil, err
		}
		f = apart(one)
	}
	return together(f), nil
}
