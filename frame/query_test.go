package frame

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// An error of a method is kept, names the method and the column, and is returned by all that run the query.
func TestQueryErrors(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	q := f.Query().Filter(Col("size").Gt(1)).Select(Col("none")).Limit(1)
	const want = `frame: Filter: no column "size"; columns are id, name, score, ok`
	runs := map[string]func() error{
		"Schema":     func() error { _, err := q.Schema(); return err },
		"Compute":    func() error { _, err := q.Compute(ctx); return err },
		"Collect":    func() error { _, err := q.Collect(ctx); return err },
		"Head":       func() error { _, err := q.Head(ctx, 1); return err },
		"Explain":    func() error { _, err := q.Explain(); return err },
		"ExplainRun": func() error { _, err := q.ExplainRun(ctx); return err },
		"WriteIPC":   func() error { _, err := q.WriteIPC(ctx, t.TempDir(), WriteOptions{}); return err },
		"WriteCSV":   func() error { _, err := q.WriteCSV(ctx, t.TempDir(), WriteOptions{}); return err },
		"Union":      func() error { _, err := f.Query().Union(q).Schema(); return err },
	}
	for name, run := range runs {
		err := run()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if _, err := q.Schema(); !errors.Is(err, ErrSchema) {
		t.Errorf("got %v, want ErrSchema", err)
	}
	_, other := connect(t, cluster.Goroutines)
	g := peopleFrame(t, ctx, other)
	_, err := f.Query().Union(g.Query()).Schema()
	if err == nil || !strings.Contains(err.Error(), "different clients") {
		t.Errorf("got %v, want an error about the clients", err)
	}
	twice := must[*Frame](t)(FromBatches(ctx, c, []arrow.RecordBatch{emptyBatch(arrow.NewSchema([]arrow.Field{
		people.Field(0), people.Field(0)}, nil))}))
	_, err = twice.Query().Schema()
	if err == nil || !strings.Contains(err.Error(), `more than one column named "id"`) {
		t.Errorf("got %v, want an error about the names", err)
	}
	f.Release()
	if _, err := f.Query().Schema(); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// A frame that was released after Query is an error of the run, and so is a context that has ended.
func TestQueryShuffle(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	for text, q := range map[string]*Query{
		`frame: Shuffle: no column "size"`: f.Query().Shuffle(2, "size"),
		"frame: Shuffle: no columns":       f.Query().Shuffle(2),
		"frame: Shuffle: -1 partitions":    f.Query().Shuffle(-1, "id"),
		"65537 partitions":                 f.Query().Shuffle(65537, "id"),
	} {
		if _, err := q.Schema(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got the error %v, want %s", err, text)
		}
	}
	// Equal keys are in one partition.
	twice := f.Query().Union(f.Query(), f.Query()).Shuffle(5, "id")
	if text := must[string](t)(twice.Explain()); !strings.Contains(text, "Shuffle by id into 5 partitions") {
		t.Errorf("got the plan %s", text)
	}
	got := must[*Frame](t)(twice.Compute(ctx))
	defer got.Release()
	where := map[int64]int{}
	rows := 0
	for i, b := range must[[]arrow.RecordBatch](t)(got.Collect(ctx)) {
		ids := b.Column(0).(*array.Int64)
		rows += ids.Len()
		for j := range ids.Len() {
			if ids.IsNull(j) {
				continue
			}
			if at, ok := where[ids.Value(j)]; ok && at != i {
				t.Errorf("id %d is in the partitions %d and %d", ids.Value(j), at, i)
			}
			where[ids.Value(j)] = i
		}
		b.Release()
	}
	if want := 3 * must[int64](t)(f.NumRows(ctx)); int64(rows) != want || got.NumPartitions() != 5 {
		t.Errorf("got %d rows in %d partitions, want %d in 5", rows, got.NumPartitions(), want)
	}
}

func TestQueryEnds(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	q := f.Query().Filter(Col("id").Lt(50)).Limit(3)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := q.Compute(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	f.Release()
	if _, err := q.Compute(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want %v", err, ErrClosed)
	}
}

// Scans read only the columns of the query; errors name the file and the partition.
func TestQueryScan(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "x,y\n1,a\n2,b\n", "b.csv": "x,y\n3,c\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := ScanCSV(ctx, c, dir, CSVOptions{}).Filter(Col("x").Ge(2)).Select(Col("y"))
	got, f, err := result(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	f.Release()
	sameRows(t, "scan", got, rows{[]string{"y"}, [][]any{{"b"}, {"c"}}}, true)
	text := must[string](t)(q.Explain())
	if !strings.Contains(text, "Scan csv "+dir+", 2 partitions") || !strings.Contains(text, "parts where x >= 2") {
		t.Errorf("got plan\n%s", text)
	}
	run := must[string](t)(q.ExplainRun(ctx))
	if !strings.Contains(run, "Filter x >= 2  (2 rows, ") || !strings.Contains(run, " in 2 tasks)") {
		t.Errorf("got run\n%s", run)
	}
	bad := filepath.Join(dir, "b.csv")
	if err := os.WriteFile(bad, []byte("x,y\nthree,c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q = ScanCSV(ctx, c, dir, CSVOptions{}).Filter(Col("x").Ge(2))
	_, _, err = result(ctx, q)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), bad) ||
		!strings.Contains(err.Error(), "partition 1") {
		t.Errorf("got %v, want an ErrCorrupt of partition 1, file %s", err, bad)
	}
	if _, err := ScanIPC(ctx, c, filepath.Join(dir, "none")).Schema(); err == nil {
		t.Error("scan of a missing folder: got no error")
	}
}
