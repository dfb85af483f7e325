package scan

import (
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"go.millstream.dev/frame/internal/fault"
)

// jsonRows makes batches of lines.
type jsonRows struct {
	p       projection
	b       *array.RecordBuilder
	columns map[string]int // of the file: number in the batch, -1 for those that are not read
	strict  bool           // other fields are errors
	take    []jsonAppender
	set     []int // number of the last row that has a value, for each column, from 1
	rows    int
	most    int
	next    func(arrow.RecordBatch) error
}

// jsonAppender appends a value to a column.
type jsonAppender func(v jsonValue) error

func newJSONRows(p projection, strict bool, most int, next func(arrow.RecordBatch) error) (*jsonRows, error) {
	r := &jsonRows{p: p, b: array.NewRecordBuilder(heap, p.out), columns: map[string]int{}, strict: strict, most: most,
		next: next, set: make([]int, p.out.NumFields())}
	for _, f := range p.in.Fields() {
		r.columns[f.Name] = -1
	}
	for i, f := range p.out.Fields() {
		r.columns[f.Name] = i
		a, err := jsonAppenderOf(r.b.Field(i), f)
		if err != nil {
			r.b.Release()
			return nil, err
		}
		r.take = append(r.take, a)
	}
	return r, nil
}

// line appends a row.
func (r *jsonRows) line(line []byte, _ int) error {
	r.rows++
	l := jsonLine{b: line}
	err := l.fields(func(name []byte, v jsonValue) error {
		i, ok := r.columns[string(name)]
		if !ok && r.strict {
			return fmt.Errorf("column %q is not in the beginning of the files; set NDJSONOptions.Schema or a larger "+
				"Sample", name)
		}
		if !ok || i < 0 {
			return nil
		}
		if r.set[i] == r.rows {
			return errTwice(name)
		}
		r.set[i] = r.rows
		if v.kind == jsonNull {
			r.b.Field(i).AppendNull()
			return nil
		}
		if err := r.take[i](v); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, row := range r.set {
		if row != r.rows {
			r.b.Field(i).AppendNull()
		}
	}
	if r.rows == r.most {
		if err := r.flush(); err != nil {
			return takenError{err}
		}
	}
	return nil
}

// flush passes the rows on.
func (r *jsonRows) flush() error {
	out := r.b.NewRecordBatch()
	if len(r.take) == 0 {
		out = array.NewRecordBatch(r.p.out, nil, int64(r.rows))
	}
	r.rows = 0
	clear(r.set)
	return r.next(out)
}

// checkJSONSchema returns an error for types of columns that NDJSON files cannot have.
func checkJSONSchema(s *arrow.Schema) error {
	for _, f := range s.Fields() {
		b := array.NewBuilder(heap, f.Type)
		_, err := jsonAppenderOf(b, f)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// jsonAppenderOf returns a function that appends values to a builder.
func jsonAppenderOf(builder array.Builder, f arrow.Field) (jsonAppender, error) {
	accept := func(kinds ...jsonKind) func(v jsonValue) error {
		return func(v jsonValue) error {
			for _, k := range kinds {
				if v.kind == k {
					return nil
				}
			}
			return fmt.Errorf("%.100q is %s, want %v", v.text, v.kind, f.Type)
		}
	}
	var allowed func(v jsonValue) error
	switch b := builder.(type) {
	case *array.StringBuilder:
		return func(v jsonValue) error { b.BinaryBuilder.Append(v.text); return nil }, nil
	case *array.LargeStringBuilder:
		return func(v jsonValue) error { b.Append(string(v.text)); return nil }, nil
	case *array.BinaryBuilder:
		allowed = accept(jsonString)
		return func(v jsonValue) error {
			if err := allowed(v); err != nil {
				return err
			}
			raw, err := base64.StdEncoding.DecodeString(v.view())
			if err != nil {
				return fmt.Errorf("%.100q is not base64: %w", v.text, err)
			}
			b.Append(raw)
			return nil
		}, nil
	case *array.Decimal128Builder:
		t := f.Type.(*arrow.Decimal128Type)
		return func(v jsonValue) error {
			n, ok := exactDecimal(v.view(), t)
			if !ok || v.kind != jsonNumber {
				return fmt.Errorf("%.100q is not a valid %v", v.text, t)
			}
			b.Append(n)
			return nil
		}, nil
	case *array.Float32Builder, *array.Float64Builder:
		return jsonFloats(builder, f)
	case *array.BooleanBuilder:
		allowed = accept(jsonBool)
	case *array.Date32Builder, *array.TimestampBuilder:
		allowed = accept(jsonString)
	default:
		allowed = accept(jsonNumber)
	}
	parse, err := csvParserOf(builder, f)
	if err != nil {
		return nil, fault.Schemaf(-1, "column %q: type %v is not supported in NDJSON files", f.Name, f.Type)
	}
	return func(v jsonValue) error {
		if err := allowed(v); err != nil {
			return err
		}
		return parse(v.view())
	}, nil
}

// jsonFloats appends floats; those for which JSON has no number are texts.
func jsonFloats(builder array.Builder, f arrow.Field) (jsonAppender, error) {
	parse, err := csvParserOf(builder, f)
	if err != nil {
		return nil, err
	}
	return func(v jsonValue) error {
		if v.kind == jsonString && !notFinite(v.view()) || v.kind == jsonBool || v.kind == jsonNested {
			return fmt.Errorf("%.100q is %s, want %v", v.text, v.kind, f.Type)
		}
		return parse(v.view())
	}, nil
}

// exactDecimal returns a number as a decimal, without rounding.
func exactDecimal(s string, t *arrow.Decimal128Type) (decimal128.Num, bool) {
	// Numbers with long exponents would need much memory.
	if e := strings.IndexAny(s, "eE"); len(s) > 120 || e >= 0 && len(s)-e > 4 {
		return decimal128.Num{}, false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return decimal128.Num{}, false
	}
	r.Mul(r, new(big.Rat).SetInt(power(t.Scale)))
	if !r.IsInt() || r.Num().CmpAbs(power(t.Precision)) >= 0 {
		return decimal128.Num{}, false
	}
	return decimal128.FromBigInt(r.Num()), true
}
