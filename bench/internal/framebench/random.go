package framebench

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// mix returns a number that looks random. Different numbers have different results.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// random returns a random number for a row of a column.
func random(seed, row uint64) uint64 { return mix(row*0x9e3779b97f4a7c15 + mix(seed)) }

// below returns a random number below n for a row of a column.
func below(seed, row, n uint64) uint64 {
	high, _ := bits.Mul64(random(seed, row), n)
	return high
}

// permutation is a random order of the numbers below n: a Feistel network on the next power of four, applied again to
// numbers that are not below n.
type permutation struct {
	n, seed uint64
	half    int
}

func permute(seed uint64, n int) permutation {
	return permutation{n: uint64(n), seed: mix(seed), half: (bits.Len64(uint64(max(n-1, 1))) + 1) / 2}
}

func (p permutation) at(i uint64) uint64 {
	mask := uint64(1)<<p.half - 1
	for {
		left, right := i>>p.half, i&mask
		for round := range uint64(4) {
			left, right = right, left^(mix(right+p.seed+round<<40)&mask)
		}
		if i = left<<p.half | right; i < p.n {
			return i
		}
	}
}

// numbers returns a column of fixed-size numbers of rows from one to before another.
func numbers[T int32 | int64 | float64](from, to int, value func(row uint64) T) arrow.Array {
	values := make([]T, to-from)
	for i := range values {
		values[i] = value(uint64(from + i))
	}
	d := array.NewData(arrow.GetDataType[T](), len(values),
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes(values))}, nil, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// texts returns a column of texts, which value appends.
func texts(from, to int, value func(to []byte, row uint64) []byte) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Reserve(to - from)
	var buffer []byte
	for i := from; i < to; i++ {
		buffer = value(buffer[:0], uint64(i))
		b.BinaryBuilder.Append(buffer)
	}
	return b.NewArray()
}

// rowsOf returns a batch of columns and releases them.
func rowsOf(s *arrow.Schema, columns ...arrow.Array) arrow.RecordBatch {
	out := array.NewRecordBatch(s, columns, int64(columns[0].Len()))
	for _, c := range columns {
		c.Release()
	}
	return out
}

// schemaOf returns a schema without nulls from alternating names and types.
func schemaOf(fields ...arrow.Field) *arrow.Schema { return arrow.NewSchema(fields, nil) }

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}
