package scan

import (
	"bytes"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/internal/wire/arrowipc"
)

// EncodeSchema returns a schema as an Arrow IPC stream without batches, in which form it is sent to tasks.
func EncodeSchema(s *arrow.Schema) ([]byte, error) {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("frame: cannot encode schema %s: %w", fault.Columns(s), err)
	}
	return out.Bytes(), nil
}

// DecodeSchema returns a schema that EncodeSchema has encoded.
func DecodeSchema(b []byte) (*arrow.Schema, error) {
	s, batches, err := arrowipc.Read(b)
	for _, r := range batches {
		r.Release()
	}
	if err != nil {
		return nil, fmt.Errorf("frame: decode schema: %w", err)
	}
	return s, nil
}

// projection is the columns to read of a schema.
type projection struct {
	in, out *arrow.Schema
	columns []int // of out, in in
}

// projectionOf returns the projection to columns by name, nil for all.
func projectionOf(in *arrow.Schema, names []string) (projection, error) {
	p := projection{in: in, out: in}
	if names == nil {
		for i := range in.NumFields() {
			p.columns = append(p.columns, i)
		}
		return p, nil
	}
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		at := in.FieldIndices(name)
		if len(at) != 1 {
			return p, fault.Schemaf(-1, "%d columns %q among %s, want one", len(at), name, fault.Columns(in))
		}
		p.columns = append(p.columns, at[0])
		fields[i] = in.Field(at[0])
	}
	meta := in.Metadata()
	p.out = arrow.NewSchema(fields, &meta)
	return p, nil
}

// batch returns the projection of a batch that has all columns.
func (p projection) batch(b arrow.RecordBatch) arrow.RecordBatch {
	columns := make([]arrow.Array, len(p.columns))
	for i, from := range p.columns {
		columns[i] = b.Column(from)
	}
	return array.NewRecordBatch(p.out, columns, b.NumRows())
}
