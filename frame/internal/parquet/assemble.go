package parquet

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// slots specifies the positions of an array: an entry of a leaf begins one if its definition level is at least def and
// its repetition level at most rep. The slots of a row are those of the zero value.
type slots struct{ def, rep uint8 }

// has reports whether entry i of a leaf begins a slot.
func (c slots) has(s *segment, i int) bool { return s.def[i] >= c.def && s.rep[i] <= c.rep }

// assembly makes arrays of the levels and values of leaves.
type assembly struct {
	r        *nestedReader
	segments []*segment
}

// first returns the first leaf below a nest: all leaves have the same levels above them.
func (a *assembly) first(x *nest) *segment {
	for x.shape != shapeLeaf {
		x = x.children[0]
	}
	return a.segments[a.r.at[x]]
}

// build returns the array of a nest with a value for each slot.
func (a *assembly) build(x *nest, c slots) (arrow.Array, error) {
	switch x.shape {
	case shapeLeaf:
		return a.values(x, c)
	case shapeStruct:
		return a.structs(x, c)
	}
	return a.lists(x, c)
}

// values returns the values of a leaf with nulls between them.
func (a *assembly) values(x *nest, c slots) (arrow.Array, error) {
	s := a.segments[a.r.at[x]]
	rows := make([]int32, 0, len(s.def))
	next := int32(0)
	for i := range s.def {
		present := s.def[i] == x.valid
		if c.has(s, i) {
			if present {
				rows = append(rows, next)
			} else {
				rows = append(rows, -1)
			}
		}
		if present {
			next++
		}
	}
	if int(next) == len(rows) {
		s.array.Retain()
		return s.array, nil
	}
	return vec.TakeArray(s.array, rows)
}

// validity returns the bitmap of the slots of a nest, nil if none is null, their number and that of the nulls.
func (a *assembly) validity(x *nest, c slots) (valid *memory.Buffer, n, nulls int) {
	s := a.first(x)
	bits := make([]byte, bitmapBytes(len(s.def)))
	for i := range s.def {
		if !c.has(s, i) {
			continue
		}
		if s.def[i] >= x.valid {
			bitutil.SetBit(bits, n)
		} else {
			nulls++
		}
		n++
	}
	if nulls > 0 {
		valid = memory.NewBufferBytes(bits)
	}
	return valid, n, nulls
}

func (a *assembly) structs(x *nest, c slots) (arrow.Array, error) {
	valid, n, nulls := a.validity(x, c)
	fields := make([]arrow.Array, len(x.children))
	defer func() { release(fields) }()
	for i, child := range x.children {
		var err error
		if fields[i], err = a.build(child, c); err != nil {
			return nil, err
		}
		if fields[i].Len() != n {
			return nil, errLevels
		}
	}
	return vec.Make(x.field.Type, n, nulls, []*memory.Buffer{valid}, fields...), nil
}

// lists returns lists or maps.
func (a *assembly) lists(x *nest, c slots) (arrow.Array, error) {
	valid, n, nulls := a.validity(x, c)
	s := a.first(x)
	offsets := make([]int32, 0, n+1)
	elements := slots{def: x.def, rep: x.rep}
	count := int32(0)
	for i := range s.def {
		if c.has(s, i) {
			offsets = append(offsets, count)
		} else if s.rep[i] == x.rep && s.def[i] < x.def {
			return nil, errLevels // an element that is none
		}
		if elements.has(s, i) {
			if len(offsets) == 0 {
				return nil, errLevels
			}
			count++
		}
	}
	offsets = append(offsets, count)
	values, err := a.build(x.children[0], elements)
	if err != nil {
		return nil, err
	}
	defer values.Release()
	if values.Len() != int(count) {
		return nil, errLevels
	}
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(asBytes(offsets))}
	return vec.Make(x.field.Type, n, nulls, buffers, values), nil
}
