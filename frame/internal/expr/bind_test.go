package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

func dec(precision, scale int32) arrow.DataType { return decimalType(precision, scale) }

// typesSchema has a column of every type that expressions compute with, and a list.
var typesSchema = arrow.NewSchema([]arrow.Field{
	{Name: "b", Type: boolType}, {Name: "i8", Type: arrow.PrimitiveTypes.Int8},
	{Name: "i32", Type: arrow.PrimitiveTypes.Int32},
	{Name: "i64", Type: int64Type}, {Name: "u8", Type: arrow.PrimitiveTypes.Uint8},
	{Name: "u32", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "u64", Type: uint64Type}, {Name: "f32", Type: float32Type}, {Name: "f64", Type: float64Type},
	{Name: "s", Type: utf8Type}, {Name: "ls", Type: arrow.BinaryTypes.LargeString}, {Name: "bin", Type: binaryType},
	{Name: "d", Type: date32Type}, {Name: "ts", Type: arrow.FixedWidthTypes.Timestamp_ms},
	{Name: "tsn", Type: &arrow.TimestampType{Unit: arrow.Nanosecond}},
	{Name: "price", Type: dec(15, 2)}, {Name: "tax", Type: dec(4, 3)}, {Name: "big", Type: dec(38, 10)},
	{Name: "list", Type: arrow.ListOf(int64Type)}, {Name: "twice", Type: int64Type}, {Name: "twice", Type: int64Type},
}, nil)

func TestTypes(t *testing.T) {
	c := Col
	for _, tc := range []struct {
		e    Expr
		want arrow.DataType
	}{
		{c("i8"), arrow.PrimitiveTypes.Int8}, {c("i8").Add(1), int64Type}, {c("i8").Mul(c("u32")), int64Type},
		{c("u64").Add(1), uint64Type}, {c("u64").Add(-1), int64Type}, {c("u64").Sub(c("u8")), uint64Type},
		{c("u64").Sub(c("i8")), int64Type}, {c("u8").Add(c("u8")), int64Type}, {c("i64").Div(2), float64Type},
		{c("i64").IntDiv(2), int64Type}, {c("i64").Mod(c("u8")), int64Type}, {c("i64").Add(1.5), float64Type},
		{c("f32").Add(1.5), float32Type}, {c("f32").Add(1), float32Type}, {c("f32").Mul(c("i8")), float64Type},
		{c("f32").Mul(c("f32")), float32Type}, {c("f32").Mul(c("f64")), float64Type}, {c("i8").Pow(2), float64Type},
		{c("price").Mul(c("tax")), dec(19, 5)}, {c("price").Add(c("tax")), dec(17, 3)},
		{Lit(1).Sub(c("tax")), dec(5, 3)},
		{c("price").Mul(3), dec(16, 2)}, {c("price").Add(c("i32")), dec(16, 2)}, {c("big").Add(c("big")), dec(38, 10)},
		{c("price").Mul(0.5), float64Type}, {c("price").Div(2), float64Type}, {c("price").Mod(c("tax")), dec(16, 3)},
		{c("price").IntDiv(2), float64Type}, {c("d").Sub(c("d")), int64Type},
		{c("i8").Neg(), int64Type}, {c("u64").Abs(), uint64Type}, {c("price").Neg(), dec(15, 2)},
		{c("f32").Abs(), float32Type},
		{c("price").Round(1), dec(15, 1)}, {c("price").Round(-3), dec(14, 0)}, {c("price").Floor(), dec(14, 0)},
		{c("f32").Round(2), float32Type}, {c("i8").Ceil(), arrow.PrimitiveTypes.Int8}, {c("price").Sqrt(), float64Type},
		{c("i8").Gt(c("f64")), boolType}, {c("s").Eq(c("ls")), boolType}, {c("d").Lt(c("ts")), boolType},
		{c("d").Ge("1995-01-01"), boolType}, {c("ts").Ge("1995-01-01 10:00:00"), boolType},
		{Lit("1995-01-01").Lt(c("d")), boolType},
		{c("i8").In(1, 2.5, c("price")), boolType}, {c("d").In("1995-01-01"), boolType}, {c("list").IsNull(), boolType},
		{c("i8").Eq(nil), boolType}, {c("b").And(Lit(nil)), boolType}, {c("b").Not(), boolType},
		{If(c("b"), c("i8"), 0), arrow.PrimitiveTypes.Int8}, {If(c("b"), c("i8"), 1000), int64Type},
		{If(c("b"), c("i8"), c("u8")), arrow.PrimitiveTypes.Int16}, {If(c("b"), c("i8"), c("u64")), dec(20, 0)},
		{If(c("b"), c("i8"), 0.5), float64Type}, {If(c("b"), 0, c("price")), dec(15, 2)},
		{If(c("b"), nil, c("d")), date32Type},
		{If(c("b"), c("d"), c("ts")), arrow.FixedWidthTypes.Timestamp_ms},
		{If(c("b"), "1995-01-01", c("d")), date32Type},
		{If(c("b"), c("s"), c("ls")), arrow.BinaryTypes.LargeString}, {If(c("b"), c("s"), "x"), utf8Type},
		{c("ts").Coalesce(c("tsn")), &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}},
		{c("price").Coalesce(c("tax"), 7), dec(16, 3)}, {c("i32").NullIf(0.0), arrow.PrimitiveTypes.Int32},
		{c("s").Cast(int64Type), int64Type}, {c("i8").TryCast(utf8Type), utf8Type},
		{Lit(nil).Cast(date32Type), date32Type},
		{c("s").Lower(), utf8Type}, {c("ls").Replace("a", "b"), arrow.BinaryTypes.LargeString},
		{c("s").Length(), int64Type},
		{c("bin").Length(), int64Type}, {c("s").Substring(c("i8"), 2), utf8Type},
		{c("s").Concat(c("i8"), c("d")), utf8Type},
		{c("s").Like("%x"), boolType}, {c("s").Contains(c("ls")), boolType}, {c("s").Upper().Trim(), utf8Type},
		{c("ts").Year(), int64Type}, {c("d").Truncate("month"), date32Type},
		{c("ts").AddDays(c("i8")), arrow.FixedWidthTypes.Timestamp_ms},
		{Lit("1995-01-01").AddMonths(3), date32Type}, {c("d").DateDiff("day", c("ts")), int64Type},
		{c("d").AddDays(nil), date32Type}, {Lit(nil).Add(c("price")), dec(16, 2)}, {Lit(nil).Lower(), utf8Type},
		{TypedLit("0.05", dec(2, 2)).Add(c("tax")), dec(5, 3)}, {c("i8").As("x").Add(1), int64Type},
	} {
		b, err := Bind(tc.e, typesSchema)
		if err != nil {
			t.Errorf("%v: %v", tc.e, err)
			continue
		}
		if !arrow.TypeEqual(b.Type(), tc.want) {
			t.Errorf("%v: got %v, want %v", tc.e, b.Type(), tc.want)
		}
	}
}

func TestTypeErrors(t *testing.T) {
	c := Col
	for _, tc := range []struct {
		e    Expr
		want string
	}{
		{c("none"), `no column "none" among b, i8, i32, i64, u8, u32, u64, f32, …`},
		{c("twice"), `2 columns named "twice"`},
		{c("s").Add(1), "s + 1: cannot add utf8 and int64"}, {c("b").Mul(c("i8")), "cannot multiply bool and int8"},
		{c("d").Add(1), "use AddDays"}, {c("s").Eq(1), "s == 1: cannot compare utf8 with int64"},
		{c("list").Eq(c("list")), "cannot compare list"}, {c("d").Lt("tomorrow"), `"tomorrow" is no date`},
		{c("s").Lt(time.Now()), "cannot compare utf8 with timestamp"},
		{c("bin").Eq("x"), "cannot compare binary with utf8"},
		{c("i8").In(1, "x"), "cannot compare int8 with utf8"}, {c("b").And(c("i8")), "i8 is int8, not bool"},
		{c("i8").Not(), "not bool"}, {If(c("i8"), 1, 2), "not bool"},
		{If(c("b"), c("i8"), "x"), "int8 and utf8 have no common type"},
		{If(c("b"), c("list"), nil), "cannot be computed"},
		{c("s").Coalesce(1), "no common type"}, {c("list").Cast(utf8Type), "cannot be converted"},
		{c("b").Cast(date32Type), "bool cannot be converted to date32"},
		{c("i8").Cast(arrow.ListOf(int64Type)), "not supported"},
		{c("s").Neg(), "not a number"}, {c("s").Sqrt(), "not a number"}, {c("d").Round(1), "not a number"},
		{Call(OpRound, c("f64"), c("i8")), "must be a constant"}, {c("i8").Lower(), "i8 is int8, not utf8"},
		{c("i8").Length(), "not utf8"}, {c("s").Substring("x", 1), "not an integer"},
		{c("s").Concat(c("list")), "has no text"},
		{c("i8").Year(), "i8 is int8, not a date or timestamp"},
		{c("d").Truncate("eon"), `unknown unit "eon"; use year`},
		{c("d").AddDays(1.5), "not an integer"}, {c("d").DateDiff("x", c("d")), "unknown unit"},
		{c("s").DateDiff("day", c("d")), "not a date"}, {Lit(struct{}{}).Eq(1), "unsupported type struct"},
		{Expr{Op: "soundex"}, `unknown operation "soundex"`}, {Expr{Op: OpNot}, "not has 0 operands, want 1"},
		{Expr{Op: OpIn}, "in has 0 operands, want at least 1"}, {Expr{Op: OpRound}, "want 1 to 2"},
		{c("big").Mul(c("big")).Mul(c("big")).Mul(c("big")), "more than 38 digits"},
	} {
		_, err := Bind(tc.e, typesSchema)
		var te *TypeError
		if !errors.As(err, &te) || !strings.Contains(te.Reason, tc.want) {
			t.Errorf("%v: got %v, want %q", tc.e, err, tc.want)
		}
	}
	if _, err := BindCondition(c("i8"), typesSchema); err == nil || !strings.Contains(err.Error(),
		"condition i8 is int8, not bool") {
		t.Errorf("condition: got %v", err)
	}
	deep := c("b")
	for range maxDepth + 1 {
		deep = deep.Not()
	}
	if _, err := Bind(deep, typesSchema); err == nil || !strings.Contains(err.Error(), "nested more than 200 deep") {
		t.Errorf("deep: got %v", err)
	}
}

func TestField(t *testing.T) {
	for _, tc := range []struct {
		e    Expr
		want arrow.Field
	}{
		{Col("i8"), arrow.Field{Name: "i8", Type: arrow.PrimitiveTypes.Int8}},
		{Col("i8").As("x"), arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int8}},
		{Col("i8").Add(1), arrow.Field{Name: "i8 + 1", Type: int64Type, Nullable: true}},
	} {
		b, err := Bind(tc.e, typesSchema)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Field(); !got.Equal(tc.want) {
			t.Errorf("%v: got %v, want %v", tc.e, got, tc.want)
		}
	}
}
