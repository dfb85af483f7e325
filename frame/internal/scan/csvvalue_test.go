package scan

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// TestCSVKinds: the type of a column is the narrowest that fits all its texts; texts for null are ignored.
func TestCSVKinds(t *testing.T) {
	null := []string{"NA", "null"}
	at := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	for texts, want := range map[string]arrow.DataType{
		"":                                arrow.BinaryTypes.String,
		"NA,,null":                        arrow.BinaryTypes.String,
		"1,-2,3":                          arrow.PrimitiveTypes.Int64,
		"1,NA,,3":                         arrow.PrimitiveTypes.Int64,
		"1,2.5":                           arrow.PrimitiveTypes.Float64,
		"NA,1e3,null":                     arrow.PrimitiveTypes.Float64,
		"9223372036854775808":             arrow.PrimitiveTypes.Float64,
		"true,False,TRUE":                 arrow.FixedWidthTypes.Boolean,
		"true,NA":                         arrow.FixedWidthTypes.Boolean,
		"true,1":                          arrow.BinaryTypes.String,
		"2024-01-02,2024-01-02T03:04:05Z": at,
		"2024-01-02 03:04:05,null":        at,
		"2024-01-02,7":                    arrow.BinaryTypes.String,
		"na":                              arrow.BinaryTypes.String,
		"1,x":                             arrow.BinaryTypes.String,
	} {
		var k TextKind
		for _, s := range strings.Split(texts, ",") {
			k.observe(s, null)
		}
		if got := k.dataType(); !arrow.TypeEqual(got, want) {
			t.Errorf("%q: got %v, want %v", texts, got, want)
		}
	}
}

// TestCSVAppenders: each type accepts its texts, within its bounds, and rejects others; the empty text is null for
// every type, other texts for null for all types except text.
func TestCSVAppenders(t *testing.T) {
	for _, c := range []struct {
		dt   arrow.DataType
		good map[string]string // text to value
		bad  map[string]string // text to reason
	}{
		{arrow.PrimitiveTypes.Int8, map[string]string{"-128": "-128", "127": "127"},
			map[string]string{"128": `"128" is not a valid int8: value out of range`, "x": "invalid syntax",
				"1.0": "invalid syntax"}},
		{arrow.PrimitiveTypes.Int16, map[string]string{"-32768": "-32768"}, map[string]string{"32768": "valid int16"}},
		{arrow.PrimitiveTypes.Int32, map[string]string{"2147483647": "2147483647"},
			map[string]string{"2147483648": "is not a valid int32"}},
		{arrow.PrimitiveTypes.Int64, map[string]string{"-9223372036854775808": "-9223372036854775808"},
			map[string]string{"9223372036854775808": "is not a valid int64"}},
		{arrow.PrimitiveTypes.Uint8, map[string]string{"255": "255", "0": "0"},
			map[string]string{"256": "is not a valid uint8", "-1": "is not a valid uint8"}},
		{arrow.PrimitiveTypes.Uint16, map[string]string{"65535": "65535"}, map[string]string{"65536": "valid uint16"}},
		{arrow.PrimitiveTypes.Uint32, map[string]string{"4294967295": "4294967295"},
			map[string]string{"4294967296": "is not a valid uint32"}},
		{arrow.PrimitiveTypes.Uint64, map[string]string{"18446744073709551615": "18446744073709551615"},
			map[string]string{"18446744073709551616": "is not a valid uint64"}},
		{arrow.PrimitiveTypes.Float32, map[string]string{"0.5": "0.5", "1e10": "1e+10"},
			map[string]string{"1e39": "is not a valid float32", "x": "is not a valid float32"}},
		{arrow.PrimitiveTypes.Float64, map[string]string{"0.1": "0.1", "-Inf": "-Inf"},
			map[string]string{"1e309": "is not a valid float64"}},
		{arrow.FixedWidthTypes.Boolean, map[string]string{"True": "true", "FALSE": "false"},
			map[string]string{"1": "not true or false"}},
		{arrow.BinaryTypes.String, map[string]string{"NA": "NA", "x": "x"}, nil},
		{arrow.BinaryTypes.LargeString, map[string]string{"NA": "NA"}, nil},
		{arrow.BinaryTypes.Binary, map[string]string{"NA": "TkE="}, nil},
		{arrow.FixedWidthTypes.Date32, map[string]string{"2024-02-29": "2024-02-29"},
			map[string]string{"2023-02-29": "not a time such as"}},
		{arrow.FixedWidthTypes.Timestamp_s, map[string]string{"1970-01-01T00:00:10Z": "1970-01-01T00:00:10Z"},
			map[string]string{"soon": "not a time such as"}},
	} {
		field := arrow.Field{Name: "x", Type: c.dt, Nullable: true}
		if _, err := csvColumn(field, heap, nil); err != nil {
			t.Errorf("%v: %v", c.dt, err)
		}
		b := array.NewBuilder(heap, c.dt)
		take, err := csvAppenderOf(b, field, []string{"NA"})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range c.good {
			if err := take(text); err != nil {
				t.Errorf("%v of %q: %v", c.dt, text, err)
				continue
			}
			a := b.NewArray()
			if got := a.ValueStr(0); a.Len() != 1 || got != want {
				t.Errorf("%v of %q: %s, want %s", c.dt, text, got, want)
			}
		}
		for text, want := range c.bad {
			if err := take(text); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v of %q: %v, want %q", c.dt, text, err, want)
			}
		}
		texts := c.dt.ID() == arrow.STRING || c.dt.ID() == arrow.LARGE_STRING || c.dt.ID() == arrow.BINARY
		for _, text := range []string{"", "NA"} {
			if err := take(text); err != nil {
				t.Errorf("%v of %q: %v", c.dt, text, err)
			}
		}
		if a := b.NewArray(); a.Len() != 2 || !a.IsNull(0) || a.IsNull(1) == texts {
			t.Errorf("%v: empty text and NA: got %v", c.dt, a)
		}
		b.Release()
	}
	for _, dt := range []arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Int8), arrow.Null,
		arrow.FixedWidthTypes.Date64} {
		if _, err := csvColumn(arrow.Field{Name: "x", Type: dt}, heap, nil); err == nil ||
			!strings.Contains(err.Error(), "in CSV files") {
			t.Errorf("%v: %v, want an error about an unsupported type", dt, err)
		}
	}
}
