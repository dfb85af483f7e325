package frame

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/vec"
)

// everyType has a column of each kind of layout.
var everyType = arrow.NewSchema([]arrow.Field{
	{Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "i8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
	{Name: "i16", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
	{Name: "i32", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
	{Name: "i64", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "u8", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	{Name: "u16", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
	{Name: "u32", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	{Name: "u64", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "f64", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "large", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	{Name: "raw", Type: arrow.BinaryTypes.Binary, Nullable: true},
	{Name: "date", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_us, Nullable: true},
	{Name: "fixed", Type: &arrow.FixedSizeBinaryType{ByteWidth: 3}, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	{Name: "none", Type: arrow.Null, Nullable: true},
}, nil)

// everyBatch returns n rows, with a fraction of nulls.
func everyBatch(n int, nulls float64, seed uint64) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, 9))
	b := array.NewRecordBuilder(heap, everyType)
	defer b.Release()
	for range n {
		v := rng.Uint64()
		for i, f := range everyType.Fields() {
			if rng.Float64() < nulls {
				b.Field(i).AppendNull()
				continue
			}
			switch x := b.Field(i).(type) {
			case *array.BooleanBuilder:
				x.Append(v&1 == 1)
			case *array.Int8Builder:
				x.Append(int8(v))
			case *array.Int16Builder:
				x.Append(int16(v))
			case *array.Int32Builder:
				x.Append(int32(v))
			case *array.Int64Builder:
				x.Append(int64(v))
			case *array.Uint8Builder:
				x.Append(uint8(v))
			case *array.Uint16Builder:
				x.Append(uint16(v))
			case *array.Uint32Builder:
				x.Append(uint32(v))
			case *array.Uint64Builder:
				x.Append(v)
			case *array.Float32Builder:
				x.Append(float32(v>>40) / 3)
			case *array.Float64Builder:
				x.Append(float64(v>>20) / 3)
			case *array.StringBuilder:
				x.Append(strings.Repeat("ü", int(v%5)))
			case *array.LargeStringBuilder:
				x.Append(strings.Repeat("l", int(v%4)))
			case *array.BinaryBuilder:
				x.Append(bytes.Repeat([]byte{byte(v)}, int(v%3)))
			case *array.Date32Builder:
				x.Append(arrow.Date32(v % 20000))
			case *array.TimestampBuilder:
				x.Append(arrow.Timestamp(v % 1e15))
			case *array.FixedSizeBinaryBuilder:
				x.Append([]byte{byte(v), byte(v >> 8), byte(v >> 16)})
			case *array.ListBuilder:
				x.Append(true)
				for j := range v % 3 {
					x.ValueBuilder().(*array.Int32Builder).Append(int32(v + j))
				}
			case *array.NullBuilder:
				x.AppendNull()
			default:
				panic(f.Type)
			}
		}
	}
	return b.NewRecordBatch()
}

// TestTakeEveryType compares taken rows with the values of the rows, one by one: types × nulls × slices of a batch ×
// selections: none, all, single rows and long runs.
func TestTakeEveryType(t *testing.T) {
	for _, nulls := range []float64{0, 0.3, 1} {
		whole := everyBatch(200, nulls, 1)
		for _, cut := range [][2]int64{{0, 200}, {3, 150}, {64, 66}, {50, 50}} {
			b := whole.NewSlice(cut[0], cut[1])
			n := int(b.NumRows())
			rng := rand.New(rand.NewPCG(uint64(cut[0]), 3))
			some := func(keep func(i int) bool) (rows []int32) {
				for i := range n {
					if keep(i) {
						rows = append(rows, int32(i))
					}
				}
				return rows
			}
			for name, rows := range map[string][]int32{
				"none": nil, "all": some(func(int) bool { return true }),
				"odd":         some(func(i int) bool { return i%2 == 1 }),
				"runs":        some(func(i int) bool { return i/40%2 == 0 }),
				"first":       some(func(i int) bool { return i == 0 }),
				"last":        some(func(i int) bool { return i == n-1 }),
				"random":      some(func(int) bool { return rng.IntN(3) == 0 }),
				"all but one": some(func(i int) bool { return i != n/2 }),
			} {
				got, err := vec.Take(b, rows)
				if err != nil || got.NumRows() != int64(len(rows)) {
					t.Fatalf("%s of %v: %v", name, cut, err)
				}
				for c := range int(b.NumCols()) {
					for i, r := range rows {
						if x, y := got.Column(c).ValueStr(i), b.Column(c).ValueStr(int(r)); x != y ||
							got.Column(c).IsNull(i) != b.Column(c).IsNull(int(r)) {
							t.Fatalf("%s of %v, nulls %v, column %s: row %d is %s, want %s", name, cut, nulls,
								b.ColumnName(c), r, x, y)
						}
					}
				}
				got.Release()
			}
			b.Release()
		}
	}
}

// TestJoinModel: joined rows of batches, for any cut, are those of the whole, and a small cut does not share memory
// with its source.
func TestJoinModel(t *testing.T) {
	whole := everyBatch(90, 0.2, 4)
	rng := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		cuts := cutsOf(90, 1+rng.IntN(5), rng)
		var batches []arrow.RecordBatch
		for i := 1; i < len(cuts); i++ {
			batches = append(batches, whole.NewSlice(int64(cuts[i-1]), int64(cuts[i])))
		}
		from := rng.Int64N(91)
		to := from + rng.Int64N(91-from)
		got, err := join(batches, from, to)
		if err != nil {
			t.Fatalf("rows %d to %d of %v: %v", from, to, cuts, err)
		}
		if want := whole.NewSlice(from, to); !array.RecordEqual(got, want) {
			t.Fatalf("rows %d to %d of %v: got other rows", from, to, cuts)
		}
		releaseAll(batches)
	}
	for _, c := range []struct {
		batches  []arrow.RecordBatch
		from, to int64
		want     string
	}{
		{nil, 0, 0, "no batches to join"},
		{[]arrow.RecordBatch{whole}, -1, 3, "invalid range of rows -1 to 3"},
		{[]arrow.RecordBatch{whole}, 5, 4, "invalid range of rows 5 to 4"},
		{[]arrow.RecordBatch{whole}, 0, 91, "range of rows ends at 91, but there are 90"},
	} {
		if _, err := join(c.batches, c.from, c.to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("rows %d to %d: %v, want %q", c.from, c.to, err, c.want)
		}
	}
	address := func(b arrow.RecordBatch) *byte { return &b.Column(4).Data().Buffers()[1].Bytes()[0] }
	for _, c := range []struct {
		rows   int64
		shares bool
	}{{10, false}, {44, false}, {60, true}, {90, true}} {
		got, err := join([]arrow.RecordBatch{whole}, 0, c.rows)
		if err != nil {
			t.Fatal(err)
		}
		if shares := address(got) == address(whole); shares != c.shares {
			t.Errorf("%d rows of 90: got shared memory %t, want %t", c.rows, shares, c.shares)
		}
		got.Release()
	}
}

// bigOf returns a constant as an exact number.
func bigOf(v any) *big.Float {
	f := new(big.Float).SetPrec(200)
	switch x := v.(type) {
	case int64:
		return f.SetInt64(x)
	case uint64:
		return f.SetUint64(x)
	}
	return f.SetFloat64(v.(float64))
}

// edges returns a column of one type with the minimum, the maximum and some numbers between.
func edges(t *testing.T, dt arrow.DataType) (arrow.Array, []*big.Float) {
	t.Helper()
	var texts []string
	switch dt.ID() {
	case arrow.FLOAT32:
		texts = []string{"-3.5", "0", "1", "16777216", "1e30"}
	case arrow.FLOAT64:
		texts = []string{"-3.5", "0", "1", "9007199254740992", "1e300"}
	default:
		bits := uint(dt.(arrow.FixedWidthDataType).BitWidth())
		top := new(big.Int).Lsh(big.NewInt(1), bits)
		low := big.NewInt(0)
		if arrow.IsSignedInteger(dt.ID()) {
			top.Rsh(top, 1)
			low.Neg(top)
		}
		texts = []string{low.String(), new(big.Int).Add(low, big.NewInt(1)).String(), "0", "1", "7",
			top.Sub(top, big.NewInt(1)).String()}
		if bits == 64 {
			texts = append(texts, "9007199254740992", "9007199254740993")
		}
	}
	b := array.NewBuilder(heap, dt)
	defer b.Release()
	var numbers []*big.Float
	for _, s := range texts {
		if err := b.AppendValueFromString(s); err != nil {
			t.Fatal(err)
		}
		n, _, err := big.ParseFloat(s, 10, 200, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		switch dt.ID() { // the value in the column, not the text
		case arrow.FLOAT32:
			f, _ := n.Float32()
			n.SetFloat64(float64(f))
		case arrow.FLOAT64:
			f, _ := n.Float64()
			n.SetFloat64(f)
		}
		numbers = append(numbers, n)
	}
	b.AppendNull()
	return b.NewArray(), numbers
}

// TestComparisons compares columns of every numeric type with constants of every type: no number is rounded, and
// constants outside of a type are less or greater than all its values.
func TestComparisons(t *testing.T) {
	constants := []any{int64(0), int64(-1), int64(7), int64(math.MinInt64), int64(math.MaxInt64), int64(200),
		int64(-200),
		int64(40000), int64(1 << 40), uint64(0), uint64(7), uint64(math.MaxUint64), uint64(1 << 63), 0.5, -0.5, 7.0,
		1e300,
		-1e300, 9007199254740992.0, math.Inf(1), math.Inf(-1)}
	ops := map[expr.Op]func(order int) bool{expr.OpEq: func(o int) bool {
		return o == 0
	}, expr.OpNe: func(o int) bool { return o != 0 },
		expr.OpLt: func(o int) bool { return o < 0 }, expr.OpLe: func(o int) bool { return o <= 0 },
		expr.OpGt: func(o int) bool { return o > 0 },
		expr.OpGe: func(o int) bool { return o >= 0 }}
	for _, dt := range []arrow.DataType{arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16,
		arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16,
		arrow.PrimitiveTypes.Uint32,
		arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Float64} {
		column, numbers := edges(t, dt)
		schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dt, Nullable: true}}, nil)
		b := array.NewRecordBatch(schema, []arrow.Array{column}, int64(column.Len()))
		for _, v := range constants {
			if _, whole := v.(float64); !whole && (dt.ID() == arrow.FLOAT32 || dt.ID() == arrow.FLOAT64) {
				f, _ := bigOf(v).Float64() // columns of floats are compared as floats
				if bigOf(v).Cmp(bigOf(f)) != 0 {
					continue
				}
			}
			for op, ok := range ops {
				out, err := Select(b, expr.Call(op, Col("x"), v))
				if err != nil {
					t.Fatalf("%v %s %v: %v", dt, op, v, err)
				}
				var want []string
				for i, n := range numbers {
					if ok(n.Cmp(bigOf(v))) {
						want = append(want, column.ValueStr(i))
					}
				}
				var got []string
				for i := range int(out.NumRows()) {
					got = append(got, out.Column(0).ValueStr(i))
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%v %s %v (%T): %v, want %v", dt, op, v, v, got, want)
				}
				out.Release()
			}
		}
		for op := range ops {
			if out, err := Select(b, expr.Call(op, Col("x"), math.NaN())); err != nil ||
				(out.NumRows() > 0) != (op == expr.OpNe) {
				t.Errorf("%v %s NaN: %v rows, %v", dt, op, out.NumRows(), err)
			}
			if out, err := Select(b, expr.Call(op, Col("x"), nil)); err != nil || out.NumRows() > 0 {
				t.Errorf("%v %s null: %v rows, %v", dt, op, out.NumRows(), err)
			}
			for v, name := range map[any]string{"text": "utf8", true: "bool", time.Now(): "timestamp"} {
				if _, err := Select(b, expr.Call(op, Col("x"), v)); err == nil ||
					!strings.Contains(err.Error(), fmt.Sprintf("cannot compare %v with %s", dt, name)) {
					t.Errorf("%v %s %v: %v", dt, op, v, err)
				}
			}
			if _, err := Select(b, expr.Call(op, Col("x"), struct{}{})); err == nil ||
				!strings.Contains(err.Error(), "unsupported type struct") {
				t.Errorf("%v %s struct: %v", dt, op, err)
			}
		}
	}
}

// TestBadExpressions: invalid expressions are an error before any task runs.
func TestBadExpressions(t *testing.T) {
	deep := Col("id").Eq(1)
	for range 300 {
		deep = deep.Not()
	}
	for _, c := range []struct {
		e    Expr
		want string
	}{
		{Col("absent").Eq(1), `no column "absent" among`},
		{Expr{Op: "xor"}, `unknown operation "xor"`},
		{Expr{Op: expr.OpNot}, "not has 0 operands, want 1"},
		{Expr{Op: expr.OpNot, Args: []Expr{Col("id").Eq(1), Col("id").Eq(2)}}, "not has 2 operands, want 1"},
		{deep, "expression is nested more than 200 deep"},
		{Col("id").Eq(1).And(Col("name").Eq(1)), "cannot compare"},
		{Col("ok").Eq(1), "cannot compare"},
	} {
		for i, err := range []error{second(condition(c.e, people)), second(Select(batchOf(0, 3), c.e))} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.60v, form %d: %v, want %q", c.e, i, err, c.want)
			}
		}
	}
	twice := arrow.NewSchema([]arrow.Field{people.Field(0), people.Field(0)}, nil)
	if _, err := condition(Col("id").Eq(1), twice); err == nil ||
		!strings.Contains(err.Error(), `2 columns named "id"`) {
		t.Errorf("name of two columns: got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
