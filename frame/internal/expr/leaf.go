package expr

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// column reads the values of a column of fixed width.
type column[T any] struct{ index int }

func (c column[T]) eval(x *exec) (vec[T], error) {
	a := x.columns[c.index]
	values := rawValues[T](x, a)
	if x.sel != nil {
		values = gather(x, values)
	}
	return vec[T]{values, validBits(x, a)}, nil
}

// validBits returns the rows of an array that have a value.
func validBits(x *exec, a arrow.Array) []uint64 {
	if a.NullN() == 0 {
		return nil
	}
	if bitmap := a.NullBitmapBytes(); len(bitmap) > 0 {
		return loadBits(x, bitmap, a.Data().Offset())
	}
	out := fill(x, x.n, true)
	for i := range x.n { // types without a bitmap
		if a.IsNull(x.row(i)) {
			out[i/64] &^= 1 << (i % 64)
		}
	}
	return out
}

// span returns the range of the current rows.
func (x *exec) span() (from, to int) {
	switch {
	case x.sel == nil:
		return x.from, x.from + x.n
	case x.n == 0:
		return 0, 0
	}
	return int(x.sel[0]), int(x.sel[x.n-1]) + 1
}

// rawValues returns the values of the span of the current rows, without a copy if they are aligned.
func rawValues[T any](x *exec, a arrow.Array) []T {
	from, to := x.span()
	return rawRange[T](x, a.Data().Buffers()[1].Bytes(), a.Data().Offset()+from, to-from)
}

// rawRange returns n numbers of a buffer.
func rawRange[T any](x *exec, b []byte, from, n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	b = b[from*size : (from+n)*size]
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(p), n)
	}
	out := alloc[T](x, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), n*size), b)
	return out
}

// gather returns the values of the selected rows from those of their span.
func gather[T any](x *exec, values []T) []T {
	out := alloc[T](x, x.n)
	if x.n == 0 {
		return out
	}
	base := x.sel[0]
	for i, r := range x.sel {
		out[i] = values[r-base]
	}
	return out
}

// boolColumn reads a column of booleans.
type boolColumn struct{ index int }

func (c boolColumn) test(x *exec) (bitvec, error) {
	a := x.columns[c.index]
	if x.n == 0 {
		return bitvec{}, nil
	}
	return bitvec{loadAllBits(x, a.Data().Buffers()[1].Bytes(), a.Data().Offset()), validBits(x, a)}, nil
}

// smallDecimals reads a column of decimals of at most 18 digits as int64.
type smallDecimals struct {
	index int
	src   *node
}

func (c smallDecimals) eval(x *exec) (vec[int64], error) {
	a := x.columns[c.index]
	wide := rawValues[int128](x, a)
	out := alloc[int64](x, x.n)
	valid := validBits(x, a)
	var bad int64
	if x.sel == nil {
		wide = wide[:len(out)]
		for i := range out {
			w := &wide[i]
			out[i] = int64(w.lo)
			bad |= w.hi ^ int64(w.lo)>>63
		}
	} else {
		for i, r := range x.sel {
			w := &wide[r-x.sel[0]]
			out[i] = int64(w.lo)
			bad |= w.hi ^ int64(w.lo)>>63
		}
	}
	if bad != 0 {
		for i := range out {
			w := wide[x.row(i)-x.row(0)]
			if bitSet(valid, i) && w.hi != int64(w.lo)>>63 {
				return vec[int64]{}, c.src.failf("value %v has more digits than its type %v", w.big(), c.src.t)
			}
		}
	}
	return vec[int64]{out, valid}, nil
}

// textColumn reads a column of texts or bytes without a copy of their content.
type textColumn struct{ index int }

func (c textColumn) eval(x *exec) (vec[string], error) {
	a := x.columns[c.index]
	out := x.allocTexts(x.n)
	if x.n == 0 {
		return vec[string]{v: out}, nil
	}
	switch a := a.(type) {
	case *array.String, *array.Binary:
		loadTexts[int32](x, a, out)
	case *array.LargeString, *array.LargeBinary:
		loadTexts[int64](x, a, out)
	case *array.StringView:
		for i := range out {
			out[i] = a.Value(x.row(i))
		}
	case *array.BinaryView:
		for i := range out {
			out[i] = stringOf(a.Value(x.row(i)))
		}
	}
	return vec[string]{out, validBits(x, a)}, nil
}

func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func loadTexts[O int32 | int64](x *exec, a arrow.Array, out []string) {
	from, to := x.span()
	d := a.Data()
	offsets := rawRange[O](x, d.Buffers()[1].Bytes(), d.Offset()+from, to-from+1)
	var content []byte
	if b := d.Buffers()[2]; b != nil {
		content = b.Bytes()
	}
	all := stringOf(content)
	if x.sel == nil {
		at := offsets[0]
		for i := range out {
			end := offsets[i+1]
			out[i] = all[at:end]
			at = end
		}
		return
	}
	for i, r := range x.sel {
		k := int(r) - from
		out[i] = all[offsets[k]:offsets[k+1]]
	}
}

// literal is a constant. Operations have loops for constants, so that eval is used for results that are constant only.
type literal[T any] struct {
	value T
	null  bool
}

func (l literal[T]) eval(x *exec) (vec[T], error) {
	var out []T
	if texts, ok := any(&out).(*[]string); ok {
		*texts = x.allocTexts(x.n)
	} else {
		out = alloc[T](x, x.n)
	}
	for i := range out {
		out[i] = l.value
	}
	if l.null {
		return vec[T]{out, fill(x, x.n, false)}, nil
	}
	return vec[T]{v: out}, nil
}

// boolLiteral is a constant boolean.
type boolLiteral struct{ value, null bool }

func (l boolLiteral) test(x *exec) (bitvec, error) {
	out := bitvec{v: fill(x, x.n, l.value)}
	if l.null {
		out.valid = fill(x, x.n, false)
	}
	return out, nil
}

// constantOf returns the value of a source if it is a constant that is not null.
func constantOf[T any](s source[T]) (T, bool) {
	if l, ok := s.(literal[T]); ok && !l.null {
		return l.value, true
	}
	var zero T
	return zero, false
}
