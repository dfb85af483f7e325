// Package arrowtrace converts histories of package spans to and from Arrow IPC streams, for pandas, Polars or DuckDB.
// It is separate from package trace because schedulers link no Arrow.
package arrowtrace

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/trace"
	"go.millstream.dev/internal/wire/arrowipc"
)

// originKey is the metadata of the schema that has the origin of the history, a Unix time in µs.
const originKey = "millstream.origin"

var times = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}

// fields are the columns of a stream. start and stop are absolute times, key is text.
var fields = []arrow.Field{
	{Name: "worker", Type: arrow.BinaryTypes.String},
	{Name: "name", Type: arrow.BinaryTypes.String},
	{Name: "kind", Type: arrow.BinaryTypes.String},
	{Name: "slot", Type: arrow.PrimitiveTypes.Int32},
	{Name: "start", Type: times},
	{Name: "stop", Type: times},
	{Name: "category", Type: arrow.BinaryTypes.String},
	{Name: "key", Type: arrow.BinaryTypes.Binary},
	{Name: "bytes", Type: arrow.PrimitiveTypes.Int64},
	{Name: "keys", Type: arrow.PrimitiveTypes.Int64},
	{Name: "peer", Type: arrow.BinaryTypes.String},
	{Name: "transport", Type: arrow.BinaryTypes.String},
	{Name: "flags", Type: arrow.PrimitiveTypes.Uint8},
}

const batchRows = 1 << 15

// Write writes a history as an Arrow IPC stream, in record batches of 32,768 spans.
func Write(w io.Writer, s *spans.Store) error {
	origin := s.Meta().Origin
	meta := arrow.NewMetadata([]string{originKey}, []string{strconv.FormatInt(origin, 10)})
	schema := arrow.NewSchema(fields, &meta)
	out := ipc.NewWriter(w, ipc.WithSchema(schema))
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	n := 0
	flush := func() error {
		rec := b.NewRecordBatch()
		defer rec.Release()
		n = 0
		return out.Write(rec)
	}
	rows, names := s.Rows(), s.Names()
	err := s.Each(func(sp spans.Span) error {
		if int(sp.Row) >= len(rows) || int(sp.Category) >= len(names) {
			return nil // added meanwhile
		}
		appendSpan(b, &rows[sp.Row], names[sp.Category], &sp, origin)
		if n++; n < batchRows {
			return nil
		}
		return flush()
	})
	if err == nil && n > 0 {
		err = flush()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("arrowtrace: %w", err)
	}
	return nil
}

func appendSpan(b *array.RecordBuilder, row *spans.Row, category string, sp *spans.Span, origin int64) {
	text := func(i int, v string) { b.Field(i).(*array.StringBuilder).Append(v) }
	number := func(i int, v int64) { b.Field(i).(*array.Int64Builder).Append(v) }
	time := func(i int, v int64) { b.Field(i).(*array.TimestampBuilder).Append(arrow.Timestamp(origin + v)) }
	text(0, row.Worker)
	text(1, row.Name)
	text(2, row.Kind)
	b.Field(3).(*array.Int32Builder).Append(int32(row.Slot))
	time(4, sp.Start)
	time(5, sp.Stop)
	text(6, category)
	b.Field(7).(*array.BinaryBuilder).Append([]byte(sp.Key))
	number(8, sp.Bytes)
	number(9, sp.Keys)
	text(10, sp.Peer)
	text(11, sp.Transport)
	b.Field(12).(*array.Uint8Builder).Append(sp.Flags)
}

// ErrFormat is returned by Read for a stream that Write has not written.
var ErrFormat = errors.New("arrowtrace: not a history in Arrow")

// Read reads a stream of Write into a new history.
func Read(p []byte, cfg spans.Config) (*spans.Store, error) {
	schema, batches, err := arrowipc.Read(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	meta := schema.Metadata()
	text, _ := meta.GetValue(originKey)
	origin, err := strconv.ParseInt(text, 10, 64)
	if err != nil || origin < 0 || origin > 1<<53 || !matches(schema) {
		return nil, ErrFormat
	}
	im, err := trace.NewImporter(cfg, origin)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		addBatch(im, b)
	}
	return im.Finish(), nil
}

// matches reports whether a schema has the columns of Write.
func matches(schema *arrow.Schema) bool {
	if schema.NumFields() != len(fields) {
		return false
	}
	for i, f := range fields {
		if got := schema.Field(i); got.Name != f.Name || !arrow.TypeEqual(got.Type, f.Type) {
			return false
		}
	}
	return true
}

func addBatch(im *trace.Importer, b arrow.RecordBatch) {
	text := func(i int) *array.String { return b.Column(i).(*array.String) }
	worker, name, kind, slot := text(0), text(1), text(2), b.Column(3).(*array.Int32)
	start, stop := b.Column(4).(*array.Timestamp), b.Column(5).(*array.Timestamp)
	category, key := text(6), b.Column(7).(*array.Binary)
	bytes, keys := b.Column(8).(*array.Int64), b.Column(9).(*array.Int64)
	peer, transport, flags := text(10), text(11), b.Column(12).(*array.Uint8)
	for i := range int(b.NumRows()) {
		row := spans.Row{Worker: worker.Value(i), Name: name.Value(i), Kind: kind.Value(i), Slot: int(slot.Value(i))}
		sp := spans.Span{Key: string(key.Value(i)), Bytes: bytes.Value(i), Keys: keys.Value(i), Peer: peer.Value(i),
			Transport: transport.Value(i), Flags: flags.Value(i)}
		im.Add(row, category.Value(i), sp, int64(start.Value(i)), int64(stop.Value(i)))
	}
}
