package stages

import (
	"fmt"
	"sync"
	"weak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/scan"
)

// Join is an operator that joins the rows of a task, which it probes, with a table that it builds.
type Join struct {
	Kind join.Kind
	// Keys are columns of the rows, BuildKeys those of the table.
	Keys, BuildKeys []string
	// Left and Right are the columns of the result.
	Left, Right []string
	// Build is the encoded schema of the table.
	Build []byte
	// Cond is a further condition, on columns of both sides.
	Cond *expr.Expr
	// NullAware is that of join.Options.
	NullAware bool
	// From and To are the range of the builds of the task that are the rows of the table.
	From, To int
	// Table identifies a table that several tasks use, "" for one of this task only.
	Table string
}

func (j *Join) open(e *env, in *arrow.Schema) (link, error) {
	build, err := scan.DecodeSchema(j.Build)
	if err != nil {
		return link{}, err
	}
	o := join.Options{Kind: j.Kind, NullAware: j.NullAware}
	if o.Keys, err = columnsAt(in, j.Keys); err != nil {
		return link{}, err
	}
	if o.Left, err = columnsAt(in, j.Left); err != nil {
		return link{}, err
	}
	if o.Right, err = columnsAt(build, j.Right); err != nil {
		return link{}, err
	}
	if o.Condition, err = j.condition(in, build); err != nil {
		return link{}, err
	}
	if j.From < 0 || j.To < j.From || j.To > len(e.builds) {
		return link{}, fmt.Errorf("no right side: %d to %d of %d", j.From, j.To, len(e.builds))
	}
	t, err := j.table(e, build)
	if err != nil {
		return link{}, err
	}
	p, err := t.Probe(in, o)
	if err != nil {
		return link{}, err
	}
	return link{p.Schema(), func(next sink) sink { return &joiner{p, next} }}, nil
}

// condition returns the further condition of the join.
func (j *Join) condition(in, build *arrow.Schema) (*join.Condition, error) {
	if j.Cond == nil {
		return nil, nil
	}
	c := &join.Condition{}
	var left, right []arrow.Field
	for _, name := range expr.Columns(*j.Cond) {
		if at := in.FieldIndices(name); len(at) > 0 {
			c.Left, left = append(c.Left, at[0]), append(left, in.Field(at[0]))
			continue
		}
		at, err := expr.ColumnIndex(build, name)
		if err != nil {
			return nil, err
		}
		c.Right, right = append(c.Right, at), append(right, build.Field(at))
	}
	schema := arrow.NewSchema(append(left, right...), nil)
	b, err := expr.BindCondition(*j.Cond, schema)
	if err != nil {
		return nil, err
	}
	c.Eval = func(l, r arrow.RecordBatch) (*array.Boolean, error) {
		columns := append(append([]arrow.Array(nil), l.Columns()...), r.Columns()...)
		out, err := b.Eval(array.NewRecordBatch(schema, columns, l.NumRows()))
		if err != nil {
			return nil, err
		}
		return out.(*array.Boolean), nil
	}
	return c, nil
}

// joiner is the sink of a join.
type joiner struct {
	p    *join.Prober
	next sink
}

func (j *joiner) push(b arrow.RecordBatch) error { return j.p.Add(b, j.next.push) }

func (j *joiner) finish() error { return end(j.p.Finish(j.next.push), j.next) }

// table returns the table of the right side. Tasks of one process share that of a broadcast.
func (j *Join) table(e *env, build *arrow.Schema) (*join.Table, error) {
	make := func() (*join.Table, error) {
		keys, err := columnsAt(build, j.BuildKeys)
		if err != nil {
			return nil, err
		}
		var all []arrow.RecordBatch
		for _, b := range e.builds[j.From:j.To] {
			all = append(all, b...)
		}
		return join.Build(build, all, keys)
	}
	if j.Table == "" {
		return make()
	}
	return tables.get(j.Table, make)
}

// tables are the tables of broadcasts that tasks of this process use. They live as long as a task uses them, and then
// until the next garbage collection, so that tasks that follow each other find them.
var tables = shared{entries: map[string]*entry{}}

type shared struct {
	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	sync.Mutex
	table weak.Pointer[join.Table]
}

// get returns the table of a key, which one of the concurrent callers builds.
func (s *shared) get(key string, build func() (*join.Table, error)) (*join.Table, error) {
	s.mu.Lock()
	e := s.entries[key]
	if e == nil {
		e = &entry{}
		s.entries[key] = e
	}
	s.sweep(key)
	s.mu.Unlock()
	e.Lock()
	defer e.Unlock()
	if t := e.table.Value(); t != nil {
		return t, nil
	}
	t, err := build()
	if err != nil {
		return nil, err
	}
	e.table = weak.Make(t)
	return t, nil
}

// sweep removes entries whose tables are gone, except that of key.
func (s *shared) sweep(key string) {
	if len(s.entries) < 64 {
		return
	}
	for k, e := range s.entries {
		if k == key || !e.TryLock() {
			continue
		}
		if e.table.Value() == nil {
			delete(s.entries, k)
		}
		e.Unlock()
	}
}
