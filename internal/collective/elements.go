package collective

import "go.millstream.dev/internal/collective/elem"

// Kind, Op and the types of elements are those of package elem.
type (
	Kind   = elem.Kind
	Op     = elem.Op
	F16    = elem.F16
	BF16   = elem.BF16
	Number = elem.Number
)

// Kinds of elements.
const (
	Int8     = elem.Int8
	Int16    = elem.Int16
	Int32    = elem.Int32
	Int64    = elem.Int64
	Uint8    = elem.Uint8
	Uint16   = elem.Uint16
	Uint32   = elem.Uint32
	Uint64   = elem.Uint64
	Float16  = elem.Float16
	BFloat16 = elem.BFloat16
	Float32  = elem.Float32
	Float64  = elem.Float64
)

// Operations without a parameter.
var (
	Sum  = elem.Sum
	Prod = elem.Prod
	Min  = elem.Min
	Max  = elem.Max
	Avg  = elem.Avg
)
