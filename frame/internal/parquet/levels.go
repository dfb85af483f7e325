package parquet

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// validity is a bitmap of the rows of a batch, which is filled from definition levels of one bit.
type validity struct {
	bits  []byte
	nulls int
}

// read takes k levels for the rows from at on, and returns the number of those that are present.
func (v *validity) read(r *rleReader, at, k int) (present int, err error) {
	for k > 0 {
		n := 0
		switch {
		case r.run > 0:
			if n = min(r.run, k); r.value != 0 {
				bitutil.SetBitsTo(v.bits, int64(at), int64(n), true)
				present += n
			} else {
				v.nulls += n
			}
			r.run -= n
		case r.pack > 0:
			n = min(r.pack, k)
			bitutil.CopyBitmap(r.b, r.bit, n, v.bits, at)
			set := bitutil.CountSetBits(v.bits, at, n)
			present += set
			v.nulls += n - set
			r.bit += n
			r.pack -= n
		default:
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		at += n
		k -= n
	}
	return present, nil
}

// fixedWidth are the types of values that spread moves.
type fixedWidth interface {
	uint8 | uint16 | uint32 | uint64 | [16]byte | [32]byte
}

// spread moves the first values of out, one for each present row, to the positions of their rows. bit is the position
// of the first row in the bitmap.
func spread[T fixedWidth](out []T, present int, valid []byte, bit int) {
	j := present - 1
	for i := len(out) - 1; i > j && j >= 0; i-- {
		if bitutil.BitIsSet(valid, bit+i) {
			out[i] = out[j]
			j--
		}
	}
}

// spreadOffsets is spread for the ends of texts: offsets[1:] has an end for each present row, offsets[0] is the begin
// of the first.
func spreadOffsets(offsets []int32, present int, valid []byte, bit int) {
	j := present
	for i := len(offsets) - 1; i > j; i-- {
		offsets[i] = offsets[j]
		if bitutil.BitIsSet(valid, bit+i-1) {
			j--
		}
	}
}

// spreadBits is spread for bits from position bit on.
func spreadBits(out []byte, rows, present int, valid []byte, bit int) {
	j := present - 1
	for i := rows - 1; i > j && j >= 0; i-- {
		if bitutil.BitIsSet(valid, bit+i) {
			bitutil.SetBitTo(out, bit+i, bitutil.BitIsSet(out, bit+j))
			j--
		}
	}
}

func bitmapBytes(n int) int { return (n + 7) / 8 }

// widthOf returns the number of bits of values up to most.
func widthOf(most int) uint { return uint(bits.Len(uint(most))) }
