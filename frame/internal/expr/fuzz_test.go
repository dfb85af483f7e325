package expr

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// FuzzLike compares patterns with a matcher that tries everything.
func FuzzLike(f *testing.F) {
	for _, p := range []string{"", "%", "_", "a%", "%a", "%a%", "a_c", "%_b%c_", "%special%requests%", "_%_", "ü%_",
		"%%a%%", "a%b%a"} {
		for _, s := range []string{"", "a", "abc", "Grüße", "aXbXa", "the special packages requests", "ab", "üxc"} {
			f.Add(s, p)
		}
	}
	f.Fuzz(func(t *testing.T, s, p string) {
		if !utf8.ValidString(s) || !utf8.ValidString(p) || len(s) > 40 || len(p) > 12 || strings.Count(p, "%") > 5 {
			return
		}
		want := refLike([]rune(s), []rune(p))
		if got := newLike(p).match(s); got != want {
			t.Fatalf("%q like %q: got %v, want %v", s, p, got, want)
		}
		// The forms of constant patterns.
		b := array.NewStringBuilder(heap)
		b.Append(s)
		batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: utf8Type}}, nil),
			[]arrow.Array{b.NewArray()}, 1)
		bound, err := BindCondition(Col("s").Like(p), batch.Schema())
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := bound.Rows(batch); err != nil || len(rows) == 1 != want {
			t.Fatalf("%q like constant %q: got %v, %v, want %v", s, p, rows, err, want)
		}
	})
}

// FuzzCast converts texts to every type and back: a value that can be read is read again as the same.
func FuzzCast(f *testing.F) {
	for _, s := range append([]string{"1e-400", "-0", "+5", "1995-12-31T23:59:59.999999999+01:30", "infinity",
		"0x1p4", "1_0",
		"-99999-01-01", "5874897-12-31"}, randomTexts...) {
		f.Add(s)
	}
	types := []arrow.DataType{boolType, arrow.PrimitiveTypes.Int8, int64Type, uint64Type, float32Type, float64Type,
		dec(5, 2),
		dec(18, 9), dec(38, 10), date32Type, arrow.FixedWidthTypes.Date64, arrow.FixedWidthTypes.Timestamp_s,
		arrow.FixedWidthTypes.Timestamp_ns, binaryType}
	f.Fuzz(func(t *testing.T, s string) {
		b := array.NewStringBuilder(heap)
		b.Append(s)
		batch := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: utf8Type}}, nil),
			[]arrow.Array{b.NewArray()}, 1)
		for _, dt := range types {
			once, err := evalText(batch, Col("s").TryCast(dt).TryCast(utf8Type))
			if err != nil {
				t.Fatalf("%q as %v: %v", s, dt, err)
			}
			twice, err := evalText(batch, Col("s").TryCast(dt).TryCast(utf8Type).TryCast(dt).TryCast(utf8Type))
			if err != nil || once != twice {
				t.Fatalf("%q as %v: got %q, then %q, %v", s, dt, once, twice, err)
			}
			if _, err := evalText(batch, Col("s").Cast(dt)); err == nil && once == array.NullValueStr &&
				dt.ID() != arrow.BINARY {
				t.Fatalf("%q as %v: Cast succeeds, TryCast does not", s, dt)
			}
		}
	})
}
