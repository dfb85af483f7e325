package nccl

import (
	"encoding/hex"
	"errors"
	"fmt"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// DataType is the type of the elements of a buffer.
type DataType int32

// Data types of NCCL. Float8 types need NCCL 2.24 and a GPU of compute capability 9.0.
const (
	Int8 DataType = iota
	Uint8
	Int32
	Uint32
	Int64
	Uint64
	Float16
	Float32
	Float64
	BFloat16
	Float8E4M3
	Float8E5M2
)

var typeNames = [...]string{"int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
	"bfloat16", "float8e4m3", "float8e5m2"}

var typeSizes = [...]int{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}

// Size returns the length of an element in bytes, 0 for an invalid type.
func (t DataType) Size() int {
	if t < 0 || int(t) >= len(typeSizes) {
		return 0
	}
	return typeSizes[t]
}

// String returns NumPy's name of the type.
func (t DataType) String() string {
	if t.Size() == 0 {
		return fmt.Sprintf("DataType(%d)", int32(t))
	}
	return typeNames[t]
}

// Op is a reduction operation.
type Op int32

// Operations of NCCL. Avg divides the sum by the number of ranks. [Comm.PreMulSum] creates more.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
)

// String returns the name of the operation.
func (o Op) String() string {
	if o >= 0 && o <= Avg {
		return [...]string{"sum", "prod", "max", "min", "avg"}[o]
	}
	return fmt.Sprintf("Op(%d)", int32(o))
}

// UniqueID identifies a communicator: one rank creates it and sends it to all others. A process with the id can join,
// and the id contains an address of the rank that created it: keep it secret until all ranks have joined.
type UniqueID [128]byte

// NewUniqueID returns an id and opens the socket, in this process, on which the ranks connect. This process must stay
// alive until all ranks have joined.
func NewUniqueID() (UniqueID, error) {
	if _, err := Library(); err != nil {
		return UniqueID{}, err
	}
	var id [128]byte
	if r := ncclapi.UniqueID(&id); r != ncclapi.Success {
		return UniqueID{}, &Error{Op: "create a unique id", Result: Result(r), Detail: ncclapi.LastError(0)}
	}
	return UniqueID(id), nil
}

// MarshalText returns 256 hexadecimal digits.
func (id UniqueID) MarshalText() ([]byte, error) {
	return hex.AppendEncode(nil, id[:]), nil
}

// UnmarshalText parses the output of MarshalText.
func (id *UniqueID) UnmarshalText(text []byte) error {
	if len(text) != 2*len(id) {
		return fmt.Errorf("nccl: unique id needs %d hexadecimal digits, got %d", 2*len(id), len(text))
	}
	if _, err := hex.Decode(id[:], text); err != nil {
		return errors.Join(errors.New("nccl: unique id is not hexadecimal"), err)
	}
	return nil
}
