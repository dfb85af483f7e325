package parquet

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// Stats are the statistics of a column in a row group.
type Stats struct {
	// Min and Max are bounds of the values that are not null and not NaN, nil if they are unknown: int64 (for integers,
	// dates, times and timestamps in the unit of the column), uint64, float64, bool, string (for texts and bytes) or
	// decimal128.Num. Those of long texts may be shortened: no value is less than Min or greater than Max.
	Min, Max any
	// Nulls is the number of nulls, -1 if it is unknown.
	Nulls int64
	Rows  int64
}

// Stats returns the statistics of a column of the schema in a row group.
func (f *File) Stats(group, column int) Stats {
	g, n := &f.meta.groups[group], f.fields[column]
	s := Stats{Nulls: -1, Rows: g.rows}
	if n.leaf < 0 || n.maxRep > 0 {
		return s
	}
	c := &g.columns[n.leaf]
	if nulls := c.stats.nulls; nulls >= 0 && nulls <= g.rows {
		s.Nulls = nulls
	}
	if n.maxDef == 0 {
		s.Nulls = 0
	}
	low, high := c.stats.min, c.stats.max
	if !f.meta.ordered {
		low, high = nil, nil
	}
	if low == nil && high == nil && n.element.oldOrder() {
		low, high = c.stats.oldMin, c.stats.oldMax
	}
	s.Min, s.Max = n.bound(low), n.bound(high)
	return s
}

// oldOrder reports whether the order of early statistics, signed, is that of the type.
func (e *element) oldOrder() bool {
	l := e.logicalType()
	switch e.physical {
	case typeBool, typeFloat, typeDouble:
		return true
	case typeInt32, typeInt64:
		return l.kind != logicalInteger || l.signed
	}
	return false
}

// bound decodes a minimum or maximum, nil if it is invalid or of a type without an order.
func (n *node) bound(b []byte) any {
	if b == nil {
		return nil
	}
	dt := n.field.Type
	switch n.element.physical {
	case typeBool:
		if len(b) == 1 {
			return b[0] != 0
		}
	case typeInt32:
		if len(b) != 4 {
			return nil
		}
		v := binary.LittleEndian.Uint32(b)
		switch dt.ID() {
		case arrow.UINT8, arrow.UINT16, arrow.UINT32:
			return uint64(v)
		case arrow.DECIMAL128:
			return decimal128.FromI64(int64(int32(v)))
		}
		return int64(int32(v))
	case typeInt64:
		if len(b) != 8 {
			return nil
		}
		v := binary.LittleEndian.Uint64(b)
		switch dt.ID() {
		case arrow.UINT64:
			return v
		case arrow.DECIMAL128:
			return decimal128.FromI64(int64(v))
		}
		return int64(v)
	case typeFloat:
		if len(b) == 4 {
			return number(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
	case typeDouble:
		if len(b) == 8 {
			return number(math.Float64frombits(binary.LittleEndian.Uint64(b)))
		}
	case typeBytes, typeFixed:
		return n.boundBytes(b)
	}
	return nil
}

func (n *node) boundBytes(b []byte) any {
	switch n.field.Type.ID() {
	case arrow.DECIMAL128:
		var v [16]byte
		if len(b) == 0 || bigEndian(v[:], b) != nil {
			return nil
		}
		return decimal128.New(int64(binary.LittleEndian.Uint64(v[8:])), binary.LittleEndian.Uint64(v[:8]))
	case arrow.STRING, arrow.BINARY, arrow.FIXED_SIZE_BINARY:
		return string(b)
	}
	return nil
}

// number returns nil for NaN, which some writers use as a bound.
func number(v float64) any {
	if math.IsNaN(v) {
		return nil
	}
	return v
}
