package group

import (
	"bytes"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/vec"
)

// span is a value of bytes in an arena; its size is -1 if there is none. Its place may have room for a longer one.
type span struct {
	at         int
	size, room int32
}

// extremeBytes has the least or greatest value, by bytes, of groups.
type extremeBytes struct {
	typ    arrow.DataType
	max    bool
	narrow []int32
	wide   []int64
	data   []byte
	valid  []byte
	off    int

	s     []span
	arena []byte
	waste int // bytes of the arena that no group has
}

func (h *extremeBytes) types() []arrow.DataType { return []arrow.DataType{h.typ} }
func (h *extremeBytes) end() error              { return nil }

func (h *extremeBytes) bind(cols []arrow.Array, _ int64) error {
	a := cols[0]
	h.valid, h.off = vec.Validity(a)
	h.data = vec.Data(a)
	switch h.typ.ID() {
	case arrow.STRING, arrow.BINARY:
		h.narrow = vec.Offsets[int32](a)
	default:
		h.wide = vec.Offsets[int64](a)
	}
	return nil
}

func (h *extremeBytes) add(from int, ids []uint32, groups int) error {
	if old := len(h.s); groups > old {
		h.s = grow(h.s, groups)
		for i := old; i < groups; i++ {
			h.s[i] = span{size: -1}
		}
	}
	if h.narrow != nil {
		addBytes(h, h.narrow, from, ids)
	} else if h.wide != nil {
		addBytes(h, h.wide, from, ids)
	}
	if h.waste > 1<<20 && h.waste > len(h.arena)/2 {
		h.compact()
	}
	return nil
}

func addBytes[T int32 | int64](h *extremeBytes, offsets []T, from int, ids []uint32) {
	for i, g := range ids {
		row := from + i
		if !isSet(h.valid, h.off+row) {
			continue
		}
		value, s := h.data[offsets[row]:offsets[row+1]], h.s[g]
		if s.size >= 0 {
			c := bytes.Compare(value, h.arena[s.at:s.at+int(s.size)])
			if c == 0 || c < 0 == h.max {
				continue
			}
		}
		h.set(g, value)
	}
}

// set replaces the value of a group.
func (h *extremeBytes) set(g uint32, value []byte) {
	s := &h.s[g]
	if s.size < 0 || int(s.room) < len(value) {
		h.waste += int(s.room)
		room := min(len(value)+len(value)/2, math.MaxInt32) // the next may be longer
		if s.size < 0 {
			room = len(value)
		}
		s.at, s.room = len(h.arena), int32(room)
		h.arena = append(h.arena, value...)
		h.arena = append(h.arena, make([]byte, room-len(value))...)
	} else {
		copy(h.arena[s.at:], value)
	}
	s.size = int32(len(value))
}

// compact copies the values of groups to a new arena.
func (h *extremeBytes) compact() {
	arena := make([]byte, 0, len(h.arena)-h.waste)
	for i := range h.s {
		if s := &h.s[i]; s.size >= 0 {
			value := h.arena[s.at : s.at+int(s.size)]
			s.at, s.room = len(arena), s.size
			arena = append(arena, value...)
		}
	}
	h.arena, h.waste = arena, 0
}

func (h *extremeBytes) states(groups int) ([]arrow.Array, error) {
	var size int64
	for _, s := range h.s {
		size += int64(max(s.size, 0))
	}
	if h.typ.ID() == arrow.STRING || h.typ.ID() == arrow.BINARY {
		if size > math.MaxInt32 {
			return nil, fmt.Errorf("group: %d bytes of values do not fit into an array of type %v; use more "+
				"partitions or the large type", size, h.typ)
		}
		return []arrow.Array{spanArray[int32](h, groups, size)}, nil
	}
	return []arrow.Array{spanArray[int64](h, groups, size)}, nil
}

func spanArray[T int32 | int64](h *extremeBytes, groups int, size int64) arrow.Array {
	offsets, data := make([]T, groups+1), make([]byte, 0, size)
	for g, s := range h.s[:groups] {
		if s.size > 0 {
			data = append(data, h.arena[s.at:s.at+int(s.size)]...)
		}
		offsets[g+1] = T(len(data))
	}
	valid, nulls := validity(groups, func(g int) bool { return h.s[g].size >= 0 })
	return vec.Make(h.typ, groups, nulls, []*memory.Buffer{valid, vec.Buffer(offsets), memory.NewBufferBytes(data)})
}

func (h *extremeBytes) bytes() int64 { return int64(cap(h.arena)) + int64(cap(h.s))*16 }
