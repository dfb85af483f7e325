package elem

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Op specifies how elements of the ranks are combined. Its zero value is not a valid operation.
//
// Integers wrap around, as in Go. F16 and BF16 are widened to float32 for each step and rounded after it, so that the
// result does not depend on the rank that computes it. Min and Max return NaN if an element is NaN.
type Op struct {
	code  OpCode
	kind  Kind   // kind of the scale; 0 without one
	scale uint64 // scale of PreMulSum, as the bits of an element
}

// OpCode is an operation without its parameter. The numbers are sent between processes.
type OpCode uint8

// Codes.
const (
	OpSum OpCode = 1 + iota
	OpProd
	OpMin
	OpMax
	OpAvg
	OpPreMulSum
)

// Operations without a parameter.
var (
	Sum  = Op{code: OpSum}  // sum
	Prod = Op{code: OpProd} // product
	Min  = Op{code: OpMin}  // minimum
	Max  = Op{code: OpMax}  // maximum
	// Avg is the sum divided by the number of ranks, truncated toward zero for integers.
	Avg = Op{code: OpAvg}
)

// PreMulSum returns an operation that multiplies the elements of this rank by scale, rounds each product to the element
// type, and sums them. Each rank may use a different scale. It is for elements of type T.
func PreMulSum[T Number](scale T) Op {
	var bits [8]byte
	copy(bits[:], View([]T{scale}))
	return Op{code: OpPreMulSum, kind: KindOf[T](), scale: binary.NativeEndian.Uint64(bits[:])}
}

// PreMulSumOf is PreMulSum for a kind that is known only at run time. scale is rounded to the kind.
func PreMulSumOf(k Kind, scale float64) Op {
	switch k {
	case Int8:
		return PreMulSum(int8(scale))
	case Int16:
		return PreMulSum(int16(scale))
	case Int32:
		return PreMulSum(int32(scale))
	case Int64:
		return PreMulSum(int64(scale))
	case Uint8:
		return PreMulSum(uint8(scale))
	case Uint16:
		return PreMulSum(uint16(scale))
	case Uint32:
		return PreMulSum(uint32(scale))
	case Uint64:
		return PreMulSum(uint64(scale))
	case Float16:
		return PreMulSum(ToF16(float32(scale)))
	case BFloat16:
		return PreMulSum(ToBF16(float32(scale)))
	case Float32:
		return PreMulSum(float32(scale))
	case Float64:
		return PreMulSum(scale)
	}
	return Op{code: OpPreMulSum, scale: math.Float64bits(scale)}
}

var opNames = [...]string{OpSum: "sum", OpProd: "prod", OpMin: "min", OpMax: "max", OpAvg: "avg",
	OpPreMulSum: "premulsum"}

// Scale returns the scale of PreMulSum: an element of kind k, as bytes in native order. ok is false for other
// operations.
func (o Op) Scale() (k Kind, element []byte, ok bool) {
	if o.code != OpPreMulSum {
		return 0, nil, false
	}
	return o.kind, binary.NativeEndian.AppendUint64(nil, o.scale)[:o.kind.Size()], true
}

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o.code >= OpSum && o.code <= OpPreMulSum }

// String returns the name of the operation.
func (o Op) String() string { return o.code.String() }

// String returns the name of the code.
func (c OpCode) String() string {
	if c < OpSum || c > OpPreMulSum {
		return fmt.Sprintf("op(%d)", uint8(c))
	}
	return opNames[c]
}

// CodeOf returns the code of an operation.
func CodeOf(o Op) OpCode { return o.code }

// ScaleOf returns the scale of PreMulSum, as the bits of an element.
func ScaleOf(o Op) uint64 { return o.scale }

// ScaleKind returns the kind of the scale of PreMulSum, 0 for other operations.
func ScaleKind(o Op) Kind { return o.kind }

// NewOp returns the operation of a code, with the scale of PreMulSum as the bits of an element.
func NewOp(c OpCode, k Kind, scale uint64) Op { return Op{code: c, kind: k, scale: scale} }
