package expr

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"pgregory.net/rapid"
)

// columnsOf are the columns of random batches, by the first letter of their names: booleans, integers, floats,
// decimals, texts, times.
var randomSchema = arrow.NewSchema([]arrow.Field{
	{Name: "b1", Type: boolType, Nullable: true}, {Name: "b2", Type: boolType, Nullable: true},
	{Name: "i8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
	{Name: "i16", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
	{Name: "i32", Type: arrow.PrimitiveTypes.Int32, Nullable: true}, {Name: "i64", Type: int64Type, Nullable: true},
	{Name: "iu8", Type: arrow.PrimitiveTypes.Uint8, Nullable: true},
	{Name: "iu16", Type: arrow.PrimitiveTypes.Uint16, Nullable: true},
	{Name: "iu32", Type: arrow.PrimitiveTypes.Uint32, Nullable: true}, {Name: "iu64", Type: uint64Type, Nullable: true},
	{Name: "f32", Type: float32Type, Nullable: true}, {Name: "f64", Type: float64Type, Nullable: true},
	{Name: "d15", Type: dec(15, 2), Nullable: true}, {Name: "d4", Type: dec(4, 3), Nullable: true},
	{Name: "d18", Type: dec(18, 0), Nullable: true}, {Name: "d30", Type: dec(30, 5), Nullable: true},
	{Name: "d38", Type: dec(38, 10), Nullable: true},
	{Name: "s", Type: utf8Type, Nullable: true}, {Name: "sl", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	{Name: "sv", Type: arrow.BinaryTypes.StringView, Nullable: true},
	{Name: "td", Type: date32Type, Nullable: true},
	{Name: "tm", Type: &arrow.TimestampType{Unit: arrow.Millisecond}, Nullable: true},
	{Name: "tn", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}, Nullable: true},
	{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Second}, Nullable: true},
}, nil)

var randomTexts = []string{"", "a", "b", "abc", "ABC", " x ", "Grüße", "日本語", "%", "a_b", "12", "-7", "3.25", "1e3",
	"true",
	"no", "1995-01-01", "2000-02-29 12:30:00", "special packages requests", "aaaa", "nan", "99999999999999999999"}

// randomCell appends a value.
func randomCell(b array.Builder, rng *rand.Rand) {
	small := int64(rng.IntN(9) - 4)
	wide := []int64{small, small, small, int64(rng.Uint64()), int64(rng.Uint64()) >> rng.IntN(64), math.MaxInt64,
		math.MinInt64, 1 << 53, 1<<53 + 1}[rng.IntN(9)]
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(rng.IntN(2) == 0)
	case *array.Int8Builder:
		b.Append(int8(wide))
	case *array.Int16Builder:
		b.Append(int16(wide))
	case *array.Int32Builder:
		b.Append(int32(wide))
	case *array.Int64Builder:
		b.Append(wide)
	case *array.Uint8Builder:
		b.Append(uint8(wide))
	case *array.Uint16Builder:
		b.Append(uint16(wide))
	case *array.Uint32Builder:
		b.Append(uint32(wide))
	case *array.Uint64Builder:
		b.Append(uint64(wide))
	case *array.Float32Builder:
		b.Append([]float32{float32(small), 0.1, float32(math.NaN()), float32(math.Inf(1)), float32(wide),
			-2.5}[rng.IntN(6)])
	case *array.Float64Builder:
		b.Append([]float64{float64(small), 0.1, math.NaN(), math.Inf(-1), float64(wide), -2.5, 0.05,
			1e300}[rng.IntN(8)])
	case *array.Decimal128Builder:
		most := pow10[precisionOf(b.Type())].big()
		v := big.NewInt(wide)
		if rng.IntN(3) == 0 {
			v.Mul(v, big.NewInt(int64(rng.Uint64())))
		}
		b.Append(decimal128.FromBigInt(v.Rem(v, most)))
	case *array.StringBuilder:
		b.Append(randomTexts[rng.IntN(len(randomTexts))])
	case *array.LargeStringBuilder:
		b.Append(randomTexts[rng.IntN(len(randomTexts))])
	case *array.StringViewBuilder:
		b.Append(randomTexts[rng.IntN(len(randomTexts))])
	case *array.Date32Builder:
		b.Append(arrow.Date32(rng.IntN(60000) - 20000))
	case *array.TimestampBuilder:
		unit := unitsPerSecond(b.Type().(*arrow.TimestampType).Unit)
		b.Append(arrow.Timestamp((int64(rng.IntN(4e9))-1e9)*unit + []int64{0, 1, unit / 2}[rng.IntN(3)]%unit))
	default:
		panic(fmt.Sprintf("no value for %T", b))
	}
}

// randomBatch returns rows of which a part is null, as a slice of a larger batch.
func randomBatch(rows int, nulls float64, seed uint64) arrow.RecordBatch {
	rng := rand.New(rand.NewPCG(seed, 1))
	skip := rng.IntN(70)
	b := array.NewRecordBuilder(heap, randomSchema)
	defer b.Release()
	for _, f := range b.Fields() {
		p := nulls
		if rng.IntN(4) == 0 {
			p = 0
		}
		for range rows + skip + 3 {
			if rng.Float64() < p {
				f.AppendNull()
			} else {
				randomCell(f, rng)
			}
		}
	}
	return b.NewRecordBatch().NewSlice(int64(skip), int64(skip+rows))
}

// gen draws expressions of a kind: b, i, f, d, s, t as in the names of the columns, n for any number.
type gen struct{ t *rapid.T }

func (g gen) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, label) }

func (g gen) kind(kinds string) string { return string(kinds[g.pick("kind", len(kinds))]) }

func (g gen) leaf(kind string) Expr {
	if kind == "n" {
		kind = g.kind("ifd")
	}
	if g.pick("leaf", 3) > 0 {
		var names []string
		for _, f := range randomSchema.Fields() {
			if strings.HasPrefix(f.Name, kind) {
				names = append(names, f.Name)
			}
		}
		return Col(names[g.pick("column", len(names))])
	}
	if g.pick("null", 12) == 0 {
		return Lit(nil)
	}
	values := map[string][]any{"b": {true, false}, "i": {0, 1, -1, 7, 200, -300, uint64(math.MaxUint64),
		math.MaxInt64, 1 << 53},
		"f": {0.0, 0.5, -2.5, 0.1, math.NaN(), math.Inf(1), 1e300, float64(1 << 53)},
		"d": {TypedLit("0.05", dec(3, 2)), TypedLit("-12345.678", dec(8, 3)), TypedLit("99999999999999999999",
			dec(20, 0))},
		"s": {"", "a", "abc", "%a%", "Grüße", "b"}, "t": {"1995-01-01", "2000-02-29 12:30:00",
			"1969-12-31 23:59:59.5"}}[kind]
	return operand(values[g.pick("value", len(values))])
}

func (g gen) expr(kind string, depth int) Expr {
	if depth == 0 || g.pick("stop", 5) == 0 {
		return g.leaf(kind)
	}
	depth--
	if g.pick("choice", 6) == 0 {
		switch g.pick("of", 3) {
		case 0:
			return If(g.expr("b", depth), g.expr(kind, depth), g.expr(kind, depth))
		case 1:
			return g.expr(kind, depth).Coalesce(g.expr(kind, depth))
		}
		return g.expr(kind, depth).NullIf(g.expr(kind, depth))
	}
	switch kind {
	case "b":
		return g.condition(depth)
	case "s":
		return g.text(depth)
	case "t":
		a := g.expr("t", depth)
		switch g.pick("time", 3) {
		case 0:
			return a.Truncate(units[g.pick("unit", len(units))])
		case 1:
			return a.AddDays(g.leaf("i"))
		}
		return a.AddMonths(g.pick("months", 60) - 30)
	}
	return g.number(kind, depth)
}

func (g gen) condition(depth int) Expr {
	switch g.pick("condition", 9) {
	case 0:
		return g.expr("b", depth).And(g.expr("b", depth), g.expr("b", depth))
	case 1:
		return g.expr("b", depth).Or(g.expr("b", depth), g.expr("b", depth))
	case 2:
		return g.expr("b", depth).Not()
	case 3:
		return g.expr(g.kind("bifdst"), depth).IsNull()
	case 4:
		return g.expr(g.kind("bifdst"), depth).NotNull()
	case 5:
		kind := g.kind("nst")
		list := make([]any, g.pick("list", 12))
		for i := range list {
			list[i] = g.leaf(kind)
		}
		return g.expr(kind, depth).In(list...)
	case 6:
		ops := []Op{OpContains, OpStartsWith, OpEndsWith, OpLike}
		return Call(ops[g.pick("test", len(ops))], g.expr("s", depth), g.expr("s", depth))
	case 7:
		return Expr{Op: OpTryCast, Type: "bool", Args: []Expr{g.expr(g.kind("ifds"), depth)}}
	}
	kind := g.kind("bnnst")
	ops := []Op{OpEq, OpNe, OpLt, OpLe, OpGt, OpGe}
	return Call(ops[g.pick("comparison", len(ops))], g.expr(kind, depth), g.expr(kind, depth))
}

func (g gen) text(depth int) Expr {
	a := g.expr("s", depth)
	switch g.pick("text", 7) {
	case 0:
		return a.Lower()
	case 1:
		return a.Upper()
	case 2:
		return a.Trim()
	case 3:
		return a.Replace(g.leaf("s"), g.leaf("s"))
	case 4:
		return a.Substring(g.pick("start", 9)-4, Col("i8"))
	case 5:
		return a.Concat(g.expr("s", depth), g.leaf(g.kind("bifdt")))
	}
	return g.expr(g.kind("bifdt"), depth).Cast(utf8Type)
}

func (g gen) number(kind string, depth int) Expr {
	if kind == "n" {
		kind = g.kind("ifd")
	}
	casts := map[string][]arrow.DataType{
		"i": {arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int32, int64Type, arrow.PrimitiveTypes.Uint16,
			uint64Type},
		"f": {float32Type, float64Type}, "d": {dec(10, 3), dec(18, 2), dec(30, 4), dec(38, 0)}}[kind]
	switch g.pick("number", 9) {
	case 0:
		op := []Op{OpCast, OpTryCast, OpTryCast, OpTryCast}[g.pick("try", 4)]
		t := casts[g.pick("type", len(casts))]
		return Expr{Op: op, Type: TypeName(t), Args: []Expr{g.expr(g.kind("bifds"), depth)}}
	case 1:
		ops := []Op{OpNeg, OpAbs, OpFloor, OpCeil}
		return Call(ops[g.pick("sign", len(ops))], g.expr(kind, depth))
	case 2:
		return g.expr(kind, depth).Round(g.pick("digits", 9) - 4)
	case 3:
		if kind == "i" {
			switch g.pick("int", 3) {
			case 0:
				return g.expr("s", depth).Length()
			case 1:
				return g.expr("t", depth).DateDiff(units[g.pick("unit", len(units))], g.expr("t", depth))
			}
			parts := []Op{OpYear, OpQuarter, OpMonth, OpDay, OpHour, OpMinute, OpSecond, OpDayOfWeek, OpDayOfYear}
			return Call(parts[g.pick("part", len(parts))], g.expr("t", depth))
		}
		if kind == "f" {
			ops := []Op{OpSqrt, OpExp, OpLog}
			return Call(ops[g.pick("function", len(ops))], g.expr("n", depth))
		}
	}
	ops := []Op{OpAdd, OpSub, OpMul, OpMod}
	if kind == "i" {
		ops = append(ops, OpIntDiv)
	}
	if kind == "f" {
		ops = append(ops, OpIntDiv, OpDiv, OpPow)
	}
	return Call(ops[g.pick("arithmetic", len(ops))], g.expr(kind, depth), g.expr(kind, depth))
}

// sameCell compares a value of a result with that of the reference.
func sameCell(got, want any) bool {
	switch w := want.(type) {
	case nil:
		return got == nil
	case *big.Int:
		g, ok := got.(*big.Int)
		return ok && g.Cmp(w) == 0
	case float64:
		g, ok := got.(float64)
		return ok && (g == w || g != g && w != w)
	}
	return got == want
}

// TestAgainstReference evaluates random expressions on random batches with the reference too: types × nulls × slices ×
// numbers of rows around those of chunks.
func TestAgainstReference(t *testing.T) {
	kinds := "bbbbifdst"
	good, failed, rejected := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		g := gen{rt}
		e := g.expr(g.kind(kinds), rapid.IntRange(1, 4).Draw(rt, "depth"))
		rows := []int{0, 1, 7, 64, 65, 130, chunkRows + 70}[g.pick("rows", 7)]
		batch := randomBatch(rows, []float64{0, 0.1, 0.5, 1}[g.pick("nulls", 4)], rapid.Uint64().Draw(rt, "seed"))
		defer batch.Release()
		b, err := Bind(e, batch.Schema())
		if err != nil {
			rejected++
			return
		}
		unfolded, wantErr := make([]any, rows), error(nil)
		for i := range unfolded {
			if unfolded[i], err = refEval(b.root, batch, i); err != nil {
				wantErr = err
				if err != errRow {
					rt.Fatalf("%v: %v", e, err)
				}
				break
			}
		}
		got, err := b.Eval(batch)
		if (err != nil) != (wantErr != nil) {
			rt.Fatalf("%v of %d rows: got %v, reference %v", e, rows, err, wantErr)
		}
		if err != nil {
			failed++
			return
		}
		defer got.Release()
		good++
		if got.Len() != rows || !arrow.TypeEqual(got.DataType(), b.Type()) {
			rt.Fatalf("%v: got %d rows of %v, want %d of %v", e, got.Len(), got.DataType(), rows, b.Type())
		}
		nulls := 0
		for i, want := range unfolded {
			have := refCell(got, i)
			if have == nil {
				nulls++
			}
			if !sameCell(have, want) {
				rt.Fatalf("%v (%v), row %d: got %v, want %v\n%v", e, b.Type(), i, have, want,
					batch.NewSlice(int64(i), int64(i+1)))
			}
		}
		if got.NullN() != nulls {
			rt.Fatalf("%v: got %d nulls, counted %d", e, got.NullN(), nulls)
		}
		checkFilter(rt, b, batch, unfolded)
	})
	t.Logf("%d compared, %d failed on both sides, %d rejected", good, failed, rejected)
	if good < 30 {
		t.Errorf("only %d expressions were compared", good)
	}
}

// checkFilter compares the rows of a condition.
func checkFilter(rt *rapid.T, b *Bound, batch arrow.RecordBatch, want []any) {
	if b.root.class() != boolean {
		return
	}
	rows, err := b.Rows(batch)
	if err != nil {
		rt.Fatal(err)
	}
	var hits []int32
	for i, v := range want {
		if v == true {
			hits = append(hits, int32(i))
		}
	}
	if fmt.Sprint(rows) != fmt.Sprint(hits) {
		rt.Fatalf("%v: got rows %v, want %v", b.expr, rows, hits)
	}
	out, err := b.Filter(batch)
	if err != nil || out.NumRows() != int64(len(rows)) {
		rt.Fatalf("filter %v: %v", b.expr, err)
	}
	for i, r := range rows {
		for c := range int(out.NumCols()) {
			if x, y := out.Column(c).ValueStr(i), batch.Column(c).ValueStr(int(r)); x != y {
				rt.Fatalf("filter %v: row %d of %s is %s, want %s", b.expr, r, out.ColumnName(c), x, y)
			}
		}
	}
	out.Release()
}
