package stages

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/plan"
)

// describer is a sink that turns the row of aggregates of Describe into a row for each column.
type describer struct {
	sum  *plan.Summary
	next sink
}

func openDescribe(s *plan.Summary, _ *arrow.Schema) (link, error) {
	return link{plan.DescribeSchema, func(next sink) sink { return &describer{s, next} }}, nil
}

func (d *describer) push(b arrow.RecordBatch) error {
	out := array.NewRecordBuilder(memory.NewGoAllocator(), plan.DescribeSchema)
	defer out.Release()
	rows := integerAt(b, plan.DescribedColumn(0, "rows"))
	for i, name := range d.sum.Columns {
		count := integerAt(b, plan.DescribedColumn(i, "count"))
		for j, f := range plan.DescribeSchema.Fields() {
			switch f.Name {
			case "column":
				out.Field(j).(*array.StringBuilder).Append(name)
			case "type":
				out.Field(j).(*array.StringBuilder).Append(d.sum.Types[i])
			case "count":
				out.Field(j).(*array.Int64Builder).Append(count)
			case "nulls":
				out.Field(j).(*array.Int64Builder).Append(rows - count)
			default:
				appendDescribed(out.Field(j), columnNamed(b, plan.DescribedColumn(i, f.Name)))
			}
		}
	}
	return d.next.push(out.NewRecordBatch())
}

func (d *describer) finish() error { return d.next.finish() }

// columnNamed returns a column by name, nil if there is none.
func columnNamed(b arrow.RecordBatch, name string) arrow.Array {
	if at := b.Schema().FieldIndices(name); len(at) > 0 {
		return b.Column(at[0])
	}
	return nil
}

func integerAt(b arrow.RecordBatch, name string) int64 {
	if c, ok := columnNamed(b, name).(*array.Int64); ok && c.Len() > 0 && c.IsValid(0) {
		return c.Value(0)
	}
	return 0
}

// appendDescribed appends the first value of an array: as text, or as a number.
func appendDescribed(to array.Builder, from arrow.Array) {
	if from == nil || from.Len() == 0 || from.IsNull(0) {
		to.AppendNull()
		return
	}
	switch to := to.(type) {
	case *array.StringBuilder:
		to.Append(from.ValueStr(0))
	case *array.Float64Builder:
		if f, ok := from.(*array.Float64); ok {
			to.Append(f.Value(0))
			return
		}
		to.AppendNull()
	}
}
