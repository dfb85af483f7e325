package scan

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// jsonText appends the value of a row, which is not null, as JSON.
type jsonText func(out []byte, row int) ([]byte, error)

// writeJSON writes every row as an object in a line. Nulls are written, so that all lines have all columns.
func writeJSON(w *bufio.Writer, b arrow.RecordBatch) error {
	names := make([][]byte, b.NumCols())
	texts := make([]jsonText, b.NumCols())
	for i := range names {
		name, err := json.Marshal(b.ColumnName(i))
		if err != nil {
			return err
		}
		names[i] = append(name, ':')
		texts[i] = jsonTextOf(b.Column(i))
	}
	var line []byte
	for row := range int(b.NumRows()) {
		line = append(line[:0], '{')
		for i, name := range names {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(line, name...)
			if b.Column(i).IsNull(row) {
				line = append(line, "null"...)
				continue
			}
			var err error
			if line, err = texts[i](line, row); err != nil {
				return fmt.Errorf("frame: column %q, row %d: %w", b.ColumnName(i), row, err)
			}
		}
		if _, err := w.Write(append(line, '}', '\n')); err != nil {
			return err
		}
	}
	return nil
}

// jsonTextOf returns a function for the values of a column: numbers and booleans as they are, times as texts in the
// form of RFC 3339, bytes in base64.
func jsonTextOf(c arrow.Array) jsonText {
	switch a := c.(type) {
	case *array.Float64:
		return func(out []byte, row int) ([]byte, error) { return appendFloat(out, a.Value(row), 64), nil }
	case *array.Float32:
		return func(out []byte, row int) ([]byte, error) { return appendFloat(out, float64(a.Value(row)), 32), nil }
	case *array.Int64:
		return func(out []byte, row int) ([]byte, error) { return strconv.AppendInt(out, a.Value(row), 10), nil }
	case *array.String:
		return func(out []byte, row int) ([]byte, error) { return appendText(out, a.Value(row)) }
	case *array.LargeString:
		return func(out []byte, row int) ([]byte, error) { return appendText(out, a.Value(row)) }
	case *array.Binary:
		return func(out []byte, row int) ([]byte, error) {
			return append(base64.StdEncoding.AppendEncode(append(out, '"'), a.Value(row)), '"'), nil
		}
	case *array.Date32:
		return func(out []byte, row int) ([]byte, error) {
			return append(a.Value(row).ToTime().AppendFormat(append(out, '"'), time.DateOnly), '"'), nil
		}
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit
		return func(out []byte, row int) ([]byte, error) {
			t := a.Value(row).ToTime(unit)
			if y := t.Year(); y < 0 || y > 9999 {
				return out, fmt.Errorf("year %d has no text", y)
			}
			return append(t.AppendFormat(append(out, '"'), time.RFC3339Nano), '"'), nil
		}
	case *array.Boolean, *array.Int8, *array.Int16, *array.Int32, *array.Uint8, *array.Uint16, *array.Uint32,
		*array.Uint64, *array.Decimal128, *array.Decimal256:
		return func(out []byte, row int) ([]byte, error) { return append(out, a.ValueStr(row)...), nil }
	}
	return func(out []byte, row int) ([]byte, error) { // nested values, durations and others
		b, err := json.Marshal(c.GetOneForMarshal(row))
		return append(out, b...), err
	}
}

// appendFloat appends the shortest number that is read as the same value, and a text for those that have none.
func appendFloat(out []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(out, `"NaN"`...)
	case math.IsInf(v, 1):
		return append(out, `"Infinity"`...)
	case math.IsInf(v, -1):
		return append(out, `"-Infinity"`...)
	}
	from := len(out)
	out = strconv.AppendFloat(out, v, 'g', -1, bits)
	for _, c := range out[from:] {
		if c == '.' || c == 'e' {
			return out
		}
	}
	return append(out, ".0"...) // so that a reader sees a float
}

// appendText appends a string. Characters of HTML are not escaped.
func appendText(out []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return out, fmt.Errorf("%.40q is not valid UTF-8", s)
	}
	out = append(out, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
	}
	return append(append(out, s[from:]...), '"'), nil
}
