package tall

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/client"
	"go.millstream.dev/frame"
)

// Product specifies columns that are sums of products: column Names[k] of a row is the sum of Weights[k*len(Columns)+j]
// times column j minus Mean[j], plus Add[k].
type Product struct {
	Columns, Names     []string
	Mean, Weights, Add []float64
}

func (p Product) check() error {
	if len(p.Columns) == 0 || len(p.Names) == 0 || len(p.Mean) != len(p.Columns) || len(p.Add) != len(p.Names) ||
		len(p.Weights) != len(p.Names)*len(p.Columns) {
		return fmt.Errorf("model of %d columns has %d means, %d weights and %d constants for %d results",
			len(p.Columns), len(p.Mean), len(p.Weights), len(p.Add), len(p.Names))
	}
	return nil
}

// schema returns that of the results: float32 if all columns are.
func (p Product) schema(narrow bool) *arrow.Schema {
	t := arrow.DataType(arrow.PrimitiveTypes.Float64)
	if narrow {
		t = arrow.PrimitiveTypes.Float32
	}
	fields := make([]arrow.Field, len(p.Names))
	for i, n := range p.Names {
		fields[i] = arrow.Field{Name: n, Type: t}
	}
	return arrow.NewSchema(fields, nil)
}

// Multiply returns a frame of the products of each row, with the same partitions in the same location.
func Multiply(ctx context.Context, f *frame.Frame, p Product) (*frame.Frame, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	narrow, err := Narrow(f.Schema(), p.Columns)
	if err != nil {
		return nil, err
	}
	by := hostMultiply
	if f.Location() == frame.Device {
		by = deviceMultiply
	}
	return f.Map(ctx, by(client.Val(p)), p.schema(narrow))
}

var hostMultiply = frame.NewMapWith("millstream.tall.multiply",
	func(_ context.Context, b arrow.RecordBatch, p Product) (arrow.RecordBatch, error) {
		if err := p.check(); err != nil {
			return nil, err
		}
		part, err := partOf(b, p.Columns, -1)
		if err != nil {
			return nil, err
		}
		narrow, err := Narrow(b.Schema(), p.Columns)
		if err != nil {
			return nil, err
		}
		out := make([][]float64, len(p.Names))
		for i := range out {
			out[i] = make([]float64, part.Rows)
		}
		part.Apply(p.Mean, p.Weights, p.Add, out)
		columns := make([]arrow.Array, len(out))
		for i, v := range out {
			columns[i] = columnFrom(v, narrow)
			defer columns[i].Release()
		}
		return array.NewRecordBatch(p.schema(narrow), columns, int64(part.Rows)), nil
	})

// columnFrom returns numbers as an array.
func columnFrom(v []float64, narrow bool) arrow.Array {
	t, b := arrow.DataType(arrow.PrimitiveTypes.Float64), arrow.Float64Traits.CastToBytes(v)
	if narrow {
		short := make([]float32, len(v))
		for i, x := range v {
			short[i] = float32(x)
		}
		t, b = arrow.PrimitiveTypes.Float32, arrow.Float32Traits.CastToBytes(short)
	}
	d := array.NewData(t, len(v), []*memory.Buffer{nil, memory.NewBufferBytes(b)}, nil, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}
