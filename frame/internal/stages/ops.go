package stages

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/vec"
)

// Op is an operator of a task: one of the fields.
type Op struct {
	// Node is the number of the operator of the plan, Phase the part of its work.
	Node  int
	Phase string

	Filter   *expr.Expr
	Project  []plan.Named
	Group    *Group
	Join     *Join
	Sort     *Sort
	Limit    *Limit
	Sample   *Sample
	Window   *Window
	Describe *plan.Summary
}

// Limit keeps the rows From to To of a task.
type Limit struct{ From, To int64 }

// Sample keeps rows with a probability.
type Sample struct {
	Fraction float64
	Seed     uint64
}

// name returns the name of the operator in errors.
func (o *Op) name() string {
	switch {
	case o.Filter != nil:
		return "Filter"
	case o.Project != nil:
		return "Select"
	case o.Group != nil:
		return "GroupBy"
	case o.Join != nil:
		return "Join"
	case o.Sort != nil:
		return "Sort"
	case o.Limit != nil:
		return "Limit"
	case o.Sample != nil:
		return "Sample"
	case o.Window != nil:
		return "Window"
	case o.Describe != nil:
		return "Describe"
	}
	return "operator"
}

// renames reports whether the operator only selects and renames columns, so that rows need not pass it in slices.
func (o *Op) renames() bool {
	return o.Project != nil && !slices.ContainsFunc(o.Project, func(c plan.Named) bool {
		return expr.Unnamed(c.Expr).Op != expr.OpColumn
	})
}

// open resolves the operator against the columns of its input.
func (o *Op) open(e *env, in *arrow.Schema) (link, error) {
	switch {
	case o.Filter != nil:
		return openFilter(*o.Filter, in)
	case o.Project != nil:
		return openProject(o.Project, in)
	case o.Group != nil:
		return o.Group.open(e, in)
	case o.Join != nil:
		return o.Join.open(e, in)
	case o.Sort != nil:
		return o.Sort.open(in)
	case o.Limit != nil:
		return link{in, func(next sink) sink { return &limiter{next: next, limit: *o.Limit} }}, nil
	case o.Sample != nil:
		return link{in, func(next sink) sink { return newSampler(*o.Sample, e.task.Partition, next) }}, nil
	case o.Window != nil:
		return o.Window.open(in)
	case o.Describe != nil:
		return openDescribe(o.Describe, in)
	}
	return link{}, errors.New("unknown operator; all processes of the cluster must run the same program")
}

// filter is a sink that keeps the rows for which a condition is true.
type filter struct {
	cond *expr.Bound
	next sink
}

func openFilter(e expr.Expr, in *arrow.Schema) (link, error) {
	b, err := expr.Bind(e, in)
	if err != nil {
		return link{}, err
	}
	return link{in, func(next sink) sink { return &filter{b, next} }}, nil
}

func (f *filter) push(b arrow.RecordBatch) error {
	out, err := f.cond.Filter(b)
	if err != nil || out.NumRows() == 0 {
		return err
	}
	return f.next.push(out)
}

func (f *filter) finish() error { return f.next.finish() }

// projection is a sink that computes columns.
type projection struct {
	schema *arrow.Schema
	cols   []*expr.Bound // nil: column at
	at     []int
	next   sink
}

func openProject(cols []plan.Named, in *arrow.Schema) (link, error) {
	p := projection{cols: make([]*expr.Bound, len(cols)), at: make([]int, len(cols))}
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		if x := expr.Unnamed(c.Expr); x.Op == expr.OpColumn {
			at, err := expr.ColumnIndex(in, x.Name)
			if err != nil {
				return link{}, err
			}
			p.at[i], fields[i] = at, in.Field(at)
			fields[i].Name = c.Name
			continue
		}
		b, err := expr.Bind(c.Expr, in)
		if err != nil {
			return link{}, err
		}
		p.cols[i], fields[i] = b, arrow.Field{Name: c.Name, Type: b.Type(), Nullable: true}
	}
	p.schema = arrow.NewSchema(fields, nil)
	return link{p.schema, func(next sink) sink {
		p.next = next
		return &p
	}}, nil
}

func (p *projection) push(b arrow.RecordBatch) error {
	columns := make([]arrow.Array, len(p.cols))
	for i, c := range p.cols {
		if c == nil {
			columns[i] = b.Column(p.at[i])
			continue
		}
		var err error
		if columns[i], err = c.Eval(b); err != nil {
			return err
		}
	}
	return p.next.push(array.NewRecordBatch(p.schema, columns, b.NumRows()))
}

func (p *projection) finish() error { return p.next.finish() }

// limiter is a sink that keeps a range of rows.
type limiter struct {
	limit Limit
	at    int64
	next  sink
}

func (l *limiter) push(b arrow.RecordBatch) error {
	from, to := max(l.limit.From-l.at, 0), min(l.limit.To-l.at, b.NumRows())
	l.at += b.NumRows()
	if from < to {
		if from > 0 || to < b.NumRows() {
			b = b.NewSlice(from, to)
		}
		if err := l.next.push(b); err != nil {
			return err
		}
	}
	if l.at >= l.limit.To {
		return errDone
	}
	return nil
}

func (l *limiter) finish() error { return l.next.finish() }

// sampler is a sink that keeps rows with a probability. Its choice depends on the seed, the number of the partition and
// the number of the row in it.
type sampler struct {
	hash  uint64
	least uint64 // rows whose hash is less are kept
	all   bool
	row   uint64
	next  sink
}

func newSampler(s Sample, partition int, next sink) *sampler {
	return &sampler{hash: vec.HashWord(vec.HashWord(vec.HashSeed, s.Seed), uint64(partition)),
		least: uint64(s.Fraction * (1 << 63)), all: s.Fraction >= 1, next: next}
}

func (s *sampler) push(b arrow.RecordBatch) error {
	var rows []int32
	for i := range int(b.NumRows()) {
		if s.all || vec.HashWord(s.hash, s.row)>>1 < s.least {
			rows = append(rows, int32(i))
		}
		s.row++
	}
	if len(rows) == 0 {
		return nil
	}
	out, err := vec.Take(b, rows)
	if err != nil {
		return err
	}
	return s.next.push(out)
}

func (s *sampler) finish() error { return s.next.finish() }

// end passes the last batches of an operator on and finishes the next.
func end(err error, next sink) error {
	if err != nil && !errors.Is(err, errDone) {
		return err
	}
	return next.finish()
}

// columnsAt returns the numbers of columns.
func columnsAt(s *arrow.Schema, names []string) ([]int, error) {
	out := make([]int, len(names))
	for i, name := range names {
		at, err := expr.ColumnIndex(s, name)
		if err != nil {
			return nil, fmt.Errorf("%w", err)
		}
		out[i] = at
	}
	return out, nil
}
