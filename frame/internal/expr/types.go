package expr

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// class groups the types that the same rules apply to.
type class int

const (
	other     class = iota // types that expressions only copy
	null                   // the type of the constant nil
	boolean                // bool
	integer                // int8 to int64, uint8 to uint64
	floating               // float32, float64
	decimal                // decimal128
	text                   // utf8, large_utf8, utf8_view
	binary                 // binary, large_binary, binary_view
	date                   // date32, date64
	timestamp              // timestamp
)

func classOf(t arrow.DataType) class {
	switch t.ID() {
	case arrow.NULL:
		return null
	case arrow.BOOL:
		return boolean
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64, arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		return integer
	case arrow.FLOAT32, arrow.FLOAT64:
		return floating
	case arrow.DECIMAL128:
		return decimal
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return text
	case arrow.BINARY, arrow.LARGE_BINARY, arrow.BINARY_VIEW:
		return binary
	case arrow.DATE32, arrow.DATE64:
		return date
	case arrow.TIMESTAMP:
		return timestamp
	}
	return other
}

func (c class) isNumber() bool { return c == integer || c == floating || c == decimal }
func (c class) isTime() bool   { return c == date || c == timestamp }

// Types that operations return.
var (
	boolType    = arrow.FixedWidthTypes.Boolean
	int64Type   = arrow.PrimitiveTypes.Int64
	uint64Type  = arrow.PrimitiveTypes.Uint64
	float32Type = arrow.PrimitiveTypes.Float32
	float64Type = arrow.PrimitiveTypes.Float64
	utf8Type    = arrow.BinaryTypes.String
	binaryType  = arrow.BinaryTypes.Binary
	date32Type  = arrow.FixedWidthTypes.Date32
)

// simpleTypes are the types without parameters, by name.
var simpleTypes = func() map[string]arrow.DataType {
	out := map[string]arrow.DataType{}
	for _, t := range []arrow.DataType{arrow.Null, boolType, arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Int16,
		arrow.PrimitiveTypes.Int32, int64Type, arrow.PrimitiveTypes.Uint8, arrow.PrimitiveTypes.Uint16,
		arrow.PrimitiveTypes.Uint32, uint64Type, float32Type, float64Type, utf8Type, arrow.BinaryTypes.LargeString,
		arrow.BinaryTypes.StringView, binaryType, arrow.BinaryTypes.LargeBinary, arrow.BinaryTypes.BinaryView,
		date32Type, arrow.FixedWidthTypes.Date64} {
		out[t.Name()] = t
	}
	return out
}()

// TypeName returns the text of a type, which ParseType reads: "int64", "decimal(15,2)", "timestamp[us]",
// "timestamp[us,UTC]". A type that expressions do not support has a text that ParseType rejects.
func TypeName(t arrow.DataType) string {
	switch t := t.(type) {
	case nil:
		return "none"
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return fmt.Sprintf("timestamp[%v]", t.Unit)
		}
		return fmt.Sprintf("timestamp[%v,%s]", t.Unit, t.TimeZone)
	}
	if simpleTypes[t.Name()] != nil {
		return t.Name()
	}
	return t.String()
}

// ParseType returns the type with a text of TypeName.
func ParseType(name string) (arrow.DataType, error) {
	if t := simpleTypes[name]; t != nil {
		return t, nil
	}
	if inner, ok := enclosed(name, "decimal(", ")"); ok {
		ps, ss, _ := strings.Cut(inner, ",")
		precision, err1 := strconv.Atoi(ps)
		scale, err2 := strconv.Atoi(ss)
		if err1 == nil && err2 == nil && precision >= 1 && precision <= maxPrecision && scale >= 0 &&
			scale <= precision {
			return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}, nil
		}
	}
	if inner, ok := enclosed(name, "timestamp[", "]"); ok {
		unit, zone, _ := strings.Cut(inner, ",")
		for _, u := range arrow.TimeUnitValues {
			if u.String() == unit {
				return &arrow.TimestampType{Unit: u, TimeZone: zone}, nil
			}
		}
	}
	return nil, typeErrorf("type %q is not supported; use bool, int8 to int64, uint8 to uint64, float32, float64, "+
		"utf8, large_utf8, binary, date32, timestamp or decimal128", name)
}

func enclosed(s, prefix, suffix string) (string, bool) {
	if strings.HasPrefix(s, prefix) && strings.HasSuffix(s, suffix) {
		return s[len(prefix) : len(s)-len(suffix)], true
	}
	return "", false
}

// maxPrecision is the largest number of digits of a decimal128.
const maxPrecision = 38

func decimalType(precision, scale int32) arrow.DataType {
	return &arrow.Decimal128Type{Precision: min(precision, maxPrecision), Scale: scale}
}

// digitsOf returns the number of decimal digits of the largest value of an integer type.
func digitsOf(t arrow.DataType) int32 {
	switch t.ID() {
	case arrow.INT8, arrow.UINT8:
		return 3
	case arrow.INT16, arrow.UINT16:
		return 5
	case arrow.INT32, arrow.UINT32:
		return 10
	case arrow.INT64:
		return 19
	}
	return 20
}

// asDecimal returns the decimal type that has all values of an integer or decimal type.
func asDecimal(t arrow.DataType) *arrow.Decimal128Type {
	if d, ok := t.(*arrow.Decimal128Type); ok {
		return d
	}
	return &arrow.Decimal128Type{Precision: digitsOf(t)}
}

// bitsOf returns the width of an integer type and whether it is signed.
func bitsOf(t arrow.DataType) (bits int, signed bool) {
	return t.(arrow.FixedWidthDataType).BitWidth(), arrow.IsSignedInteger(t.ID())
}
