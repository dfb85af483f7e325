package frame

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/task"
)

func TestConcat(t *testing.T) {
	for n := range 4 {
		var batches []arrow.RecordBatch
		for i := range n {
			batches = append(batches, batchOf(5*i, 5*i+i)) // of 0, 1 and 2 rows
		}
		got, err := concat(people, batches)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for i, b := range batches {
			if part := got.NewSlice(int64(at), int64(at+i)); !array.RecordEqual(part, b) {
				t.Errorf("batch %d of %d: got %v, want %v", i, n, part, b)
			}
			at += i
		}
		if got.NumRows() != int64(at) || !got.Schema().Equal(people) {
			t.Errorf("%d batches: got %d rows of %v, want %d", n, got.NumRows(), got.Schema(), at)
		}
	}
	// The error about a batch of another schema names the batch, at any position.
	for at := range 3 {
		batches := []arrow.RecordBatch{batchOf(0, 1), batchOf(1, 2), batchOf(2, 3)}
		batches[at] = idsOf(0, 1, 0)
		var e *Error
		if _, err := concat(people, batches); !errors.As(err, &e) || e.Kind != ErrSchema || e.Partition != at {
			t.Errorf("batch %d of another schema: got %v, want ErrSchema of it", at, err)
		}
	}
	err := func() (err error) {
		defer recoverError(&err)
		panic("arrow: too long")
	}()
	if err == nil || err.Error() != "frame: arrow: too long" {
		t.Errorf("panic: got %v, want an error", err)
	}
}

func TestErrorText(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		e    Error
		want string
	}{
		{Error{Kind: ErrSchema, Partition: -1, Reason: "why"}, "frame: schema mismatch: why"},
		{Error{Kind: ErrSchema, Partition: 0, Reason: "why"}, "frame: schema mismatch: partition 0: why"},
		{Error{Kind: ErrCorrupt, Partition: 3, Path: "f", Reason: "why"},
			"frame: corrupt file: partition 3, file f: why"},
		{Error{Kind: ErrCorrupt, Partition: -1, Path: "f", Err: cause}, "frame: corrupt file: file f: cause"},
		{Error{Kind: ErrExists, Partition: -1, Reason: "why", Err: cause}, "frame: result exists: why: cause"},
	} {
		if got := c.e.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
		if !errors.Is(&c.e, c.e.Kind) || errors.Is(&c.e, cause) != (c.e.Err != nil) {
			t.Errorf("%v: does not match its kind and its cause", &c.e)
		}
		// Errors are sent as text, and get their kind back.
		far := withKind(fmt.Errorf("task x: %w", &client.TaskError{Text: "worker: " + c.want}))
		if !errors.Is(far, c.e.Kind) || !strings.Contains(far.Error(), c.want) {
			t.Errorf("from a worker: got %v, want %v", far, c.e.Kind)
		}
	}
	for _, err := range []error{nil, cause, &client.TaskError{Text: "frame: something else"}} {
		if got := withKind(err); got != err {
			t.Errorf("%v: got %v, want it unchanged", err, got)
		}
	}
	if !errors.Is(ErrClosed, net.ErrClosed) {
		t.Error("ErrClosed does not match net.ErrClosed")
	}
}

func TestDiffer(t *testing.T) {
	field := func(name string, dt arrow.DataType) arrow.Field { return arrow.Field{Name: name, Type: dt} }
	schema := func(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }
	i, f := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64
	want := schema(field("a", i), field("b", f))
	noted := arrow.NewMetadata([]string{"k"}, []string{"v"})
	for _, c := range []struct {
		got  *arrow.Schema
		text string
	}{
		{schema(field("a", i), field("b", f)), ""},
		{schema(arrow.Field{Name: "a", Type: i, Nullable: true, Metadata: noted}, field("b", f)), ""},
		{arrow.NewSchema(want.Fields(), &noted), ""},
		{schema(field("a", i)), "got 1 columns (a), want 2 (a, b)"},
		{schema(), "got 0 columns (), want 2 (a, b)"},
		{schema(field("b", f), field("a", i)), `column 0 is "b", want "a"`},
		{schema(field("a", i), field("b", i)), `column "b" has type int64, want float64`},
	} {
		if got := diffSchemas(want, c.got); got != c.text {
			t.Errorf("%v: got %q, want %q", c.got.Fields(), got, c.text)
		}
	}
	var many []arrow.Field
	for n := range 10 {
		many = append(many, field(fmt.Sprint(n), i))
	}
	for n, want := range map[int]string{0: "", 1: "0", 8: "0, 1, 2, 3, 4, 5, 6, 7", 9: "0, 1, 2, 3, 4, 5, 6, 7, …"} {
		if got := columns(schema(many[:n]...)); got != want {
			t.Errorf("%d columns: got %q, want %q", n, got, want)
		}
	}
}

// futuresOf returns futures of keys with any results.
func futuresOf[T any](t *testing.T, c *client.Client, keys ...any) []*client.Future[T] {
	t.Helper()
	var out []*client.Future[T]
	for _, k := range keys {
		out = append(out, client.FutureOf[T](c, must[task.Key](t)(task.KeyOf(k))))
	}
	t.Cleanup(func() { client.ReleaseAll(out) })
	return out
}

// Which workers a native algorithm runs on, and which partitions each gets.
func TestPlacement(t *testing.T) {
	_, c := connect(t, cluster.Goroutines)
	parts := futuresOf[arrow.RecordBatch](t, c, "p0", "p1", "p2", "p3", "p4", "p5")
	ours := client.Worker{Threads: 3, Resources: map[string]float64{"go": 1}}
	workers := map[string]client.Worker{"a": ours, "b": ours, "c": ours, "python": {Threads: 1}}
	a := &algorithm[arrow.RecordBatch, string, int]{}
	for _, x := range []struct {
		what    string
		has     []string // the workers that have each partition
		among   []string
		holders string
		ranks   []string
		place   string // rank and position of each partition
	}{
		{"one each", []string{"a", "b", "c"}, nil, "[a b c]", []string{"a", "b", "c"}, "[{0 0} {1 0} {2 0}]"},
		{"all on one", []string{"b", "b", "b"}, nil, "[b]", []string{"a", "b"}, "[{1 0} {1 1} {1 2}]"},
		{"on both, in turns", []string{"a b", "a b", "a b", "a b"}, nil, "[a b]", []string{"a", "b"},
			"[{0 0} {1 0} {0 1} {1 1}]"},
		{"the least of its holders", []string{"a", "a", "a b", "a b"}, nil, "[a b]", []string{"a", "b"},
			"[{0 0} {0 1} {1 0} {1 1}]"},
		{"nowhere", []string{"", "", ""}, nil, "[a b c]", []string{"a", "b"}, "[{0 0} {1 0} {0 1}]"},
		{"on Python", []string{"python", "a"}, nil, "[a]", []string{"a"}, "[{0 0} {0 1}]"},
		{"not among these", []string{"a", "b", "c"}, []string{"b", "c"}, "[b c]", []string{"b", "c"},
			"[{0 0} {0 1} {1 0}]"},
		{"none of these", []string{"a"}, []string{"c", "x"}, "[c]", []string{"c"}, "[{0 0}]"},
		{"none known", []string{"a"}, []string{"x"}, "[]", []string{"a"}, "[{0 0}]"},
	} {
		where := map[task.Key][]string{}
		for i, h := range x.has {
			where[parts[i].Key()] = strings.Fields(h)
		}
		some := parts[:len(x.has)]
		if got := fmt.Sprint(holders(some, where, workers, x.among)); got != x.holders {
			t.Errorf("%s: workers %s, want %s", x.what, got, x.holders)
		}
		args, place := a.inputs(some, where, workers, x.ranks, "params")
		if got := fmt.Sprint(place); got != x.place || len(args) != len(x.ranks) {
			t.Errorf("%s: %d inputs and partitions at %s, want %d and %s", x.what, len(args), got, len(x.ranks),
				x.place)
		}
	}
	if got := holders(parts, nil, map[string]client.Worker{"x": {}, "y": {}}, nil); fmt.Sprint(got) != "[x y]" {
		t.Errorf("cluster without Millstream workers: got %v, want all workers", got)
	}
}

// Partitions of a Dask collection are in the order of their numbers, those of a list of futures in the order of the
// list.
func TestPartitionOrder(t *testing.T) {
	_, c := connect(t, cluster.Goroutines)
	for _, x := range []struct {
		keys []any
		want string
	}{
		{[]any{[]any{"df", 0}, []any{"df", 1}}, "[0 1]"}, {[]any{[]any{"df", 10}, []any{"df", 9}, []any{"df", 0}},
			"[2 1 0]"},
		{[]any{[]any{"df", uint64(1) << 63}, []any{"df", 3}}, "[0 1]"}, {[]any{"b", "a"}, "[0 1]"}, {nil, "[]"},
		{[]any{[]any{"df", 1, 0}, []any{"df", 0, 0}}, "[0 1]"}, {[]any{[]any{"df", "x"}, []any{1, 2}}, "[0 1]"},
		{[]any{[]any{"one", 0}, []any{"two", 1}}, "several collections, one and two"},
		{[]any{[]any{"df", 0}, "other"}, "only 1 of its 2 keys"},
	} {
		order, err := partitionOrder("people", futuresOf[*client.Opaque](t, c, x.keys...))
		if got := fmt.Sprint(order); err == nil && got != x.want || err != nil && !strings.Contains(err.Error(),
			x.want) {
			t.Errorf("%v: got %s, %v, want %s", x.keys, got, err, x.want)
		}
	}
}

// Frames without partitions or schema are rejected before any task runs.
func TestNothing(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	none := must[*Frame](t)(New(ctx, c, people, nil))
	for what, err := range map[string]error{
		"New without a schema":  ignored(New(ctx, c, nil, nil)),
		"Of":                    ignored(Of(ctx, c, nil)),
		"FromBatches":           ignored(FromBatches(ctx, c, nil)),
		"Concat":                ignored(Concat()),
		"Repartition into none": ignored(none.Repartition(ctx, 0)),
		"Repartition":           ignored(none.Repartition(ctx, 1)),
		"Map":                   ignored(none.Map(ctx, testHead, nil)),
		"Reduce":                ignored(Reduce(ctx, none, testSum, testAdd).Get(ctx)),
		"Open":                  ignored(Open(ctx, c, "none", Host)),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "frame: ") && what != "Open" {
			t.Errorf("%s: got %v, want an error of this package", what, err)
		}
	}
	if _, _, err := testShare.Run(ctx, none, 1, NativeOptions{}); err == nil {
		t.Error("algorithm without partitions: got no error")
	}
	if n, err := none.NumRows(ctx); n != 0 || err != nil {
		t.Errorf("got %d rows, %v, want none", n, err)
	}
	if b, err := none.Collect(ctx); len(b) != 0 || err != nil {
		t.Errorf("got %v, %v, want no batches", b, err)
	}
	table := must[arrow.Table](t)(none.Table(ctx))
	if table.NumRows() != 0 || table.NumCols() != 4 {
		t.Errorf("got %v, want a table of 4 columns without rows", table)
	}
	// A result without rows is written with its schema.
	for _, f := range []*Frame{none, must[*Frame](t)(FromTable(ctx, c, table, 0)), must[*Frame](t)(FromTable(ctx, c,
		table, 3))} {
		dir := t.TempDir()
		must[[]string](t)(f.WriteIPC(ctx, dir, WriteOptions{}))
		same(t, ctx, "read again", must[*Frame](t)(ReadIPC(ctx, c, dir)), emptyBatch(people))
	}
}

func ignored[T any](_ T, err error) error { return err }

// A table is divided into partitions of equal length, or as its chunks are.
func TestFromTable(t *testing.T) {
	ctx, c := connect(t, cluster.Goroutines)
	whole := batchOf(0, 10)
	table := array.NewTableFromRecords(people, []arrow.RecordBatch{batchOf(0, 3), batchOf(3, 10)})
	for n, want := range map[int]string{0: "[3 7]", -1: "[3 7]", 1: "[10]", 2: "[5 5]", 3: "[4 4 2]", 4: "[3 3 3 1]",
		10: "[1 1 1 1 1 1 1 1 1 1]",
		99: "[1 1 1 1 1 1 1 1 1 1]"} {
		f := must[*Frame](t)(FromTable(ctx, c, table, n))
		if got := fmt.Sprint(must[[]int64](t)(f.Rows(ctx))); got != want {
			t.Errorf("%d partitions: got rows %s, want %s", n, got, want)
		}
		same(t, ctx, fmt.Sprint(n, " partitions"), f, whole)
		f.Release()
	}
}
