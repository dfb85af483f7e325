package vec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// copyShort copies 8 to 16 bytes.
func copyShort(to, from []byte) {
	n := len(from)
	first, last := binary.LittleEndian.Uint64(from), binary.LittleEndian.Uint64(from[n-8:])
	binary.LittleEndian.PutUint64(to, first)
	binary.LittleEndian.PutUint64(to[n-8:], last)
}

// takeDictionary copies the indexes and shares the dictionary.
func (s selection) takeDictionary(a *array.Dictionary) (arrow.Array, error) {
	indexes, err := s.take(a.Indices())
	if err != nil {
		return nil, err
	}
	defer indexes.Release()
	return array.NewDictionaryArray(a.DataType(), indexes, a.Dictionary()), nil
}

func (s selection) takeStruct(a *array.Struct) (arrow.Array, error) {
	fields := make([]arrow.Array, a.NumField())
	defer func() { Release(fields) }()
	for i := range fields {
		var err error
		if fields[i], err = s.take(a.Field(i)); err != nil {
			return nil, err
		}
	}
	valid, nulls := s.validity(a)
	return Make(a.DataType(), len(s.rows), nulls, []*memory.Buffer{valid}, fields...), nil
}

// takeView copies the views and shares the bytes to which they point.
func (s selection) takeView(a arrow.Array) arrow.Array {
	valid, nulls := s.validity(a)
	buffers := []*memory.Buffer{valid, takeValues[[2]uint64](s, a)}
	return Make(a.DataType(), len(s.rows), nulls, append(buffers, a.Data().Buffers()[2:]...))
}

// errTooLong is returned if a list of a batch has more elements than rows can be numbered.
var errTooLong = fmt.Errorf("more than %d elements of lists; use smaller batches", math.MaxInt32)

// takeList takes the elements of the lists from their array.
func takeList[T int32 | int64](s selection, a arrow.Array) (arrow.Array, error) {
	offsets := Offsets[T](a)
	valid, nulls := s.validity(a)
	to := make([]T, len(s.rows)+1)
	var size int64
	live := func(i int) bool { return valid == nil || isSet(valid.Bytes(), i) }
	for i, r := range s.rows {
		if live(i) {
			size += int64(offsets[r+1] - offsets[r])
		}
		if size > math.MaxInt32 {
			return nil, errTooLong
		}
		to[i+1] = T(size)
	}
	elements := make([]int32, 0, size)
	for i, r := range s.rows {
		if live(i) {
			for e := offsets[r]; e < offsets[r+1]; e++ {
				elements = append(elements, int32(e))
			}
		}
	}
	values, err := TakeArray(a.(array.ListLike).ListValues(), elements)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	return Make(a.DataType(), len(s.rows), nulls, []*memory.Buffer{valid, Buffer(to)}, values), nil
}

func (s selection) takeFixedSizeList(a *array.FixedSizeList) (arrow.Array, error) {
	n := int64(a.DataType().(*arrow.FixedSizeListType).Len())
	if n*int64(len(s.rows)) > math.MaxInt32 || n*int64(a.Len()) > math.MaxInt32 {
		return nil, errTooLong
	}
	elements := make([]int32, 0, n*int64(len(s.rows)))
	for _, r := range s.rows {
		var from int64
		if r >= 0 {
			from, _ = a.ValueOffsets(int(r))
		}
		for e := range n {
			if r < 0 {
				elements = append(elements, -1)
			} else {
				elements = append(elements, int32(from+e))
			}
		}
	}
	values, err := TakeArray(a.ListValues(), elements)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	valid, nulls := s.validity(a)
	return Make(a.DataType(), len(s.rows), nulls, []*memory.Buffer{valid}, values), nil
}

// takeSlices concatenates slices of consecutive rows, for types without a form of their own.
func (s selection) takeSlices(a arrow.Array) (arrow.Array, error) {
	var parts []arrow.Array
	defer func() { Release(parts) }()
	for i := 0; i < len(s.rows); {
		j, r := i+1, s.rows[i]
		if r < 0 {
			for j < len(s.rows) && s.rows[j] < 0 {
				j++
			}
			parts = append(parts, array.MakeArrayOfNull(heap, a.DataType(), j-i))
		} else {
			for j < len(s.rows) && s.rows[j] == r+int32(j-i) {
				j++
			}
			parts = append(parts, array.NewSlice(a, int64(r), int64(r)+int64(j-i)))
		}
		i = j
	}
	if len(parts) == 0 {
		parts = append(parts, array.NewSlice(a, 0, 0))
	}
	return array.Concatenate(parts, heap)
}
