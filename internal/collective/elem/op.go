package elem

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Op says how the elements of the ranks are put together. Its zero value is no operation.
//
// Integers wrap around, as Go's do. F16 and bfloat16 are widened to float32 for each step and rounded
// after it, so that the result does not depend on who took the step. Min and Max give NaN where any rank
// has one.
type Op struct {
	code  OpCode
	kind  Kind   // of the scale; 0 where there is none
	scale uint64 // PreMulSum's, as the bits of an element
}

// OpCode is an operation without its parameter. The numbers travel between processes.
type OpCode uint8

// The codes.
const (
	OpSum OpCode = 1 + iota
	OpProd
	OpMin
	OpMax
	OpAvg
	OpPreMulSum
)

// The operations without a parameter.
var (
	Sum  = Op{code: OpSum}  // the sum of the ranks' elements
	Prod = Op{code: OpProd} // their product
	Min  = Op{code: OpMin}  // the smallest
	Max  = Op{code: OpMax}  // the largest
	// Avg is the sum divided by the number of ranks; that of integers is cut off towards zero.
	Avg = Op{code: OpAvg}
)

// PreMulSum multiplies this rank's elements by scale, each product rounded to the element's type, and
// sums them up. Each rank may have a scale of its own. It is for elements of the type T.
func PreMulSum[T Number](scale T) Op {
	var bits [8]byte
	copy(bits[:], View([]T{scale}))
	return Op{code: OpPreMulSum, kind: KindOf[T](), scale: binary.NativeEndian.Uint64(bits[:])}
}

// PreMulSumOf is PreMulSum for a kind that is known at run time only. The scale is rounded to it.
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

// Scale is PreMulSum's: an element of the kind, as its bytes in this machine's order. ok is false for other operations.
func (o Op) Scale() (k Kind, element []byte, ok bool) {
	if o.code != OpPreMulSum {
		return 0, nil, false
	}
	return o.kind, binary.NativeEndian.AppendUint64(nil, o.scale)[:o.kind.Size()], true
}

// Valid reports whether it is one of the operations.
func (o Op) Valid() bool { return o.code >= OpSum && o.code <= OpPreMulSum }

// String is the operation's name.
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
