package expr

import (
	le "encoding/binary"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

// chunkRows is the number of rows that an expression is evaluated on at once: few enough that intermediate results stay
// in the cache of a processor. It is a multiple of 64.
const chunkRows = 2048

// exec is the state of an evaluation: the current rows, and memory for results that are used until the next chunk.
type exec struct {
	columns []arrow.Array
	from, n int
	sel     []int32 // the rows if they are not from to from+n, ascending

	blocks [][]byte // memory without pointers
	block  int      // index of the block in use
	used   int      // bytes of it

	texts     [][]string // blocks of texts
	textBlock int
	textUsed  int
	bytes     []byte // content of texts
}

var execs = sync.Pool{New: func() any { return new(exec) }}

// newExec returns a state for the rows of a batch. Call done after use.
func newExec(batch arrow.RecordBatch) *exec {
	x := execs.Get().(*exec)
	if batch != nil {
		x.columns = batch.Columns()
	}
	return x
}

// done returns the state to the pool, without references to the data.
func (x *exec) done() {
	for _, b := range x.texts {
		clear(b)
	}
	x.columns, x.sel = nil, nil
	x.reset()
	if cap(x.bytes) > 1<<20 {
		x.bytes = nil
	}
	execs.Put(x)
}

// chunk moves to the rows from to from+n.
func (x *exec) chunk(from, n int) {
	x.reset()
	x.from, x.n, x.sel = from, n, nil
}

func (x *exec) reset() {
	x.block, x.used, x.textBlock, x.textUsed = 0, 0, 0, 0
	x.bytes = x.bytes[:0]
}

const blockSize = 64 << 10

// alloc returns memory for n values without pointers, whose content is undefined.
func alloc[T any](x *exec, n int) []T {
	var zero T
	size := (n*int(unsafe.Sizeof(zero)) + 15) &^ 15
	if size == 0 {
		return nil
	}
	for x.block < len(x.blocks) && x.used+size > len(x.blocks[x.block]) {
		x.block, x.used = x.block+1, 0
	}
	if x.block == len(x.blocks) {
		words := make([]uint128, max(blockSize, size)/16) // aligned
		x.blocks = append(x.blocks, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*16))
	}
	p := unsafe.Pointer(&x.blocks[x.block][x.used])
	x.used += size
	return unsafe.Slice((*T)(p), n)
}

type uint128 struct{ lo, hi uint64 }

// allocTexts returns memory for n texts, whose content is undefined.
func (x *exec) allocTexts(n int) []string {
	for x.textBlock < len(x.texts) && x.textUsed+n > len(x.texts[x.textBlock]) {
		x.textBlock, x.textUsed = x.textBlock+1, 0
	}
	if x.textBlock == len(x.texts) {
		x.texts = append(x.texts, make([]string, max(2*chunkRows, n)))
	}
	out := x.texts[x.textBlock][x.textUsed : x.textUsed+n : x.textUsed+n]
	x.textUsed += n
	return out
}

// row returns the number in the batch of the current row i.
func (x *exec) row(i int) int {
	if x.sel != nil {
		return int(x.sel[i])
	}
	return x.from + i
}

// under runs f on those of the current rows whose bits are set, of which there are n.
func (x *exec) under(bits []uint64, n int, f func() error) error {
	sel := alloc[int32](x, n)
	if x.sel == nil {
		indices(sel, bits, x.n, int32(x.from))
	} else {
		indices(sel, bits, x.n, 0)
		for i, r := range sel {
			sel[i] = x.sel[r]
		}
	}
	from, rows, old := x.from, x.n, x.sel
	x.n, x.sel = n, sel
	err := f()
	x.from, x.n, x.sel = from, rows, old
	return err
}

// vec has the values of the current rows, one for each. Those of nulls are undefined.
type vec[T any] struct {
	v     []T
	valid []uint64 // bits of the rows that have a value; nil: all
}

// bitvec has the booleans of the current rows. Bits of nulls, and after the last row, are undefined.
type bitvec struct {
	v     []uint64
	valid []uint64
}

// source computes values of a type.
type source[T any] interface {
	eval(x *exec) (vec[T], error)
}

// predicate computes booleans.
type predicate interface {
	test(x *exec) (bitvec, error)
}

func wordsFor(n int) int { return (n + 63) / 64 }

// tailMask returns a word with the bits of the rows of the last word of n rows.
func tailMask(n int) uint64 {
	if n%64 == 0 {
		return ^uint64(0)
	}
	return 1<<(n%64) - 1
}

// both returns the rows that are valid in both.
func both(x *exec, a, b []uint64) []uint64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := alloc[uint64](x, len(a))
	for i := range out {
		out[i] = a[i] & b[i]
	}
	return out
}

// count returns the number of bits of the first n rows that are set.
func count(words []uint64, n int) int {
	if n == 0 {
		return 0
	}
	total, last := 0, wordsFor(n)-1
	for _, w := range words[:last] {
		total += bits.OnesCount64(w)
	}
	return total + bits.OnesCount64(words[last]&tailMask(n))
}

// allSet reports whether the bits of the first n rows are set.
func allSet(words []uint64, n int) bool {
	if n == 0 {
		return true
	}
	last := wordsFor(n) - 1
	for _, w := range words[:last] {
		if w != ^uint64(0) {
			return false
		}
	}
	m := tailMask(n)
	return words[last]&m == m
}

func bitSet(words []uint64, i int) bool { return words == nil || words[i/64]>>(i%64)&1 != 0 }

// indices writes base plus the numbers of the set bits of the first n rows.
func indices(out []int32, words []uint64, n int, base int32) {
	k := 0
	for i := range wordsFor(n) {
		w := words[i]
		if i == n/64 {
			w &= tailMask(n)
		}
		at := base + int32(i*64)
		if w == ^uint64(0) && len(out)-k >= 64 {
			for j := range int32(64) {
				out[k+int(j)] = at + j
			}
			k += 64
			continue
		}
		for w != 0 && k < len(out) {
			out[k] = at + int32(bits.TrailingZeros64(w))
			k++
			w &= w - 1
		}
	}
}

// loadBits returns the bits of the current rows from a bitmap whose first row is at offset, nil if all are set.
func loadBits(x *exec, bitmap []byte, offset int) []uint64 {
	if bitmap == nil {
		return nil
	}
	out := loadAllBits(x, bitmap, offset)
	if allSet(out, x.n) {
		return nil
	}
	return out
}

// loadAllBits is loadBits that never returns nil.
func loadAllBits(x *exec, bitmap []byte, offset int) []uint64 {
	out := alloc[uint64](x, wordsFor(x.n))
	if x.sel == nil {
		copyBits(out, bitmap, offset+x.from, x.n)
		return out
	}
	clear(out)
	for i, r := range x.sel {
		at := offset + int(r)
		out[i/64] |= uint64(bitmap[at/8]>>(at%8)&1) << (i % 64)
	}
	return out
}

// copyBits copies n bits of a bitmap from a bit on.
func copyBits(out []uint64, bitmap []byte, from, n int) {
	shift := from % 8
	bitmap = bitmap[from/8:]
	for i := range wordsFor(n) {
		rest := bitmap[i*8:]
		if len(rest) > 8 {
			out[i] = le.LittleEndian.Uint64(rest) >> shift
			if shift > 0 {
				out[i] |= uint64(rest[8]) << (64 - shift)
			}
			continue
		}
		var last [8]byte
		copy(last[:], rest)
		out[i] = le.LittleEndian.Uint64(last[:]) >> shift
	}
}

// pack converts booleans to bits.
func pack(out []uint64, in []bool) {
	if len(in) == 0 {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(in))), len(in))
	i := 0
	for w := range out {
		var word uint64
		for shift := 0; shift < 64; shift += 8 {
			if i+8 > len(b) {
				for j := 0; i+j < len(b); j++ {
					word |= uint64(b[i+j]) << (shift + j)
				}
				i = len(b)
				break
			}
			// The product has byte j of the operand in bit 56+j.
			word |= le.LittleEndian.Uint64(b[i:]) * 0x0102040810204080 >> 56 << shift
			i += 8
		}
		out[w] = word
	}
}

// fill returns bits that are all set or all clear.
func fill(x *exec, n int, set bool) []uint64 {
	out := alloc[uint64](x, wordsFor(n))
	var w uint64
	if set {
		w = ^uint64(0)
	}
	for i := range out {
		out[i] = w
	}
	return out
}

// writable returns a copy of the bits of valid rows that may be changed.
func writable(x *exec, valid []uint64, n int) []uint64 {
	if valid == nil {
		return fill(x, n, true)
	}
	out := alloc[uint64](x, wordsFor(n))
	copy(out, valid)
	return out
}
