package scan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/fault"
)

// TextKind tracks the types that fit all texts of a column.
type TextKind struct {
	Some                               bool // there is a text
	NotInt, NotFloat, NotBool, NotTime bool
}

// merge takes the texts of another part of the column into account.
func (k *TextKind) merge(o TextKind) {
	k.Some = k.Some || o.Some
	k.NotInt, k.NotFloat = k.NotInt || o.NotInt, k.NotFloat || o.NotFloat
	k.NotBool, k.NotTime = k.NotBool || o.NotBool, k.NotTime || o.NotTime
}

func (k *TextKind) observe(s string, null []string) {
	if s == "" || slices.Contains(null, s) {
		return
	}
	k.Some = true
	if !k.NotInt {
		_, err := strconv.ParseInt(s, 10, 64)
		k.NotInt = err != nil
	}
	if !k.NotFloat {
		_, err := strconv.ParseFloat(s, 64)
		k.NotFloat = err != nil
	}
	if !k.NotBool {
		_, err := parseBool(s)
		k.NotBool = err != nil
	}
	if !k.NotTime {
		_, err := parseTime(s)
		k.NotTime = err != nil
	}
}

func (k *TextKind) dataType() arrow.DataType {
	switch {
	case !k.Some:
		return arrow.BinaryTypes.String
	case !k.NotInt:
		return arrow.PrimitiveTypes.Int64
	case !k.NotFloat:
		return arrow.PrimitiveTypes.Float64
	case !k.NotBool:
		return arrow.FixedWidthTypes.Boolean
	case !k.NotTime:
		return &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	}
	return arrow.BinaryTypes.String
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, errors.New("not true or false")
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("not a time such as 2006-01-02T15:04:05Z")
}

// csvAppender appends the text of one row to a column.
type csvAppender func(s string) error

// csvColumn returns an error for types of columns that CSV files cannot have.
func csvColumn(f arrow.Field, mem memory.Allocator, null []string) (csvAppender, error) {
	switch f.Type.ID() {
	case arrow.BOOL, arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32,
		arrow.UINT64,
		arrow.FLOAT32, arrow.FLOAT64, arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.DATE32, arrow.TIMESTAMP:
		b := array.NewBuilder(mem, f.Type)
		defer b.Release()
		return csvAppenderOf(b, f, null)
	}
	return nil, fault.Schemaf(-1, "column %q: type %v is not supported in CSV files", f.Name, f.Type)
}

// csvAppenderOf returns a function that appends texts to a builder, and nulls for those that mean it.
func csvAppenderOf(builder array.Builder, f arrow.Field, null []string) (csvAppender, error) {
	take, err := csvParserOf(builder, f)
	if err != nil {
		return nil, err
	}
	switch builder.(type) {
	case *array.StringBuilder, *array.LargeStringBuilder, *array.BinaryBuilder:
		null = nil
	}
	return func(s string) error {
		if s == "" || slices.Contains(null, s) {
			builder.AppendNull()
			return nil
		}
		return take(s)
	}, nil
}

// csvParserOf returns a function that appends texts which are not null to a builder.
func csvParserOf(builder array.Builder, f arrow.Field) (csvAppender, error) {
	var take csvAppender
	switch b := builder.(type) {
	case *array.StringBuilder:
		take = func(s string) error { b.Append(s); return nil }
	case *array.LargeStringBuilder:
		take = func(s string) error { b.Append(s); return nil }
	case *array.BinaryBuilder:
		take = func(s string) error { b.Append([]byte(s)); return nil }
	case *array.BooleanBuilder:
		take = parseInto(parseBool, b.Append)
	case *array.Int8Builder:
		take = parseInto(signed[int8](8), b.Append)
	case *array.Int16Builder:
		take = parseInto(signed[int16](16), b.Append)
	case *array.Int32Builder:
		take = parseInto(signed[int32](32), b.Append)
	case *array.Int64Builder:
		take = parseInto(signed[int64](64), b.Append)
	case *array.Uint8Builder:
		take = parseInto(unsigned[uint8](8), b.Append)
	case *array.Uint16Builder:
		take = parseInto(unsigned[uint16](16), b.Append)
	case *array.Uint32Builder:
		take = parseInto(unsigned[uint32](32), b.Append)
	case *array.Uint64Builder:
		take = parseInto(unsigned[uint64](64), b.Append)
	case *array.Float32Builder:
		take = parseInto(floating[float32](32), b.Append)
	case *array.Float64Builder:
		take = parseInto(floating[float64](64), b.Append)
	case *array.Date32Builder:
		take = parseInto(parseTime, func(t time.Time) { b.Append(arrow.Date32FromTime(t)) })
	case *array.TimestampBuilder:
		unit := f.Type.(*arrow.TimestampType).Unit
		take = func(s string) error {
			t, err := parseTime(s)
			if err != nil {
				return fmt.Errorf("%.100q: %w", s, err)
			}
			v, err := arrow.TimestampFromTime(t, unit)
			if err != nil {
				return err
			}
			b.Append(v)
			return nil
		}
	default:
		return nil, fault.Schemaf(-1, "column %q: type %v is not supported in CSV files", f.Name, f.Type)
	}
	return take, nil
}

// parseInto returns a csvAppender that parses texts and passes the values to add.
func parseInto[T any](parse func(string) (T, error), add func(T)) csvAppender {
	return func(s string) error {
		v, err := parse(s)
		if err != nil {
			var n *strconv.NumError
			if errors.As(err, &n) {
				err = n.Err
			}
			return fmt.Errorf("%.100q is not a valid %T: %w", s, v, err)
		}
		add(v)
		return nil
	}
}

func signed[T int8 | int16 | int32 | int64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := strconv.ParseInt(s, 10, bits)
		return T(v), err
	}
}

func unsigned[T uint8 | uint16 | uint32 | uint64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := strconv.ParseUint(s, 10, bits)
		return T(v), err
	}
}

func floating[T float32 | float64](bits int) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := strconv.ParseFloat(s, bits)
		return T(v), err
	}
}
