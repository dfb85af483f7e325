package wire

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// NDArray is a numpy array: elements of one plain type, in any number of dimensions.
//
// The element at (i, j, …) starts at Data[Offset + i*Strides[0] + j*Strides[1] + …]. A decoded array borrows its data
// from the message; Clone detaches it.
type NDArray struct {
	// DType is the type of elements.
	DType DType
	// Shape is the number of elements in each dimension; none for a single element.
	Shape []int
	// Strides are the distances in bytes between neighbors in each dimension. Nil means C order without gaps.
	Strides []int
	// Data is the memory and Offset, in bytes, the position of the first element in it.
	Data   []byte
	Offset int
	// ReadOnly makes the array read-only in Python.
	ReadOnly bool
}

// maxDims is numpy's limit.
const maxDims = 64

// Element is a Go type with a numpy type of the same memory layout.
type Element interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// dtypeOf returns the numpy type of a Go type.
func dtypeOf[T Element]() DType {
	t := reflect.TypeFor[T]()
	switch t.Kind() {
	case reflect.Bool:
		return Bool
	case reflect.Int8:
		return Int8
	case reflect.Int16:
		return Int16
	case reflect.Int32:
		return Int32
	case reflect.Int64:
		return Int64
	case reflect.Uint8:
		return Uint8
	case reflect.Uint16:
		return Uint16
	case reflect.Uint32:
		return Uint32
	case reflect.Uint64:
		return Uint64
	case reflect.Float32:
		return Float32
	case reflect.Float64:
		return Float64
	case reflect.Complex64:
		return Complex64
	}
	return Complex128
}

// NewNDArray returns an array of a slice in C order, without copying it. Without a shape it has one dimension. It
// panics if shape and slice do not match.
func NewNDArray[T Element](data []T, shape ...int) *NDArray {
	if len(shape) == 0 {
		shape = []int{len(data)}
	}
	a := &NDArray{DType: dtypeOf[T](), Shape: shape}
	if n, err := a.count(); err != nil || n != len(data) {
		panic(fmt.Sprintf("wire: %d elements do not fit shape %v", len(data), shape))
	}
	if len(data) > 0 {
		a.Data = unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), len(data)*int(unsafe.Sizeof(data[0])))
	}
	return a
}

// Elements returns the elements in C order. It returns the array's memory if that is in C order, little-endian and
// aligned, and a copy otherwise.
func Elements[T Element](a *NDArray) ([]T, error) {
	if want := dtypeOf[T](); a.DType != want && !(a.DType.bigEndian() && a.DType[1:] == want[1:]) {
		return nil, fmt.Errorf("wire: array has type %s, not %s", a.DType, want)
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	n, _ := a.count()
	if n == 0 {
		return []T{}, nil
	}
	if err := a.spelled(); err != nil {
		return nil, err
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	b := a.Data
	if a.COrder() {
		b = b[a.Offset : a.Offset+n*size]
	} else {
		b = a.compact()
	}
	if p := unsafe.Pointer(&b[0]); !a.DType.bigEndian() && uintptr(p)%unsafe.Alignof(zero) == 0 {
		return unsafe.Slice((*T)(p), n), nil
	}
	out := make([]T, n)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), n*size)
	copy(raw, b)
	if a.DType.bigEndian() {
		part := size
		if a.DType.kind() == 'c' {
			part /= 2
		}
		for i := 0; i < len(raw); i += part {
			slices.Reverse(raw[i : i+part])
		}
	}
	return out, nil
}

// count returns the number of elements.
func (a *NDArray) count() (int, error) {
	if len(a.Shape) > maxDims {
		return 0, fmt.Errorf("wire: array of %d dimensions, numpy allows %d", len(a.Shape), maxDims)
	}
	n := 1
	for _, k := range a.Shape {
		if k < 0 {
			return 0, fmt.Errorf("wire: array has invalid shape %v", a.Shape)
		}
		if k == 0 {
			n = 0
		}
	}
	if n == 0 {
		return 0, nil
	}
	for _, k := range a.Shape {
		if n > (1<<62)/k {
			return 0, fmt.Errorf("wire: array of shape %v is too large", a.Shape)
		}
		n *= k
	}
	return n, nil
}

// Len returns the number of elements; 0 for an invalid array.
func (a *NDArray) Len() int { n, _ := a.count(); return n }

// strides returns the effective strides.
func (a *NDArray) strides() []int {
	if a.Strides != nil || len(a.Shape) == 0 {
		return a.Strides
	}
	return cStrides(a.Shape, a.DType.ItemSize())
}

func cStrides(shape []int, item int) []int {
	s := make([]int, len(shape))
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = item
		item *= max(shape[i], 1)
	}
	return s
}

// COrder reports whether the elements are contiguous with the last index varying fastest.
func (a *NDArray) COrder() bool { return a.contiguous(true) }

// FOrder reports whether the elements are contiguous with the first index varying fastest.
func (a *NDArray) FOrder() bool { return a.contiguous(false) }

func (a *NDArray) contiguous(c bool) bool {
	if n, err := a.count(); n == 0 || a.Strides == nil && c {
		return err == nil
	}
	want, strides := a.DType.ItemSize(), a.strides()
	for i := range a.Shape {
		if c {
			i = len(a.Shape) - 1 - i
		}
		// The stride of a dimension with one element is never used.
		if a.Shape[i] != 1 && strides[i] != want {
			return false
		}
		want *= a.Shape[i]
	}
	return true
}

// Check returns an error unless all elements are within Data.
func (a *NDArray) Check() error {
	item, err := a.DType.parse()
	if err != nil {
		return err
	}
	n, err := a.count()
	if err != nil {
		return err
	}
	strides := a.strides()
	if len(strides) != len(a.Shape) {
		return fmt.Errorf("wire: array has shape %v and strides %v", a.Shape, a.Strides)
	}
	if n == 0 {
		return nil
	}
	lo, hi := a.Offset, a.Offset
	for i, k := range a.Shape {
		reach, ok := mul(strides[i], k-1)
		if !ok {
			return errOutside
		}
		if reach < 0 {
			lo += reach
		} else {
			hi += reach
		}
		if lo < 0 || hi < 0 || hi > len(a.Data) {
			return errOutside
		}
	}
	if lo < 0 || item > len(a.Data)-hi {
		return errOutside
	}
	return nil
}

var errOutside = errors.New("wire: elements of an array are outside its data")

// mul multiplies within the range of addresses.
func mul(a, b int) (int, bool) {
	const limit = 1 << 62
	if b == 0 || a == 0 {
		return 0, true
	}
	if a > limit/b || a < -limit/b {
		return 0, false
	}
	return a * b, true
}

// maxSpelled bounds the copy of a broadcast array, in bytes: a few bytes of a peer can stand for more elements than
// there is memory.
const maxSpelled = 16 << 30

// spelled rejects an array whose copy is far larger than its memory. The array has been checked.
func (a *NDArray) spelled() error {
	n, _ := a.count()
	if size, ok := mul(n, max(1, a.DType.ItemSize())); !ok || size > len(a.Data) && size > maxSpelled {
		return fmt.Errorf("wire: broadcast array of shape %v is too large to copy", a.Shape)
	}
	return nil
}

// broadcast reports whether the array repeats elements.
func (a *NDArray) broadcast() bool { return slices.Contains(a.Strides, 0) && a.Len() > 1 }

// compact copies the elements in C order. The array has been checked.
func (a *NDArray) compact() []byte {
	n, _ := a.count()
	item := a.DType.ItemSize()
	out := make([]byte, 0, n*item)
	if n == 0 {
		return out
	}
	strides := a.strides()
	index := make([]int, len(a.Shape))
	at := a.Offset
	for range n {
		out = append(out, a.Data[at:at+item]...)
		for d := len(index) - 1; d >= 0; d-- {
			index[d]++
			at += strides[d]
			if index[d] < a.Shape[d] {
				break
			}
			at -= index[d] * strides[d]
			index[d] = 0
		}
	}
	return out
}

// clone copies the array so that it shares no memory. A broadcast array stays one. The elements of a view that leaves
// out most of its memory are copied in C order.
func (a *NDArray) clone() *NDArray {
	c := *a
	c.Shape = slices.Clone(a.Shape)
	c.Strides = slices.Clone(a.Strides)
	if a.Check() != nil {
		c.Data = slices.Clone(a.Data)
		return &c
	}
	n, _ := a.count()
	lo, hi := a.span()
	if hi-lo <= 2*n*a.DType.ItemSize() {
		c.Data = slices.Clone(a.Data[lo:hi])
		c.Offset = max(0, a.Offset-lo)
		return &c
	}
	c.Strides = nil
	c.Data = a.compact()
	c.Offset = 0
	return &c
}

// span returns the part of Data that contains the elements. The array has been checked.
func (a *NDArray) span() (lo, hi int) {
	if n, _ := a.count(); n == 0 {
		return 0, 0
	}
	lo, hi = a.Offset, a.Offset+a.DType.ItemSize()
	for i, s := range a.strides() {
		if reach := s * (a.Shape[i] - 1); reach < 0 {
			lo += reach
		} else {
			hi += reach
		}
	}
	return lo, hi
}
