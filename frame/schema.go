package frame

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/scan"
)

// encodeSchema returns a schema in the form in which it is sent to tasks.
func encodeSchema(s *arrow.Schema) ([]byte, error) { return scan.EncodeSchema(s) }

func decodeSchema(b []byte) (*arrow.Schema, error) { return scan.DecodeSchema(b) }

// Functions about schemas that workers run.
var (
	schemaOf = client.Func("millstream.frame.schema", func(_ context.Context, b arrow.RecordBatch) ([]byte, error) {
		if b == nil {
			return nil, schemaErrorf(-1, "partition is nil; return a record batch, "+
				"which may be empty")
		}
		return encodeSchema(b.Schema())
	})
	// checkSchema returns its first argument if that has the schema.
	checkSchema = client.Func3("millstream.frame.checked", func(_ context.Context, b arrow.RecordBatch, schema []byte,
		partition int) (arrow.RecordBatch, error) {
		want, err := decodeSchema(schema)
		if err != nil {
			return nil, err
		}
		return b, check(b, want, partition)
	})
	rowsOf = client.Func("millstream.frame.rows", func(_ context.Context, b arrow.RecordBatch) (int64,
		error) {
		return b.NumRows(), nil
	})
)

// check returns an error if a partition does not have the schema.
func check(b arrow.RecordBatch, want *arrow.Schema, partition int) error {
	if b == nil {
		return schemaErrorf(partition, "partition is nil; return a record batch, which "+
			"may be empty")
	}
	if d := diffSchemas(want, b.Schema()); d != "" {
		return schemaErrorf(partition, "%s", d)
	}
	return nil
}

// String returns a description of the frame in one line: its partitions and its columns with their types. It does not
// wait.
func (f *Frame) String() string {
	what := "Frame"
	if f.loc == Device {
		what = "Frame on devices"
	}
	return describe(what, f.schema, f.NumPartitions(), f.released.Load())
}

func describe(what string, s *arrow.Schema, partitions int, released bool) string {
	const most = 20 // columns
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %d partition", what, partitions)
	if partitions != 1 {
		b.WriteByte('s')
	}
	fmt.Fprintf(&b, ", %d column", s.NumFields())
	if s.NumFields() != 1 {
		b.WriteByte('s')
	}
	for i, f := range s.Fields() {
		switch i {
		case 0:
			b.WriteString(": ")
		default:
			b.WriteString(", ")
		}
		if i == most {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s %v", f.Name, f.Type)
	}
	if released {
		b.WriteString(" (released)")
	}
	return b.String()
}
