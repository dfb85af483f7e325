package join

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// tester is what tests and property tests have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// side is an input of a join, as batches and as one batch.
type side struct {
	schema  *arrow.Schema
	batches []arrow.RecordBatch
	whole   arrow.RecordBatch
}

func newSide(t tester, schema *arrow.Schema, batches []arrow.RecordBatch) side {
	t.Helper()
	whole, err := vec.Concat(schema, batches)
	if err != nil {
		t.Fatal(err)
	}
	return side{schema, batches, whole}
}

// fromJSON returns a side of one batch.
func fromJSON(t tester, schema *arrow.Schema, text string) side {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.NewGoAllocator(), schema, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return newSide(t, schema, []arrow.RecordBatch{b})
}

// keyOf returns a text that is equal for equal keys, and false for a key with a null.
func keyOf(b arrow.RecordBatch, keys []int, row int) (string, bool) {
	var s strings.Builder
	for _, k := range keys {
		c := b.Column(k)
		if c.IsNull(row) {
			return "", false
		}
		switch c := c.(type) {
		case *array.Float64:
			s.WriteString(floatText(c.Value(row)))
		case *array.Float32:
			s.WriteString(floatText(float64(c.Value(row))))
		case *array.Decimal128:
			s.WriteString(c.Value(row).BigInt().String()) // the text of a value may be rounded
		default:
			fmt.Fprintf(&s, "%q", c.ValueStr(row))
		}
		s.WriteByte('|')
	}
	return s.String(), true
}

func floatText(f float64) string {
	switch {
	case f == 0:
		f = 0 // not -0
	case math.IsNaN(f):
		f = math.NaN() // of many
	}
	return fmt.Sprint(math.Float64bits(f))
}

func rowText(b arrow.RecordBatch, columns []int, row int) string {
	s := make([]string, len(columns))
	for i, c := range columns {
		if s[i] = "null"; row >= 0 && b.Column(c).IsValid(row) {
			s[i] = b.Column(c).ValueStr(row)
		}
	}
	return strings.Join(s, ",")
}

// reference joins by a loop over all pairs. condition may be nil.
func reference(left, right side, rightKeys []int, o Options, condition func(l, r int) bool) []string {
	var out []string
	add := func(l, r int) {
		text := rowText(left.whole, o.Left, l)
		if !o.Kind.selects() {
			text += ";" + rowText(right.whole, o.Right, r)
		}
		out = append(out, text)
	}
	matched := make([]bool, right.whole.NumRows())
	nullRight := false
	for r := range matched {
		_, ok := keyOf(right.whole, rightKeys, r)
		nullRight = nullRight || !ok
	}
	for l := range int(left.whole.NumRows()) {
		lk, ok := keyOf(left.whole, o.Keys, l)
		hit := false
		for r := range matched {
			rk, ok2 := keyOf(right.whole, rightKeys, r)
			if !ok || !ok2 || lk != rk || condition != nil && !condition(l, r) {
				continue
			}
			hit, matched[r] = true, true
			if !o.Kind.selects() {
				add(l, r)
			}
		}
		switch {
		case o.NullAware:
			if len(matched) == 0 || ok && !nullRight && !hit {
				add(l, -1)
			}
		case o.Kind == Semi && hit, (o.Kind == Anti || o.Kind.keepsLeft()) && !hit:
			add(l, -1)
		}
	}
	if o.Kind.keepsRight() {
		for r, m := range matched {
			if !m {
				add(-1, r)
			}
		}
	}
	return out
}

// run joins and returns the rows of the result.
func run(t tester, left, right side, rightKeys []int, o Options, hash hashFunc) []string {
	t.Helper()
	table, err := build(right.schema, right.batches, rightKeys, hash)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	return probeAll(t, table, left, o)
}

func probeAll(t tester, table *Table, left side, o Options) []string {
	t.Helper()
	p, err := table.Probe(left.schema, o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	var out []string
	most := o.MaxRows
	if most == 0 {
		most = defaultRows
	}
	emit := func(b arrow.RecordBatch) error {
		defer b.Release()
		if b.NumRows() == 0 || int(b.NumRows()) > most {
			t.Errorf("emitted a batch of %d rows, want 1 to %d", b.NumRows(), most)
		}
		if !b.Schema().Equal(p.Schema()) {
			t.Errorf("emitted schema %v, want %v", b.Schema(), p.Schema())
		}
		l, r := numbers(len(o.Left)), numbers(len(o.Right))
		for i := range r {
			r[i] += len(o.Left)
		}
		for row := range int(b.NumRows()) {
			text := rowText(b, l, row)
			if !o.Kind.selects() {
				text += ";" + rowText(b, r, row)
			}
			out = append(out, text)
		}
		return nil
	}
	for _, b := range left.batches {
		if err := p.Add(b, emit); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Finish(emit); err != nil {
		t.Fatal(err)
	}
	return out
}

func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func compareRows(t tester, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			from := max(i-2, 0)
			t.Fatalf("%d rows, want %d; from row %d: got %q, want %q", len(got), len(want), from,
				got[min(from, len(got)):min(i+3, len(got))], want[min(from, len(want)):min(i+3, len(want))])
		}
	}
}
