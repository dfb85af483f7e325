package join

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

func schemaOf(fields ...any) *arrow.Schema {
	var out []arrow.Field
	for i := 0; i < len(fields); i += 2 {
		out = append(out, arrow.Field{Name: fields[i].(string), Type: fields[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.NewSchema(out, nil)
}

var (
	int32Type   = arrow.PrimitiveTypes.Int32
	int64Type   = arrow.PrimitiveTypes.Int64
	float64Type = arrow.PrimitiveTypes.Float64
	textType    = arrow.BinaryTypes.String
)

func TestKinds(t *testing.T) {
	left := fromJSON(t, schemaOf("k", int64Type, "a", textType),
		`[{"k":1,"a":"x"},{"k":2,"a":"y"},{"k":null,"a":"z"},{"k":4,"a":"w"},{"k":1,"a":"v"}]`)
	right := fromJSON(t, schemaOf("b", textType, "k", int64Type),
		`[{"k":1,"b":"p"},{"k":5,"b":"q"},{"k":1,"b":"r"},{"k":null,"b":"s"},{"k":2,"b":"t"}]`)
	pairs := []string{"x;p", "x;r", "y;t", "v;p", "v;r"}
	for _, c := range []struct {
		kind Kind
		want []string
	}{
		{Inner, pairs},
		{Left, []string{"x;p", "x;r", "y;t", "z;null", "w;null", "v;p", "v;r"}},
		{Right, append(slices.Clone(pairs), "null;q", "null;s")},
		{Full, []string{"x;p", "x;r", "y;t", "z;null", "w;null", "v;p", "v;r", "null;q", "null;s"}},
		{Semi, []string{"x", "y", "v"}},
		{Anti, []string{"z", "w"}},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			o := Options{Kind: c.kind, Keys: []int{0}, Left: []int{1}, Right: []int{0}}
			if c.kind.selects() {
				o.Right = nil
			}
			compareRows(t, run(t, left, right, []int{1}, o, vec.Hash), c.want)
		})
	}
	t.Run("cross", func(t *testing.T) {
		got := run(t, left, right, nil, Options{Kind: Cross, Left: []int{1}, Right: []int{0}, MaxRows: 4}, vec.Hash)
		if len(got) != 25 || got[0] != "x;p" || got[24] != "v;t" {
			t.Errorf("got %q, want 25 pairs from x;p to v;t", got)
		}
	})
}

func TestNotIn(t *testing.T) {
	schema := schemaOf("k", int64Type)
	left := fromJSON(t, schema, `[{"k":1},{"k":null},{"k":3}]`)
	for _, c := range []struct{ right, want string }{
		{`[{"k":1}]`, "3"},
		{`[{"k":1},{"k":null}]`, ""},
		{`[]`, "1 null 3"},
	} {
		right := fromJSON(t, schema, c.right)
		o := Options{Kind: Anti, Keys: []int{0}, Left: []int{0}, NullAware: true}
		if got := strings.Join(run(t, left, right, []int{0}, o, vec.Hash), " "); got != c.want {
			t.Errorf("not in %s: got %q, want %q", c.right, got, c.want)
		}
	}
}

// TestWidths joins keys of different types with equal values.
func TestWidths(t *testing.T) {
	types := []struct{ left, right arrow.DataType }{
		{int32Type, int64Type},
		{arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Int16},
		{arrow.PrimitiveTypes.Uint32, arrow.PrimitiveTypes.Uint64},
		{arrow.PrimitiveTypes.Float32, float64Type},
		{&arrow.Decimal128Type{Precision: 9, Scale: 0}, &arrow.Decimal128Type{Precision: 38, Scale: 0}},
	}
	for _, c := range types {
		left := fromJSON(t, schemaOf("k", c.left), `[{"k":3},{"k":1},{"k":7}]`)
		right := fromJSON(t, schemaOf("k", c.right), `[{"k":7},{"k":3},{"k":2}]`)
		o := Options{Keys: []int{0}, Left: []int{0}, Right: []int{0}}
		if got := strings.Join(run(t, left, right, []int{0}, o, vec.Hash), " "); got != "3;3 7;7" {
			t.Errorf("%v and %v: got %q, want 3;3 7;7", c.left, c.right, got)
		}
	}
	left := fromJSON(t, schemaOf("k", arrow.BinaryTypes.LargeString), `[{"k":"b"},{"k":"a"}]`)
	right := fromJSON(t, schemaOf("k", textType), `[{"k":"a"}]`)
	o := Options{Keys: []int{0}, Left: []int{0}, Right: []int{0}}
	if got := strings.Join(run(t, left, right, []int{0}, o, vec.Hash), " "); got != "a;a" {
		t.Errorf("large and small text: got %q, want a;a", got)
	}
}

// intSide returns batches of rows with keys, by a function, and their numbers.
func intSide(t testing.TB, rows, batchRows int, key func(row int) int64) side {
	t.Helper()
	schema := schemaOf("k", int64Type, "v", int64Type)
	var batches []arrow.RecordBatch
	for lo := 0; lo < rows; lo += batchRows {
		n := min(batchRows, rows-lo)
		keys, values := make([]int64, n), make([]int64, n)
		for i := range keys {
			keys[i], values[i] = key(lo+i), int64(lo+i)
		}
		batches = append(batches, array.NewRecordBatch(schema, []arrow.Array{
			vec.Make(int64Type, n, 0, []*memory.Buffer{nil, vec.Buffer(keys)}),
			vec.Make(int64Type, n, 0, []*memory.Buffer{nil, vec.Buffer(values)}),
		}, int64(n)))
	}
	return side{schema: schema, batches: batches}
}

// scatter spreads numbers over all words of 64 bits.
func scatter(n int64) int64 { return n * 0x1e3779b97f4a7c15 }

// TestLarge compares joins of many rows with a map.
func TestLarge(t *testing.T) {
	const rows = 150_000
	random := rand.New(rand.NewPCG(1, 2))
	order := random.Perm(rows)
	for name, key := range map[string]func(row int) int64{
		"dense":            func(row int) int64 { return int64(order[row]) },
		"ascending":        func(row int) int64 { return int64(row) },
		"dense duplicates": func(row int) int64 { return int64(order[row] / 3) },
		"sparse":           func(row int) int64 { return scatter(int64(order[row])) },
		"sparse duplicates": func(row int) int64 {
			return scatter(int64(order[row] / 3))
		},
		// Most rows of the sample have one key, so that the table is made small and grows.
		"growing": func(row int) int64 { return scatter(max(int64(order[row])-rows*6/10, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			right := intSide(t, rows, 40_000, key)
			lists := map[int64][]int64{}
			for row := range rows {
				lists[key(row)] = append(lists[key(row)], int64(row))
			}
			left := intSide(t, 4000, 1500, func(row int) int64 {
				if k := key(row * 37); row%7 != 3 && len(lists[k]) < 10 {
					return k
				}
				return scatter(int64(row)) ^ 1
			})
			table, err := Build(right.schema, right.batches, []int{0})
			if err != nil {
				t.Fatal(err)
			}
			defer table.Release()
			if table.NumRows() != rows || table.Bytes() < 16*rows {
				t.Errorf("table of %d rows and %d bytes, want %d rows of 16 bytes", table.NumRows(), table.Bytes(),
					rows)
			}
			p, err := table.Probe(left.schema, Options{Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release()
			var got [][2]int64
			for _, b := range left.batches {
				if err := p.Add(b, func(b arrow.RecordBatch) error {
					defer b.Release()
					for i := range int(b.NumRows()) {
						got = append(got, [2]int64{b.Column(1).(*array.Int64).Value(i),
							b.Column(2).(*array.Int64).Value(i)})
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			at := 0
			for _, b := range left.batches {
				for i, k := range b.Column(0).(*array.Int64).Int64Values() {
					l := b.Column(1).(*array.Int64).Value(i)
					for _, r := range lists[k] {
						if at >= len(got) || got[at] != [2]int64{l, r} {
							t.Fatalf("pair %d of %d is not %d with %d", at, len(got), l, r)
						}
						at++
					}
				}
			}
			if at != len(got) {
				t.Fatalf("got %d pairs, want %d", len(got), at)
			}
		})
	}
}

// TestOneKey has a result that is much larger than a batch, and conditions that stop within the rows of a key.
func TestOneKey(t *testing.T) {
	one := func(int) int64 { return 7 }
	left, right := intSide(t, 300, 100, one), intSide(t, 5000, 1999, one)
	table, err := Build(right.schema, right.batches, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	count := func(o Options) (rows int64, evaluated int) {
		if o.Condition != nil {
			eval := o.Condition.Eval
			o.Condition.Eval = func(l, r arrow.RecordBatch) (*array.Boolean, error) {
				evaluated += int(l.NumRows())
				return eval(l, r)
			}
		}
		p, err := table.Probe(left.schema, o)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		for _, b := range left.batches {
			if err := p.Add(b, func(b arrow.RecordBatch) error {
				defer b.Release()
				rows += b.NumRows()
				if b.NumRows() > 1000 {
					t.Fatalf("batch of %d rows, want at most 1000", b.NumRows())
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		return rows, evaluated
	}
	if got, _ := count(Options{Keys: []int{0}, Left: []int{1}, Right: []int{1}, MaxRows: 1000}); got != 300*5000 {
		t.Errorf("inner join has %d rows, want %d", got, 300*5000)
	}
	always := &Condition{Eval: func(l, _ arrow.RecordBatch) (*array.Boolean, error) {
		b := array.NewBooleanBuilder(memory.NewGoAllocator())
		for range l.NumRows() {
			b.Append(true)
		}
		return b.NewBooleanArray(), nil
	}}
	got, evaluated := count(Options{Kind: Semi, Keys: []int{0}, Left: []int{1}, MaxRows: 1000, Condition: always})
	if got != 300 || evaluated > 300*1000 {
		t.Errorf("semi join has %d rows after %d pairs, want 300 after at most %d", got, evaluated, 300*1000)
	}
}

func TestSharedTable(t *testing.T) {
	right := intSide(t, 10_000, 3000, func(row int) int64 { return int64(row % 5000) })
	table, err := Build(right.schema, right.batches, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			left := intSide(t, 1000, 300, func(row int) int64 { return int64(row * 7) })
			p, err := table.Probe(left.schema, Options{Keys: []int{0}, Left: []int{1}, Right: []int{1}})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Release()
			var rows int64
			for _, b := range left.batches {
				if err := p.Add(b, func(b arrow.RecordBatch) error {
					defer b.Release()
					rows += b.NumRows()
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
			if rows != 2*715 {
				t.Errorf("got %d rows, want %d", rows, 2*715)
			}
		})
	}
	group.Wait()
}

func TestErrors(t *testing.T) {
	left := fromJSON(t, schemaOf("k", int64Type, "s", textType), `[{"k":1,"s":"a"}]`)
	right := fromJSON(t, schemaOf("k", int64Type, "u", arrow.PrimitiveTypes.Uint64,
		"l", arrow.ListOf(int64Type)), `[{"k":1,"u":1,"l":[1]}]`)
	condition := &Condition{}
	for _, c := range []struct {
		name      string
		rightKeys []int
		o         Options
		want      string
	}{
		{"nested key", []int{2}, Options{Keys: []int{0}}, `column "l" of type list`},
		{"key out of range", []int{3}, Options{Keys: []int{0}}, "column 3 of 3"},
		{"left key out of range", []int{0}, Options{Keys: []int{2}}, "column 2 of 2"},
		{"types", []int{0}, Options{Keys: []int{1}}, `columns "s" and "k"`},
		{"signs", []int{1}, Options{Keys: []int{0}}, "int64 and uint64 cannot be compared"},
		{"numbers of keys", []int{0}, Options{}, "0 keys on the left side and 1 on the right"},
		{"cross with keys", []int{0}, Options{Kind: Cross, Keys: []int{0}}, "cross join with keys"},
		{"semi with right", []int{0}, Options{Kind: Semi, Keys: []int{0}, Right: []int{0}}, "semi join with columns"},
		{"null aware", []int{0}, Options{Keys: []int{0}, NullAware: true}, "NullAware"},
		{"no eval", []int{0}, Options{Keys: []int{0}, Condition: condition}, "condition without Eval"},
		{"left column", []int{0}, Options{Keys: []int{0}, Left: []int{5}}, "column 5 of 2"},
		{"right column", []int{0}, Options{Keys: []int{0}, Right: []int{5}}, "column 5 of 3"},
		{"kind", []int{0}, Options{Kind: 9, Keys: []int{0}}, "kind 9"},
		{"schema", []int{0}, Options{Keys: []int{0}, Left: []int{0}, Schema: schemaOf("x", textType)},
			`field "x" has type utf8`},
	} {
		table, err := Build(right.schema, right.batches, c.rightKeys)
		if err == nil {
			_, err = table.Probe(left.schema, c.o)
			table.Release()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "join: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
	if _, err := Build(left.schema, right.batches, []int{0}); err == nil {
		t.Error("Build of a batch with other columns succeeded")
	}
}

// TestCallbackErrors requires that errors of callbacks end a join.
func TestCallbackErrors(t *testing.T) {
	s := intSide(t, 10, 10, func(row int) int64 { return int64(row) })
	table, err := Build(s.schema, s.batches, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	failed := errors.New("failed")
	bad := func(l, r arrow.RecordBatch) (*array.Boolean, error) { return nil, failed }
	short := func(l, r arrow.RecordBatch) (*array.Boolean, error) {
		return array.NewBooleanBuilder(memory.NewGoAllocator()).NewBooleanArray(), nil
	}
	emitted := 0
	stop := func(b arrow.RecordBatch) error { b.Release(); emitted++; return failed }
	for name, o := range map[string]Options{
		"eval":   {Condition: &Condition{Eval: bad}},
		"values": {Condition: &Condition{Eval: short}},
		"emit":   {MaxRows: 3},
	} {
		o.Keys, o.Left = []int{0}, []int{1}
		p, err := table.Probe(s.schema, o)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Add(s.batches[0], stop)
		if name == "values" {
			if err == nil || !strings.Contains(err.Error(), "0 values for 10 pairs") {
				t.Errorf("%s: got %v, want an error about 0 values", name, err)
			}
		} else if !errors.Is(err, failed) {
			t.Errorf("%s: got %v, want %v", name, err, failed)
		}
		p.Release()
		p.Release()
		if err := p.Add(s.batches[0], stop); err == nil {
			t.Errorf("%s: Add after Release succeeded", name)
		}
	}
	if emitted != 1 {
		t.Errorf("emitted %d batches, want 1", emitted)
	}
}

func TestWordRangeOfNulls(t *testing.T) {
	s := fromJSON(t, schemaOf("k", int64Type), `[{"k":null},{"k":5},{"k":null}]`)
	least, span := rangeOf(wordColumn{}, [][]arrow.Array{{s.whole.Column(0)}})
	if least != 5^sign || span != 0 {
		t.Errorf("got %x and %d, want %x and 0", least, span, uint64(5^sign))
	}
	if _, span = rangeOf(wordColumn{}, nil); span != 0 {
		t.Errorf("span of no rows: got %d, want 0", span)
	}
	if got := fmt.Sprint(Kind(200)); got != "kind 200" {
		t.Errorf("got %q, want kind 200", got)
	}
	if _, ok := newPacker([]wordColumn{{0, 0}, {0, 0}}, [][]arrow.Array{{fullRange()}}); ok {
		t.Error("two words of full range were packed into one")
	}
}

func fullRange() arrow.Array {
	return vec.Make(int64Type, 2, 0, []*memory.Buffer{nil, vec.Buffer([]int64{math.MinInt64, math.MaxInt64})})
}
