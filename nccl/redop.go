package nccl

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// PreMulSum returns an operation that multiplies each rank's elements by scalar before adding them; ranks may use
// different scalars. It applies to data of type t only: integers, Float32 and Float64. FreeOp frees it.
func (c *Comm) PreMulSum(ctx context.Context, t DataType, scalar float64) (Op, error) {
	raw, err := scalarBytes(t, scalar)
	if err != nil {
		return 0, err
	}
	return c.PreMulSumOf(ctx, t, raw)
}

// PreMulSumOf is PreMulSum with an element of any data type of NCCL, as its bytes in this machine's order.
func (c *Comm) PreMulSumOf(ctx context.Context, t DataType, element []byte) (Op, error) {
	if len(element) == 0 || len(element) != t.Size() {
		return 0, fmt.Errorf("nccl: pre-multiplied sum of %v by %d bytes: want one element", t, len(element))
	}
	if err := c.acquire(ctx); err != nil {
		return 0, err
	}
	defer c.release()
	op, r := ncclapi.PreMulSum(c.handle, element, int(t))
	if err := c.await(ctx, "create a pre-multiplied sum", r); err != nil {
		return 0, err
	}
	return Op(op), nil
}

// FreeOp frees an operation of PreMulSum. Operations that use it must be complete.
func (c *Comm) FreeOp(ctx context.Context, o Op) error {
	if o >= 0 && o <= Avg {
		return fmt.Errorf("nccl: %v is a predefined operation and cannot be freed", o)
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	return c.await(ctx, "free an operation", ncclapi.RedOpDestroy(c.handle, int(o)))
}

// scalarBytes encodes a number as an element of a type, in this machine's order.
func scalarBytes(t DataType, v float64) ([]byte, error) {
	integer := func(lowest, highest float64) error {
		if v != math.Trunc(v) || v < lowest || v > highest {
			return fmt.Errorf("nccl: %v is not a valid %v", v, t)
		}
		return nil
	}
	switch t {
	case Float32:
		return binary.NativeEndian.AppendUint32(nil, math.Float32bits(float32(v))), nil
	case Float64:
		return binary.NativeEndian.AppendUint64(nil, math.Float64bits(v)), nil
	case Int8:
		return []byte{byte(int8(v))}, integer(math.MinInt8, math.MaxInt8)
	case Uint8:
		return []byte{byte(v)}, integer(0, math.MaxUint8)
	case Int32:
		return binary.NativeEndian.AppendUint32(nil, uint32(int32(v))), integer(math.MinInt32, math.MaxInt32)
	case Uint32:
		return binary.NativeEndian.AppendUint32(nil, uint32(v)), integer(0, math.MaxUint32)
	case Int64:
		return binary.NativeEndian.AppendUint64(nil, uint64(int64(v))), integer(-1<<53, 1<<53)
	case Uint64:
		return binary.NativeEndian.AppendUint64(nil, uint64(v)), integer(0, 1<<53)
	}
	return nil, fmt.Errorf("nccl: pre-multiplied sum of %v: use an integer type, float32 or float64", t)
}
