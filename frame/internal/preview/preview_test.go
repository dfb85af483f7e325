package preview

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestFormat(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "at", Type: &arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"}},
	}, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), s)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{7, 0}, []bool{true, false})
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"a\n\x1b[31mb", strings.Repeat("ü", 40)}, nil)
	b.Field(2).(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{0, 86400}, nil)
	want := `┌───────┬──────────────────────────────────┬─────────────────────┐
│     n │ text                             │ at                  │
│ int64 │ utf8                             │ timestamp[s, tz=UTC] │
├───────┼──────────────────────────────────┼─────────────────────┤
│     7 │ a··[31mb                         │ 1970-01-01 00:00:00 │
│  null │ üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü… │ 1970-01-02 00:00:00 │
└───────┴──────────────────────────────────┴─────────────────────┘
2 rows
`
	got := Format(b.NewRecordBatch())
	// The type of the time is wider than its values.
	want = strings.ReplaceAll(want, "─────────────────────┐", "──────────────────────┐")
	want = strings.ReplaceAll(want, "─────────────────────┤", "──────────────────────┤")
	want = strings.ReplaceAll(want, "─────────────────────┘", "──────────────────────┘")
	want = strings.ReplaceAll(want, "│ at                  │", "│ at                   │")
	want = strings.ReplaceAll(want, "00:00:00 │", "00:00:00  │")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Columns after the 24th are counted.
func TestManyColumns(t *testing.T) {
	var fields []arrow.Field
	for i := range 30 {
		fields = append(fields, arrow.Field{Name: string(rune('a' + i)), Type: arrow.FixedWidthTypes.Boolean})
	}
	b := array.NewRecordBuilder(memory.NewGoAllocator(), arrow.NewSchema(fields, nil))
	defer b.Release()
	got := Format(b.NewRecordBatch())
	if !strings.HasSuffix(got, "\n0 rows, 6 more columns\n") {
		t.Errorf("got\n%s", got)
	}
}
