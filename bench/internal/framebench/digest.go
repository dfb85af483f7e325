package framebench

import (
	"fmt"
	"hash/crc32"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Digest describes rows independently of their order and of the widths of their types. Digests of parts are added.
type Digest struct {
	Rows int64
	// Hash is the sum of the hashes of the rows, without their floats.
	Hash uint64
	// Floats are the sums of the columns of floats and decimals.
	Floats []FloatSum
}

// FloatSum has the sums of a column of floats. Weights come from the other columns of the row, so that values in wrong
// rows are noticed.
type FloatSum struct{ Sum, Weighted, Abs float64 }

// prime is the multiplier of the hashes of rows.
const prime = 0x9e3779b97f4a7c15

// nullWord is the word of a null.
const nullWord = 0x6e756c6c

// add adds the rows of a batch.
func (d *Digest) add(b arrow.RecordBatch) error {
	n := int(b.NumRows())
	hashes := make([]uint64, n)
	var floats []func(i int) float64
	for _, c := range b.Columns() {
		if f := floatsOf(c); f != nil {
			floats = append(floats, f)
			continue
		}
		word, err := wordsOf(c)
		if err != nil {
			return err
		}
		nulls := c.NullN() > 0
		for i := range hashes {
			w := uint64(nullWord)
			if !nulls || c.IsValid(i) {
				w = word(i)
			}
			hashes[i] = mix(hashes[i]*prime + w)
		}
	}
	if d.Floats == nil {
		d.Floats = make([]FloatSum, len(floats))
	}
	if len(d.Floats) != len(floats) {
		return fmt.Errorf("batches with %d and %d columns of floats", len(d.Floats), len(floats))
	}
	for j, f := range floats {
		x := &d.Floats[j]
		for i, h := range hashes {
			v := f(i)
			x.Sum += v
			x.Weighted += v * float64(h>>40) / (1 << 24)
			x.Abs += math.Abs(v)
		}
	}
	for _, h := range hashes {
		d.Hash += h
	}
	d.Rows += int64(n)
	return nil
}

// merge adds the digest of other rows of the same table.
func (d *Digest) merge(o Digest) error {
	if o.Rows == 0 {
		return nil
	}
	if d.Rows == 0 {
		*d = o
		return nil
	}
	if len(d.Floats) != len(o.Floats) {
		return fmt.Errorf("parts with %d and %d columns of floats", len(d.Floats), len(o.Floats))
	}
	d.Rows += o.Rows
	d.Hash += o.Hash
	for i, x := range o.Floats {
		d.Floats[i].Sum += x.Sum
		d.Floats[i].Weighted += x.Weighted
		d.Floats[i].Abs += x.Abs
	}
	return nil
}

// tolerance is the relative difference of sums of floats that are added in another order.
const tolerance = 1e-9

// equal returns an error that says how two digests differ.
func (d Digest) equal(o Digest) error {
	if d.Rows != o.Rows {
		return fmt.Errorf("results differ: %d and %d rows", d.Rows, o.Rows)
	}
	if d.Rows == 0 {
		return nil
	}
	if d.Hash != o.Hash || len(d.Floats) != len(o.Floats) {
		return fmt.Errorf("results differ: %d rows with checksums %x and %x", d.Rows, d.Hash, o.Hash)
	}
	for i, x := range d.Floats {
		y, most := o.Floats[i], tolerance*max(x.Abs, 1e-300)
		if math.Abs(x.Sum-y.Sum) > most || math.Abs(x.Weighted-y.Weighted) > most {
			return fmt.Errorf("results differ: sums of column %d of floats: %v and %v", i, x, y)
		}
	}
	return nil
}

// floatsOf returns the values of a column of floats or decimals, of nulls a constant; nil for other types.
func floatsOf(c arrow.Array) func(i int) float64 {
	var value func(i int) float64
	switch x := c.(type) {
	case *array.Float64:
		value = x.Value
	case *array.Float32:
		value = func(i int) float64 { return float64(x.Value(i)) }
	case *array.Decimal128:
		scale := x.DataType().(*arrow.Decimal128Type).Scale
		value = func(i int) float64 { return x.Value(i).ToFloat64(scale) }
	default:
		return nil
	}
	if c.NullN() == 0 {
		return value
	}
	return func(i int) float64 {
		if c.IsNull(i) {
			return -0.40625
		}
		return value(i)
	}
}

// wordsOf returns a word for each value of a column.
func wordsOf(c arrow.Array) (func(i int) uint64, error) {
	switch x := c.(type) {
	case *array.Int64:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.Int32:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.Int16:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.Int8:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.Uint64:
		return x.Value, nil
	case *array.Uint32:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.Date32:
		return func(i int) uint64 { return uint64(x.Value(i)) }, nil
	case *array.String:
		return func(i int) uint64 { return textWord(x.Value(i)) }, nil
	case *array.LargeString:
		return func(i int) uint64 { return textWord(x.Value(i)) }, nil
	case *array.StringView:
		return func(i int) uint64 { return textWord(x.Value(i)) }, nil
	}
	return nil, fmt.Errorf("columns of type %v cannot be compared", c.DataType())
}

func textWord(s string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(s)))<<8 ^ uint64(len(s)) }
