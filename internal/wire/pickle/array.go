package pickle

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// Array is numpy's ndarray: memory and its layout.
type Array struct {
	DType *DType
	// Shape has the lengths of the axes; empty for a single item.
	Shape []int
	// Strides are the steps along the axes in bytes: C order, Fortran order or any other.
	Strides []int
	// Data is the memory, not a copy of the input. It is nil for an array of objects.
	Data []byte
	// Objects are the items of an array of objects, in C order, decoded.
	Objects []any
	// ReadOnly reports whether Python must not write to it.
	ReadOnly bool
}

// Scalar is one of numpy's scalars, like numpy.float64(1.5).
type Scalar struct {
	DType *DType
	// Data is the item's memory, not a copy.
	Data []byte
}

// maxAxes is numpy's limit.
const maxAxes = 64

// shapeOf decodes a tuple of lengths.
func shapeOf(v Value) ([]int, bool) {
	t, ok := v.(Tuple)
	if !ok {
		n, ok := v.(int64) // numpy takes a number for a tuple of one
		if !ok {
			return nil, false
		}
		t = Tuple{n}
	}
	if len(t) > maxAxes {
		return nil, false
	}
	shape := make([]int, len(t))
	for i, x := range t {
		n, ok := x.(int64)
		if !ok || n < 0 {
			return nil, false
		}
		shape[i] = int(n)
	}
	return shape, true
}

// elements returns the product of the lengths, if it fits.
func elements(shape []int) (int, bool) {
	n := uint64(1)
	for _, x := range shape {
		hi, lo := bits.Mul64(n, uint64(x))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		n = lo
	}
	return int(n), true
}

// strides returns the strides of an array without gaps.
func strides(shape []int, size int, fortran bool) []int {
	s := make([]int, len(shape))
	step := size
	for i := range shape {
		at := len(shape) - 1 - i
		if fortran {
			at = i
		}
		s[at] = step
		step *= max(shape[at], 1)
	}
	return s
}

// NewArray returns an array of memory without gaps, to be sent. dtype is in numpy's form, such as "<f8".
func NewArray(dtype string, shape []int, data []byte) (*Array, error) {
	d, err := ParseDType(dtype)
	if err != nil {
		return nil, err
	}
	n, ok := elements(append([]int{d.ItemSize}, shape...))
	for _, x := range shape {
		ok = ok && x >= 0
	}
	if !ok || n != len(data) || d.Kind == 'O' {
		return nil, fmt.Errorf("pickle: %d bytes are no array of %s with shape %v", len(data), dtype, shape)
	}
	return &Array{DType: d, Shape: shape, Strides: strides(shape, d.ItemSize, false), Data: data}, nil
}

// newArray checks that the memory matches dtype and shape.
func newArray(d *DType, shape []int, fortran bool, data []byte) (*Array, bool) {
	n, ok := elements(append([]int{d.ItemSize}, shape...))
	if !ok || n != len(data) || d.Kind == 'O' {
		return nil, false
	}
	return &Array{DType: d, Shape: shape, Strides: strides(shape, d.ItemSize, fortran), Data: data}, true
}

// buildArrayState decodes _reconstruct(ndarray, (0,), b"b") and its state (version, shape, dtype, fortran, bytes or
// list).
func buildArrayState(d *decoder, o *Object) (any, bool, error) {
	if o.Kind != Reduce || len(o.Args) != 3 || o.Args[0] != Value(Global{"numpy", "ndarray"}) || len(o.Steps) != 1 ||
		o.Steps[0].Kind != Build {
		return nil, false, nil
	}
	state, ok := o.Steps[0].Value.(Tuple)
	if !ok || len(state) != 5 {
		return nil, false, nil
	}
	shape, ok1 := shapeOf(state[1])
	dt, ok2 := dtype(state[2], 0)
	fortran, ok3 := state[3].(bool)
	if !ok1 || !ok2 || !ok3 {
		return nil, false, nil
	}
	if l, ok := state[4].(*List); ok && dt.Kind == 'O' {
		n, ok := elements(shape)
		if !ok || n != len(l.Items) {
			return nil, false, nil
		}
		items, err := d.items(l.Items) // in C order, whatever the flag says
		return &Array{DType: dt, Shape: shape, Strides: strides(shape, 8, false), Objects: items}, true, err
	}
	data, ok := AsBytes(state[4])
	if !ok {
		return nil, false, nil
	}
	a, ok := newArray(dt, shape, fortran, data)
	return a, ok, nil
}

// buildArrayBuffer decodes _frombuffer(buffer, dtype, shape, order[, axes]) of protocol 5.
func buildArrayBuffer(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(4, 5) {
		return nil, false, nil
	}
	data, ok1 := AsBytes(o.Args[0])
	dt, ok2 := dtype(o.Args[1], 0)
	shape, ok3 := shapeOf(o.Args[2])
	order, ok4 := o.Args[3].(string)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return nil, false, nil
	}
	a, ok := newArray(dt, shape, order == "F", data)
	if !ok {
		return nil, false, nil
	}
	switch o.Args[0].(type) {
	case []byte, *Object:
		a.ReadOnly = true
	case *Buffer:
		a.ReadOnly = o.Args[0].(*Buffer).ReadOnly
	}
	switch order {
	case "C", "F":
		return a, true, nil
	case "K": // in the order of axes
	default:
		return nil, false, nil
	}
	if len(o.Args) < 5 || o.Args[4] == nil {
		return nil, false, nil
	}
	axes, ok := shapeOf(o.Args[4])
	if !ok || len(axes) != len(shape) {
		return nil, false, nil
	}
	view := &Array{DType: dt, Shape: make([]int, len(axes)), Strides: make([]int, len(axes)), Data: a.Data,
		ReadOnly: a.ReadOnly}
	seen := make([]bool, len(axes))
	for i, from := range axes {
		if from >= len(axes) || seen[from] {
			return nil, false, nil
		}
		seen[from] = true
		view.Shape[i], view.Strides[i] = a.Shape[from], a.Strides[from]
	}
	return view, true, nil
}

// buildArrayCall decodes ndarray(shape, dtype, buffer, 0, strides), the form of Append.
func buildArrayCall(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(5, 5) || o.Args[3] != Value(int64(0)) {
		return nil, false, nil
	}
	shape, ok1 := shapeOf(o.Args[0])
	dt, ok2 := dtype(o.Args[1], 0)
	data, ok3 := AsBytes(o.Args[2])
	steps, ok4 := shapeOf(o.Args[4])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(steps) != len(shape) {
		return nil, false, nil
	}
	a, ok := newArray(dt, shape, false, data)
	if !ok {
		return nil, false, nil
	}
	last := a.DType.ItemSize
	if len(data) == 0 {
		a.Strides = steps
		return a, true, nil
	}
	for i, s := range steps {
		hi, lo := bits.Mul64(uint64(s), uint64(max(shape[i]-1, 0)))
		if hi != 0 || lo > uint64(len(data)) {
			return nil, false, nil
		}
		last += int(lo)
	}
	if last > len(data) {
		return nil, false, nil
	}
	a.Strides = steps
	return a, true, nil
}

// pickleTree returns numpy.ndarray(shape, dtype, buffer, 0, strides): a form that every numpy reads, without a copy,
// unlike those that numpy itself writes.
func (a *Array) pickleTree(protocol int) (Value, error) {
	dt, err := a.DType.pickleTree(protocol)
	if err != nil {
		return nil, err
	}
	if a.DType.Kind == 'O' {
		o := Call(Global{"numpy.core.multiarray", "_reconstruct"}, Global{"numpy", "ndarray"}, Tuple{int64(0)},
			[]byte("b"))
		return o.WithState(Tuple{int64(1), intTuple(a.Shape), dt, false, &List{Items: a.Objects}}), nil
	}
	steps := a.Strides
	if steps == nil {
		steps = strides(a.Shape, a.DType.ItemSize, false)
	}
	buf := &Buffer{Data: a.Data, Index: -1, ReadOnly: a.ReadOnly}
	return Call(Global{"numpy", "ndarray"}, intTuple(a.Shape), dt, buf, int64(0), intTuple(steps)), nil
}

func buildScalar(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(2, 2) {
		return nil, false, nil
	}
	dt, ok1 := dtype(o.Args[0], 0)
	data, ok2 := AsBytes(o.Args[1])
	if !ok1 || !ok2 || dt.Kind == 'O' || len(data) != dt.ItemSize {
		return nil, false, nil
	}
	return Scalar{dt, data}, true, nil
}

func (s Scalar) pickleTree(protocol int) (Value, error) {
	dt, err := s.DType.pickleTree(protocol)
	return Call(Global{"numpy.core.multiarray", "scalar"}, dt, s.Data), err
}

// Value returns the scalar as bool, int64, uint64, float64, complex128, string or []byte; nil for types without a Go
// type. For datetime64 and timedelta64 it is the number of units.
func (s Scalar) Value() any {
	var order binary.ByteOrder = binary.LittleEndian
	if s.DType.Order == '>' {
		order = binary.BigEndian
	}
	b := s.Data
	if len(b) != s.DType.ItemSize {
		return nil
	}
	switch s.DType.Kind {
	case 'b':
		return b[0] != 0
	case 'i', 'm', 'M':
		n, shift := unsigned(order, b), 64-8*len(b)
		return int64(n<<shift) >> shift
	case 'u':
		return unsigned(order, b)
	case 'f':
		if f, ok := floating(order, b); ok {
			return f
		}
	case 'c':
		re, ok := floating(order, b[:len(b)/2])
		im, _ := floating(order, b[len(b)/2:])
		if ok {
			return complex(re, im)
		}
	case 'S':
		return []byte(strings.TrimRight(string(b), "\x00"))
	case 'U':
		var out strings.Builder
		for i := 0; i+4 <= len(b); i += 4 {
			out.WriteRune(rune(order.Uint32(b[i:])))
		}
		return strings.TrimRight(out.String(), "\x00")
	case 'V':
		return b
	}
	return nil
}

func unsigned(order binary.ByteOrder, b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(order.Uint16(b))
	case 4:
		return uint64(order.Uint32(b))
	}
	return order.Uint64(b)
}

func floating(order binary.ByteOrder, b []byte) (float64, bool) {
	switch len(b) {
	case 2:
		return half(order.Uint16(b)), true
	case 4:
		return float64(math.Float32frombits(order.Uint32(b))), true
	case 8:
		return math.Float64frombits(order.Uint64(b)), true
	}
	return 0, false // long double has no form in Go
}

// half decodes IEEE 754's binary16.
func half(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&0x1f), float64(h&0x3ff)
	if h&0x8000 != 0 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac == 0 {
			return math.Inf(int(sign))
		}
		return math.NaN()
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
