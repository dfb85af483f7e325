package nccl

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/nccl/internal/ncclapi"
)

// PreMulSum makes an operation that multiplies each rank's elements by scalar before it adds
// them; ranks may give different ones. It serves data of type t only: integers, Float32 and
// Float64. FreeOp gives it back.
func (c *Comm) PreMulSum(ctx context.Context, t DataType, scalar float64) (Op, error) {
	raw, err := scalarBytes(t, scalar)
	if err != nil {
		return 0, err
	}
	return c.PreMulSumOf(ctx, t, raw)
}

// PreMulSumOf is PreMulSum by an element of the type, any of NCCL's, as its bytes in this
// machine's order.
func (c *Comm) PreMulSumOf(ctx context.Context, t DataType, element []byte) (Op, error) {
	if len(element) == 0 || len(element) != t.Size() {
		return 0, fmt.Errorf("nccl: a pre-multiplied sum of %v by %d bytes: give one element", t, len(element))
	}
	if err := c.acquire(ctx); err != nil {
		return 0, err
	}
	defer c.release()
	op, r := ncclapi.PreMulSum(c.handle, element, int(t))
	if err := c.settle(ctx, "make a pre-multiplied sum", r); err != nil {
		return 0, err
	}
	return Op(op), nil
}

// FreeOp gives an operation of PreMulSum back. Operations that use it must be done.
func (c *Comm) FreeOp(ctx context.Context, o Op) error {
	if o >= 0 && o <= Avg {
		return fmt.Errorf("nccl: %v is NCCL's own operation", o)
	}
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	return c.settle(ctx, "free an operation", ncclapi.RedOpDestroy(c.handle, int(o)))
}

// scalarBytes writes a number as an element of a type, in this machine's order.
func scalarBytes(t DataType, v float64) ([]byte, error) {
	integer := func(lowest, highest float64) error {
		if v != math.Trunc(v) || v < lowest || v > highest {
			return fmt.Errorf("nccl: %v is no %v", v, t)
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
	return nil, fmt.Errorf("nccl: a pre-multiplied sum of %v: use an integer type, float32 or float64", t)
}
