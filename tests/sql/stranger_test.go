package sql

import (
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/testkit/duckdb"
	"go.millstream.dev/internal/testkit/leak"
)

// staff is a table of a few people, depts one of their departments.
const (
	staff = `[{"id":1,"name":"Ann","dept":1,"salary":4500,"hired":"2010-03-01","boss":null},
		{"id":2,"name":"Bob","dept":1,"salary":2500.5,"hired":"2016-07-15","boss":1},
		{"id":3,"name":"Carl","dept":2,"salary":3200,"hired":"2012-12-31","boss":1},
		{"id":4,"name":"Dora","dept":2,"salary":null,"hired":"2020-02-29","boss":3},
		{"id":5,"name":"Eve","dept":null,"salary":1800,"hired":null,"boss":3},
		{"id":6,"name":"Finn","dept":2,"salary":3200,"hired":"2015-01-01","boss":1}]`
	depts = `[{"id":1,"name":"Sales","city":"Bonn"},{"id":2,"name":"Works","city":"Ulm"},
		{"id":3,"name":"Law","city":null}]`
)

func jsonTable(t *testing.T, text string, fields ...arrow.Field) arrow.RecordBatch {
	t.Helper()
	for i := range fields {
		fields[i].Nullable = true
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStranger compares statements that users of DuckDB try first. A line "-- error: TEXT" before a statement is for
// one that frames do not have: the error says so.
func TestStranger(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t)
	db := duckdb.Start(t)
	id, text := arrow.PrimitiveTypes.Int64, arrow.BinaryTypes.String
	people := jsonTable(t, staff, arrow.Field{Name: "id", Type: id}, arrow.Field{Name: "name", Type: text},
		arrow.Field{Name: "dept", Type: id}, arrow.Field{Name: "salary", Type: arrow.PrimitiveTypes.Float64},
		arrow.Field{Name: "hired", Type: arrow.FixedWidthTypes.Date32}, arrow.Field{Name: "boss", Type: id})
	tables := map[string]*frame.Query{
		"people": table(t, ctx, c, db, "people", []arrow.RecordBatch{people.NewSlice(0, 4), people.NewSlice(4, 6)}),
		"depts": table(t, ctx, c, db, "depts", []arrow.RecordBatch{jsonTable(t, depts,
			arrow.Field{Name: "id", Type: id}, arrow.Field{Name: "name", Type: text},
			arrow.Field{Name: "city", Type: text})}),
	}
	b, err := os.ReadFile("testdata/stranger.sql")
	if err != nil {
		t.Fatal(err)
	}
	wantErr := ""
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if e, ok := strings.CutPrefix(line, "-- error: "); ok {
			wantErr = e
			continue
		}
		want, err := db.Try(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got, err := answer(ctx, c, line, tables)
		switch {
		case wantErr != "":
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("%s: got %v, want the error %q", line, err, wantErr)
			}
			wantErr = ""
			continue
		case err != nil:
			t.Errorf("%s: %v", line, err)
			continue
		case strings.HasSuffix(line, "-- count"):
			if len(got) != len(want) {
				t.Errorf("%s: got %d rows, want %d", line, len(got), len(want))
			}
			continue
		case !strings.HasSuffix(line, ordered):
			got, want = got.Sorted(), want.Sorted()
		}
		if diff := duckdb.Diff(got, want); diff != "" {
			t.Errorf("%s:\n%s", line, diff)
		}
	}
}
