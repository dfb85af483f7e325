package stages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/scan"
	"go.millstream.dev/frame/internal/vec"
	"go.millstream.dev/internal/wire/arrowipc"
)

// morsel is the number of rows that pass the operators at once: few enough for the caches.
const morsel = 64 << 10

// Input is the input of a task.
type Input struct {
	First  []arrow.RecordBatch
	Lists  []Batches
	Builds []Batches
}

// sink takes the rows that an operator returns.
type sink interface {
	// push takes a batch. It returns errDone if it needs no more.
	push(b arrow.RecordBatch) error
	// finish is called after the last batch.
	finish() error
}

// errDone is returned by operators that need no more rows.
var errDone = errors.New("stages: no more rows needed")

// env is what operators know of their task.
type env struct {
	ctx    context.Context
	task   *Task
	builds []Batches
}

// link is an operator whose columns are known.
type link struct {
	schema *arrow.Schema // of the result
	make   func(next sink) sink
}

// Execute runs the operators on the input and returns the buckets, each with at least one batch.
func (t *Task) Execute(ctx context.Context, in Input) (Out, error) {
	out, err := t.execute(ctx, in)
	if err != nil {
		return out, t.located(err)
	}
	return out, nil
}

// located adds the partition and the file to an error.
func (t *Task) located(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	where := fmt.Sprintf("partition %d", t.Partition)
	if t.Split != nil {
		where += ", file " + t.Split.Path
	}
	if f, ok := errors.AsType[*opError](err); ok {
		return fmt.Errorf("frame: %s, %s: %w", f.op, where, f.err)
	}
	return fmt.Errorf("frame: %s: %w", where, err)
}

// opError is an error of an operator.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

func (t *Task) execute(ctx context.Context, in Input) (_ Out, err error) {
	defer func() {
		if p := recover(); p != nil { // of the Arrow library, for invalid data
			err = fmt.Errorf("invalid data: %v", p)
		}
	}()
	schema, err := scan.DecodeSchema(t.Schema)
	if err != nil {
		return Out{}, err
	}
	e := &env{ctx: ctx, task: t, builds: in.Builds}
	links := make([]link, len(t.Ops))
	at := schema
	for i := range t.Ops {
		if links[i], err = t.Ops[i].open(e, at); err != nil {
			return Out{}, &opError{t.Ops[i].name(), err}
		}
		at = links[i].schema
	}
	c, err := newCollector(at, t.Buckets)
	if err != nil {
		return Out{}, err
	}
	meters := make([]*meter, len(links)+1)
	meters[len(links)] = &meter{next: c}
	for i := len(links) - 1; i >= 0; i-- {
		meters[i] = &meter{next: &named{t.Ops[i].name(), links[i].make(meters[i+1])}}
	}
	from := time.Now()
	if err := t.feed(ctx, in, meters[0]); err != nil && !errors.Is(err, errDone) {
		return Out{}, err
	}
	if err := meters[0].finish(); err != nil && !errors.Is(err, errDone) {
		return Out{}, err
	}
	out := c.out()
	out.Stats.Ops = make([]OpStats, len(meters))
	before := time.Since(from)
	for i, m := range meters {
		out.Stats.Ops[i] = OpStats{Node: -1, Rows: m.rows, Bytes: m.bytes, Nanos: int64(before - m.total)}
		if i > 0 {
			out.Stats.Ops[i].Node, out.Stats.Ops[i].Phase = t.Ops[i-1].Node, t.Ops[i-1].Phase
		}
		before = m.total
	}
	return out, nil
}

// named adds the name of an operator to its errors.
type named struct {
	name string
	sink
}

func (n *named) push(b arrow.RecordBatch) error { return n.wrap(n.sink.push(b)) }
func (n *named) finish() error                  { return n.wrap(n.sink.finish()) }

func (n *named) wrap(err error) error {
	if err == nil || errors.Is(err, errDone) {
		return err
	}
	if _, ok := errors.AsType[*opError](err); ok { // of an operator after this one
		return err
	}
	return &opError{n.name, err}
}

// feed passes all rows of the input to the first operator.
func (t *Task) feed(ctx context.Context, in Input, to sink) error {
	if t.Split != nil {
		for b, err := range scan.Read(ctx, *t.Split, t.Read) {
			if err != nil {
				return err
			}
			if err := to.push(b); err != nil {
				return err
			}
		}
		return nil
	}
	cut := slices.ContainsFunc(t.Ops, func(o Op) bool { return !o.renames() })
	for _, b := range in.First {
		if err := feedBatch(ctx, b, cut, to); err != nil {
			return err
		}
	}
	for _, l := range in.Lists {
		for _, b := range l {
			if err := feedBatch(ctx, b, cut, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// feedBatch passes a batch on, in slices if there are operators that profit from the caches.
func feedBatch(ctx context.Context, b arrow.RecordBatch, cut bool, to sink) error {
	if b == nil {
		return errors.New("partition is nil")
	}
	if b.NumRows() == 0 {
		return nil
	}
	if !cut || b.NumRows() <= morsel+morsel/2 {
		return to.push(b)
	}
	for from := int64(0); from < b.NumRows(); from += morsel {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := to.push(b.NewSlice(from, min(from+morsel, b.NumRows()))); err != nil {
			return err
		}
	}
	return nil
}

// collector is the last sink of a task: it keeps the rows and divides them into buckets.
type collector struct {
	schema  *arrow.Schema
	divide  func(b arrow.RecordBatch) ([]arrow.RecordBatch, error) // nil: one bucket
	batches Batches
	waiting int64 // rows of batches that are not divided yet
	buckets []Batches
}

// divideRows is the number of rows that are divided at once, so that buckets have few batches.
const divideRows = 1 << 20

func newCollector(s *arrow.Schema, b Buckets) (*collector, error) {
	c := &collector{schema: s, buckets: make([]Batches, max(1, b.N))}
	var err error
	if b.N > 1 {
		c.divide, err = b.divider(s)
	}
	return c, err
}

func (c *collector) push(b arrow.RecordBatch) error {
	if b.NumRows() == 0 {
		return nil
	}
	c.batches = append(c.batches, b)
	c.waiting += b.NumRows()
	if c.divide != nil && c.waiting >= divideRows {
		return c.flush()
	}
	return nil
}

func (c *collector) finish() error { return c.flush() }

// flush divides the rows that wait.
func (c *collector) flush() error {
	if len(c.batches) == 0 {
		return nil
	}
	batches := c.batches
	c.batches, c.waiting = nil, 0
	if c.divide == nil {
		c.buckets[0] = append(c.buckets[0], batches...)
		return nil
	}
	b, err := vec.Concat(c.schema, batches)
	if err != nil {
		return err
	}
	parts, err := c.divide(b)
	if err != nil {
		return err
	}
	for i, p := range parts {
		if p.NumRows() > 0 {
			c.buckets[i] = append(c.buckets[i], p)
		}
	}
	return nil
}

// out returns the buckets. An empty one has a batch as well, for its schema.
func (c *collector) out() Out {
	o := Out{Buckets: c.buckets}
	o.Stats.Buckets = make([]Size, len(o.Buckets))
	for i, b := range o.Buckets {
		if len(b) == 0 {
			o.Buckets[i] = Batches{vec.Empty(c.schema)}
		}
		for _, x := range b {
			arrowipc.Prepare(x) // tasks share it
			o.Stats.Buckets[i].Rows += x.NumRows()
			o.Stats.Buckets[i].Bytes += vec.Bytes(x)
		}
		o.Stats.Rows += o.Stats.Buckets[i].Rows
		o.Stats.Bytes += o.Stats.Buckets[i].Bytes
	}
	return o
}
