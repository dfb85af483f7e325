// Package wiretest supports tests of the Dask protocol: a text that describes a value, equal in Go and in Python, and
// golden messages of the real packages.
package wiretest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	_ "go.millstream.dev/internal/wire/arrowipc" // for values of Arrow
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Describe returns a text that is equal for equal values, and equal to that of describe in
// tests/interop/peers/wire_golden.py. loose does not distinguish lists and tuples, as bodies of messages do not.
func Describe(v any, loose bool) string {
	d := func(x any) string { return Describe(x, loose) }
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		return fmt.Sprint(x)
	case int64, int, uint64:
		return fmt.Sprintf("i%d", x)
	case *big.Int:
		return "i" + x.String()
	case float64:
		return "f" + bits(x)
	case complex128:
		return "c" + bits(real(x)) + bits(imag(x))
	case string:
		return "s" + hex.EncodeToString([]byte(x))
	case []byte:
		return "b" + hexOrHash(x)
	case wire.ByteArray:
		return "B" + hexOrHash(x)
	case []any:
		if loose {
			return "(" + row(x, d) + ")"
		}
		return "[" + row(x, d) + "]"
	case wire.Tuple:
		return "(" + row(x, d) + ")"
	case wire.Set:
		return "set<" + sorted(x, d) + ">"
	case wire.FrozenSet:
		return "frozen<" + sorted(x, d) + ">"
	case wire.Dict:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = d(p.Key) + "=" + d(p.Value)
		}
		return "{" + strings.Join(parts, ",") + "}"
	case wire.Enum:
		return "enum" + x.Module + "." + x.Class + "." + x.Name
	case *wire.Exception:
		return fmt.Sprintf("exception%s.%s(%s)", x.Module, x.Type, row(x.Args, d))
	case *wire.NDArray:
		return describeArray(x)
	case *wire.DeviceArray:
		return describeDevice(x)
	case arrow.RecordBatch:
		return "batch" + describeColumns(x.Schema(), func(i int) []arrow.Array { return []arrow.Array{x.Column(i)} })
	case arrow.Table:
		return "table" + describeColumns(x.Schema(), func(i int) []arrow.Array { return x.Column(i).Data().Chunks() })
	}
	return describeTime(v)
}

func describeTime(v any) string {
	const layout = "2006-01-02T15:04:05.000000"
	switch x := v.(type) {
	case time.Time:
		_, offset := x.Zone()
		return fmt.Sprintf("time%s%+d", x.Format(layout), offset)
	case wire.NaiveTime:
		return "naive" + x.Format(layout)
	case wire.Date:
		return fmt.Sprintf("date%d-%d-%d", x.Year, x.Month, x.Day)
	case wire.TimeOfDay:
		if x.Zone == nil {
			return fmt.Sprintf("clock%d:%d:%d.%d", x.Hour, x.Minute, x.Second, x.Microsecond)
		}
	case time.Duration:
		return fmt.Sprintf("delta%d", x.Microseconds())
	case pickle.Decimal:
		return "decimal" + string(x)
	case pickle.UUID:
		return "uuid" + x.String()
	case pickle.Scalar:
		return "scalar" + x.DType.String() + ":" + hexOrHash(x.Data)
	case *big.Rat:
		return "fraction" + x.String()
	case pickle.Path:
		if x.Class == "PurePosixPath" {
			return "path" + x.Text
		}
	case pickle.Timezone:
		return fmt.Sprintf("zone%d", int(x.Offset.Seconds()))
	case pickle.TimeDelta:
		us := new(big.Int).Mul(big.NewInt(x.Days), big.NewInt(24*60*60*1_000_000))
		return "delta" + us.Add(us, big.NewInt(x.Seconds*1_000_000+x.Microseconds)).String()
	case pickle.Range:
		return fmt.Sprintf("range%v:%v:%v", x.Start, x.Stop, x.Step)
	}
	return "opaque"
}

func bits(f float64) string {
	if math.IsNaN(f) {
		return "nan"
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, math.Float64bits(f)))
}

func hexOrHash(b []byte) string {
	if len(b) <= 64 {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("%d:%x", len(b), sha256.Sum256(b))
}

func row(items []any, d func(any) string) string {
	parts := make([]string, len(items))
	for i, x := range items {
		parts[i] = d(x)
	}
	return strings.Join(parts, ",")
}

func sorted(items []any, d func(any) string) string {
	parts := make([]string, len(items))
	for i, x := range items {
		parts[i] = d(x)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// describeDevice describes an array whose memory is host memory, as in tests without a GPU.
func describeDevice(a *wire.DeviceArray) string {
	return fmt.Sprintf("device%s,%s,%s:%s", a.DType, joinDims(a.Shape), joinDims(a.Strides), hexOrHash(a.Frame.Bytes()))
}

// joinDims formats dimensions, such as 2x3.
func joinDims(n []int) string {
	parts := make([]string, len(n))
	for i, k := range n {
		parts[i] = fmt.Sprint(k)
	}
	return strings.Join(parts, "x")
}

func describeArray(a *wire.NDArray) string {
	order := "-"
	switch c, f := a.COrder(), a.FOrder(); {
	case c && f:
		order = "CF"
	case c:
		order = "C"
	case f:
		order = "F"
	}
	mode := "w"
	if a.ReadOnly {
		mode = "r"
	}
	return fmt.Sprintf("array%s,%s,%s,%s:%s", a.DType, joinDims(a.Shape), order, mode, hexOrHash(elements(a)))
}

// elements returns the bytes of all elements in C order.
func elements(a *wire.NDArray) []byte {
	item := a.DType.ItemSize()
	strides := a.Strides
	if strides == nil {
		strides = make([]int, len(a.Shape))
		n := item
		for i := len(strides) - 1; i >= 0; i-- {
			strides[i] = n
			n *= a.Shape[i]
		}
	}
	var out []byte
	var walk func(dim, at int)
	walk = func(dim, at int) {
		if dim == len(a.Shape) {
			out = append(out, a.Data[at:at+item]...)
			return
		}
		for i := range a.Shape[dim] {
			walk(dim+1, at+i*strides[dim])
		}
	}
	walk(0, a.Offset)
	return out
}

func describeColumns(s *arrow.Schema, chunks func(i int) []arrow.Array) string {
	cols := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		var cells []string
		for _, c := range chunks(i) {
			for k := range c.Len() {
				cells = append(cells, Describe(cell(c, k), false))
			}
		}
		cols[i] = f.Name + "=[" + strings.Join(cells, ",") + "]"
	}
	return "{" + strings.Join(cols, ",") + "}"
}

// cell returns one element of a column as a Python value.
func cell(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Int8:
		return int64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.String:
		return strings.Clone(a.Value(i))
	case *array.Boolean:
		return a.Value(i)
	case *array.Binary:
		return a.Value(i)
	case *array.Dictionary:
		return cell(a.Dictionary(), a.GetValueIndex(i))
	case *array.List:
		from, to := a.ValueOffsets(i)
		list := []any{}
		for k := from; k < to; k++ {
			list = append(list, cell(a.ListValues(), int(k)))
		}
		return list
	}
	return fmt.Sprintf("a %s", a.DataType())
}
