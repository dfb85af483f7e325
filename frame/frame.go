package frame

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

// Frame is a distributed table: an ordered set of futures of Arrow record batches with one schema, in the memory of the
// workers of a cluster or of their GPUs (see Location). It is immutable: operations return another frame, whose tasks
// start on the workers at once. Any number of goroutines may use it.
//
// Only ToDevice, ToHost, Collect and Table, which copy the rows to the client, and Filter and Repartition of a frame on
// devices, which work in the memory of its workers, copy from one location to the other. Other operations return
// ErrLocation if they do not support the location of a frame.
//
// A frame owns its futures, which are released by Release or the garbage collector. A frame that was derived from
// others stays valid when those are released.
type Frame struct {
	c        *client.Client
	schema   *arrow.Schema
	loc      Location
	parts    []*client.Future[arrow.RecordBatch] // of Host
	device   []*client.Future[wire.Dict]         // of Device
	workers  []string                            // of Device: those that have a GPU
	released atomic.Bool
}

// New returns a frame of futures, which it takes over, of record batches with a schema. Tasks check the schema where
// the batches are; a partition of another schema is an error of everything that is derived from it.
func New(ctx context.Context, c *client.Client, schema *arrow.Schema,
	parts []*client.Future[arrow.RecordBatch]) (*Frame, error) {
	if schema == nil {
		return nil, errors.New("frame: New without a schema; use Of, which takes that of the first partition")
	}
	return newChecked(ctx, c, schema, parts)
}

// Of is New with the schema of the first partition, for which it waits.
func Of(ctx context.Context, c *client.Client, parts []*client.Future[arrow.RecordBatch]) (*Frame, error) {
	if len(parts) == 0 {
		return nil, errors.New("frame: Of without partitions, which have no schema; use New")
	}
	b, err := schemaOf.Submit(ctx, c, parts[0]).Result(ctx)
	if err != nil {
		return nil, withKind(err)
	}
	schema, err := decodeSchema(b)
	if err != nil {
		return nil, err
	}
	return newChecked(ctx, c, schema, parts)
}

// newChecked returns a frame of partitions whose schemas are checked by tasks.
func newChecked(ctx context.Context, c *client.Client, schema *arrow.Schema,
	parts []*client.Future[arrow.RecordBatch]) (*Frame, error) {
	encoded, err := encodeSchema(schema)
	if err != nil {
		return nil, err
	}
	out := make([]*client.Future[arrow.RecordBatch], len(parts))
	for i, p := range parts {
		out[i] = checkSchema.Submit(ctx, c, p, client.Val(encoded), client.Val(i))
	}
	client.ReleaseAll(parts)
	return newFrame(c, schema, out), nil
}

// newFrame returns a frame of futures that are known to have the schema.
func newFrame(c *client.Client, schema *arrow.Schema, parts []*client.Future[arrow.RecordBatch]) *Frame {
	return &Frame{c: c, schema: schema, parts: parts}
}

// FromBatches moves record batches to the workers, one partition each. The caller keeps the batches. Data of a client
// cannot be recomputed: it is lost with its worker.
func FromBatches(ctx context.Context, c *client.Client, batches []arrow.RecordBatch) (*Frame, error) {
	if len(batches) == 0 {
		return nil, errors.New("frame: FromBatches without a batch; pass at least an empty one for the schema")
	}
	schema := batches[0].Schema()
	for i, b := range batches {
		if err := check(b, schema, i); err != nil {
			return nil, err
		}
	}
	// Equal batches are distinct partitions, so keys are not hashes.
	futures, err := client.Scatter(ctx, c, batches, client.ScatterOptions{Unhashed: true, Direct: true})
	if err != nil {
		return nil, fmt.Errorf("frame: FromBatches: %w", err)
	}
	return newFrame(c, schema, futures), nil
}

// FromTable moves a table to the workers in n partitions of about equal length (n < 1: one for each of its chunks).
func FromTable(ctx context.Context, c *client.Client, t arrow.Table, n int) (*Frame, error) {
	var size int64
	if n > 0 {
		size = max(1, (t.NumRows()+int64(n)-1)/int64(n))
	}
	r := array.NewTableReader(t, -1)
	defer r.Release()
	var batches []arrow.RecordBatch
	defer func() { releaseAll(batches) }()
	for r.Next() {
		b := r.RecordBatch()
		b.Retain()
		batches = append(batches, b)
	}
	if len(batches) == 0 {
		batches = append(batches, emptyBatch(t.Schema()))
	}
	if size > 0 {
		whole, err := concat(t.Schema(), batches)
		if err != nil {
			return nil, err
		}
		defer whole.Release()
		releaseAll(batches)
		batches = nil
		for from := int64(0); from == 0 || from < whole.NumRows(); from += size {
			batches = append(batches, whole.NewSlice(from, min(whole.NumRows(), from+size)))
		}
	}
	return FromBatches(ctx, c, batches)
}

// Client returns the client of the frame.
func (f *Frame) Client() *client.Client { return f.c }

// Schema returns the schema of every partition.
func (f *Frame) Schema() *arrow.Schema { return f.schema }

// Location returns the location of the partitions.
func (f *Frame) Location() Location { return f.loc }

// NumPartitions returns the number of partitions.
func (f *Frame) NumPartitions() int { return len(f.parts) + len(f.device) }

// Partitions returns the futures of the partitions of a frame in host memory, in order, and nil for one on devices. The
// frame owns them: keep it while they are used.
func (f *Frame) Partitions() []*client.Future[arrow.RecordBatch] { return slices.Clone(f.parts) }

// Release releases the partitions: workers free those that have no other owner. It may be called twice.
func (f *Frame) Release() {
	if !f.released.Swap(true) {
		client.ReleaseAll(f.parts)
		client.ReleaseAll(f.device)
	}
}

func (f *Frame) usable() error {
	if f.released.Load() {
		return ErrClosed
	}
	return nil
}

// Persist waits until every partition is in the memory of a worker, and returns the error of the first partition, in
// order, that failed. Tasks of frames start when they are submitted, independent of Persist.
func (f *Frame) Persist(ctx context.Context) error {
	if err := f.usable(); err != nil {
		return err
	}
	if err := persist(ctx, f.parts); err != nil {
		return err
	}
	return persist(ctx, f.device)
}

func persist[B any](ctx context.Context, parts []*client.Future[B]) error {
	if err := client.Wait(ctx, parts); err != nil {
		return err
	}
	for _, p := range parts {
		if err := p.Err(); err != nil {
			return withKind(err)
		}
	}
	return nil
}

// Collect copies all partitions to the client, in order, from any location. The caller releases the batches.
func (f *Frame) Collect(ctx context.Context) ([]arrow.RecordBatch, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	parts := f.parts
	if f.loc == Device {
		parts = f.hostParts(ctx)
		defer client.ReleaseAll(parts)
	}
	batches, err := client.Gather(ctx, parts)
	if err != nil {
		return nil, withKind(err)
	}
	for i, b := range batches {
		// Workers of other programs are not trusted: check the schema.
		if err := check(b, f.schema, i); err != nil {
			releaseAll(batches)
			return nil, err
		}
	}
	return batches, nil
}

// Table is Collect as one table. The caller releases it.
func (f *Frame) Table(ctx context.Context) (arrow.Table, error) {
	batches, err := f.Collect(ctx)
	if err != nil {
		return nil, err
	}
	defer releaseAll(batches)
	return array.NewTableFromRecords(f.schema, batches), nil
}

// Rows returns the numbers of rows of the partitions.
func (f *Frame) Rows(ctx context.Context) ([]int64, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	futures := submitEach(ctx, f.c, f.parts, rowsOf)
	if f.loc == Device {
		futures = submitEach(ctx, f.c, f.device, deviceRows, client.WithWorkers(f.workers...))
	}
	defer client.ReleaseAll(futures)
	rows, err := client.Gather(ctx, futures)
	return rows, withKind(err)
}

// NumRows returns the number of rows of the frame.
func (f *Frame) NumRows(ctx context.Context) (int64, error) {
	rows, err := f.Rows(ctx)
	var n int64
	for _, r := range rows {
		n += r
	}
	return n, err
}
