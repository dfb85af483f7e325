package group

import (
	"fmt"
	"math/big"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// int128 is a number of 128 bits in two's complement, as decimals are stored.
type int128 struct{ lo, hi uint64 }

func wide(v int64) int128 { return int128{uint64(v), uint64(v >> 63)} }

// plus returns a+b, and a word whose upper bit is set if that overflowed.
func (a int128) plus(b int128) (sum int128, over uint64) {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return int128{lo, hi}, (a.hi ^ hi) & (b.hi ^ hi)
}

func (a int128) less(b int128) bool {
	return int64(a.hi) < int64(b.hi) || a.hi == b.hi && a.lo < b.lo
}

// abs returns the absolute value.
func (a int128) abs() int128 {
	if int64(a.hi) >= 0 {
		return a
	}
	lo, borrow := bits.Sub64(0, a.lo, 0)
	hi, _ := bits.Sub64(0, a.hi, borrow)
	return int128{lo, hi}
}

func (a int128) float() float64 {
	x := a.abs()
	f := float64(x.hi)*(1<<64) + float64(x.lo)
	if int64(a.hi) < 0 {
		return -f
	}
	return f
}

// limit is the least number of 39 digits.
var limit = func() int128 {
	n := new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)
	lo := new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1))
	return int128{lo.Uint64(), new(big.Int).Rsh(n, 64).Uint64()}
}()

// sumWide sums decimals and integers of 64 bits. Sums are kept in 64 bits as long as they cannot overflow, by the
// number and size of the values, and are added to those of 128 bits from time to time.
type sumWide struct {
	column[int64]
	typ   *arrow.Decimal128Type
	name  string
	input arrow.Type
	wides []int128 // values of decimals

	s    []int128
	part []int64 // to be added to s
	n    uint64  // values in part
	size uint64  // bits of their absolute values

	narrow [block]int64
}

func (h *sumWide) types() []arrow.DataType { return []arrow.DataType{h.typ} }

func (h *sumWide) bind(cols []arrow.Array, _ int64) error {
	h.valid, h.off = vec.Validity(cols[0])
	switch h.input = cols[0].DataType().ID(); h.input {
	case arrow.INT64, arrow.UINT64:
		h.v = vec.Values[int64](cols[0])
	default:
		h.v, h.wides = nil, vec.Values[int128](cols[0])
	}
	return nil
}

func (h *sumWide) add(from int, ids []uint32, groups int) error {
	v := h.rows(from, ids, groups)
	h.part = grow(h.part, groups)
	if len(ids) == 0 {
		return nil
	}
	fits := true
	switch h.input {
	case arrow.INT64:
	case arrow.UINT64:
		var union int64
		for _, x := range v {
			union |= x
		}
		fits = union >= 0
	default:
		v = h.narrow[:len(ids)]
		var other uint64
		for i, x := range h.wides[from:][:len(ids)] {
			v[i] = int64(x.lo)
			other |= x.hi ^ uint64(int64(x.lo)>>63)
		}
		fits = other == 0
	}
	if h.valid != nil {
		for i, g := range ids {
			if h.isValid(from + i) {
				h.seen[g] = true
			}
		}
	}
	if fits && h.addNarrow(from, ids, v) {
		return nil
	}
	return h.addWide(from, ids, groups)
}

// addNarrow adds values of 64 bits to the parts. It returns false, and has added nothing, if they are too large.
func (h *sumWide) addNarrow(from int, ids []uint32, v []int64) bool {
	n := uint64(len(ids))
	size := h.addParts(from, ids, v, 1)
	if safe(h.size|size, h.n+n) {
		h.size, h.n = h.size|size, h.n+n
		return true
	}
	// Sums may have overflowed, but are right again without these values.
	h.addParts(from, ids, v, -1)
	h.spill(len(h.part))
	if !safe(size, n) {
		return false
	}
	h.addParts(from, ids, v, 1)
	h.size, h.n = size, n
	return true
}

// safe reports whether n values with absolute values of these bits have a sum of 63 bits.
func safe(size, n uint64) bool {
	hi, lo := bits.Mul64(size+1, n)
	return hi == 0 && lo < 1<<62 && size < 1<<62
}

// addParts adds values times a sign, and returns the union of the bits of their absolute values, or nearly.
func (h *sumWide) addParts(from int, ids []uint32, v []int64, sign int64) (size uint64) {
	part := h.part
	v = v[:len(ids)]
	switch {
	case h.valid != nil:
		for i, g := range ids {
			if h.isValid(from + i) {
				x := v[i]
				size |= uint64(x ^ x>>63)
				part[g] += x * sign
			}
		}
	case h.none:
		var sum int64
		for _, x := range v {
			size |= uint64(x ^ x>>63)
			sum += x
		}
		part[0] += sum * sign
	case sign > 0:
		for i, g := range ids {
			x := v[i]
			size |= uint64(x ^ x>>63)
			part[g] += x
		}
	default:
		for i, g := range ids {
			part[g] -= v[i]
		}
	}
	return size
}

// spill adds the parts to the sums.
func (h *sumWide) spill(groups int) {
	h.s = grow(h.s, groups)
	for g, x := range h.part {
		h.s[g], _ = h.s[g].plus(wide(x))
	}
	clear(h.part)
	h.size, h.n = 0, 0
}

// addWide adds values of any size to the sums.
func (h *sumWide) addWide(from int, ids []uint32, groups int) error {
	h.s = grow(h.s, groups)
	var over uint64
	for i, g := range ids {
		row := from + i
		if !h.isValid(row) {
			continue
		}
		var x int128
		switch h.input {
		case arrow.INT64:
			x = wide(h.v[row])
		case arrow.UINT64:
			x = int128{lo: uint64(h.v[row])}
		default:
			x = h.wides[row]
		}
		sum, o := h.s[g].plus(x)
		h.s[g] = sum
		over |= o
	}
	if over>>63 != 0 {
		return h.errOverflow(h.typ)
	}
	return nil
}

func (h *sumWide) errOverflow(t arrow.DataType) error {
	return fmt.Errorf("group: sum of column %q overflows %v; cast it to another type", h.name, t)
}

// total returns the sum of a group.
func (h *sumWide) total(g int) int128 {
	x := wide(h.part[g])
	if g < len(h.s) {
		x, _ = x.plus(h.s[g])
	}
	return x
}

func (h *sumWide) states(groups int) ([]arrow.Array, error) {
	out := make([]int128, groups)
	for g := range out {
		x := h.total(g)
		if !x.abs().less(limit) {
			return nil, h.errOverflow(h.typ)
		}
		out[g] = x
	}
	return []arrow.Array{fixedArray(arrow.DataType(h.typ), out, groups, h.hasValue)}, nil
}

// integers returns the sums as int64, or as uint64 if they are those of unsigned integers.
func (h *sumWide) integers(groups int, t arrow.DataType) (arrow.Array, error) {
	out := make([]int64, groups)
	signed := t.ID() == arrow.INT64
	for g := range out {
		x := h.total(g)
		if signed && x.hi != uint64(int64(x.lo)>>63) || !signed && x.hi != 0 {
			return nil, h.errOverflow(t)
		}
		out[g] = int64(x.lo)
	}
	return fixedArray(t, out, groups, h.hasValue), nil
}

func (h *sumWide) bytes() int64 {
	return int64(cap(h.s))*16 + int64(cap(h.part))*8 + int64(cap(h.seen))
}

// float returns the sum without its scale.
func (h *sumWide) float(g int) float64 { return h.total(g).float() }
