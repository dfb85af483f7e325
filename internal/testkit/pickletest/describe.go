// Package pickletest supports tests of package pickle and its users: it describes values like
// tests/interop/peers/pickle_describe.py describes Python objects, so that decoded and encoded values can be compared.
package pickletest

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/wire/pickle"
)

// Describe describes the result of pickle.Decode.
func Describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case int64:
		return fmt.Sprintf("int:%x", x)
	case *big.Int:
		return "int:" + x.Text(16)
	case float64:
		return "float:" + bits(x)
	case string:
		return "str:" + hex.EncodeToString([]byte(x))
	case []byte:
		return "bytes:" + hex.EncodeToString(x)
	case *pickle.ByteArray:
		return "bytearray:" + hex.EncodeToString(x.Data)
	case *pickle.Buffer:
		return "bytes:" + hex.EncodeToString(x.Data)
	case []any:
		return "[" + items(x) + "]"
	case pickle.Tuple:
		return "(" + items(x) + ")"
	case *pickle.Dict:
		return "{" + pairs(x) + "}"
	case *pickle.Set:
		return "set{" + sorted(x.Items) + "}"
	case *pickle.FrozenSet:
		return "frozenset{" + sorted(x.Items) + "}"
	case complex128:
		return "complex:" + bits(real(x)) + ":" + bits(imag(x))
	case pickle.Range:
		return "range(" + items([]any{x.Start, x.Stop, x.Step}) + ")"
	case pickle.Slice:
		return "slice(" + items([]any{x.Start, x.Stop, x.Step}) + ")"
	case pickle.Global:
		return "global:" + x.String()
	case *pickle.Object:
		return object(x)
	}
	return library(v)
}

func library(v any) string {
	switch x := v.(type) {
	case pickle.OrderedDict:
		return "odict{" + pairs(x.Dict) + "}"
	case pickle.DefaultDict:
		return "ddict:" + Describe(x.Factory) + "{" + pairs(x.Dict) + "}"
	case pickle.Counter:
		return "counter{" + pairs(x.Dict) + "}"
	case pickle.Deque:
		return fmt.Sprintf("deque:%d[%s]", x.MaxLen, items(x.Items))
	case time.Duration:
		us := x.Microseconds()
		days := int64(math.Floor(float64(x) / float64(24*time.Hour)))
		us -= days * 24 * 3600 * 1e6
		return fmt.Sprintf("timedelta:%d:%d:%d", days, us/1e6, us%1e6)
	case pickle.TimeDelta:
		return fmt.Sprintf("timedelta:%d:%d:%d", x.Days, x.Seconds, x.Microseconds)
	case time.Time:
		_, offset := x.Zone()
		return fmt.Sprintf("datetime:%s:%d", x.Format("2006-01-02T15:04:05.000000000"), offset)
	case pickle.NaiveTime:
		return fmt.Sprintf("naive:%s:%d", x.Format("2006-01-02T15:04:05.000000000"), flag(x.Fold))
	case pickle.Date:
		return fmt.Sprintf("date:%04d-%02d-%02d", x.Year, x.Month, x.Day)
	case pickle.TimeOfDay:
		zone := "-"
		if x.Zone != nil {
			zone = Describe(*x.Zone)
		}
		return fmt.Sprintf("time:%d:%d:%d:%d:%d:%s", x.Hour, x.Minute, x.Second, x.Microsecond, flag(x.Fold), zone)
	case pickle.Timezone:
		if x.Zoneinfo {
			return "zoneinfo:" + x.Name
		}
		return fmt.Sprintf("timezone:%d:%s", int(x.Offset.Seconds()), x.Name)
	case pickle.Decimal:
		return "decimal:" + string(x)
	case *big.Rat:
		return "fraction:" + x.Num().Text(16) + ":" + x.Denom().Text(16)
	case pickle.UUID:
		return "uuid:" + x.String()
	case pickle.Path:
		return "path:" + x.Class + ":" + x.Text
	case *pickle.DType:
		return "dtype:" + dtype(x)
	case *pickle.Array:
		return array(x)
	case pickle.Scalar:
		return "scalar:" + dtype(x.DType) + ":" + hex.EncodeToString(x.Data)
	case *pickle.Exception:
		return fmt.Sprintf("exception:%s.%s(%s):%s", x.Module, x.Type, items(x.Args), x.Text)
	}
	return fmt.Sprintf("%T", v)
}

// object describes an object that Decode left undecoded: references, and a few named objects that Python creates by a
// call.
func object(o *pickle.Object) string {
	if key, ok := pickle.RefKey(o); ok {
		return "ref:" + Describe(key)
	}
	if g, _ := o.Class(); g.Is("builtins", "type") && len(o.Args) == 1 && o.Args[0] == nil {
		return "global:builtins.NoneType"
	}
	return "object"
}

func bits(x float64) string {
	if math.IsNaN(x) {
		return "nan"
	}
	return fmt.Sprintf("%016x", math.Float64bits(x))
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func list(vs []any) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = Describe(v)
	}
	return out
}

func items(vs []any) string { return strings.Join(list(vs), ", ") }

func sorted(vs []any) string {
	l := list(vs)
	slices.Sort(l)
	return strings.Join(l, ", ")
}

func pairs(d *pickle.Dict) string {
	var out []string
	for k, v := range d.All() {
		out = append(out, Describe(k)+": "+Describe(v))
	}
	return strings.Join(out, ", ")
}

func shape(n []int) string {
	out := make([]string, len(n))
	for i, x := range n {
		out[i] = fmt.Sprint(x)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

func dtype(d *pickle.DType) string {
	if d.Base != nil {
		return dtype(d.Base) + "*" + shape(d.SubShape)
	}
	if d.Fields == nil {
		return d.String()
	}
	var out []string
	for _, f := range d.Fields {
		out = append(out, fmt.Sprintf("%s@%d:%s", f.Name, f.Offset, dtype(f.DType)))
	}
	return fmt.Sprintf("record%d{%s}", d.ItemSize, strings.Join(out, ", "))
}

// array describes the items in C order, independent of the strides.
func array(a *pickle.Array) string {
	head := "array:" + dtype(a.DType) + ":" + shape(a.Shape) + ":"
	size := a.DType.ItemSize
	var raw []byte
	var objects []any
	var walk func(axis, at int)
	walk = func(axis, at int) {
		if axis == len(a.Shape) {
			if a.DType.Kind == 'O' {
				objects = append(objects, a.Objects[at/8])
			} else {
				raw = append(raw, a.Data[at:at+size]...)
			}
			return
		}
		for i := range a.Shape[axis] {
			walk(axis+1, at+i*a.Strides[axis])
		}
	}
	walk(0, 0)
	if a.DType.Kind == 'O' {
		return head + "[" + items(objects) + "]"
	}
	return head + hex.EncodeToString(raw)
}
