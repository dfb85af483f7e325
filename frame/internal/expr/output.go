package expr

import (
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// sink collects the chunks of a result.
type sink interface {
	chunk(x *exec) error
	array() (arrow.Array, error)
}

// bitmap collects bits of chunks, which begin at multiples of 64 rows.
type bitmap struct {
	words []uint64
	rows  int
}

func (b *bitmap) put(from int, words []uint64) { copy(b.words[from/64:], words) }

func (b *bitmap) buffer() *memory.Buffer {
	if len(b.words) > 0 {
		b.words[len(b.words)-1] &= tailMask(b.rows)
	}
	n := (b.rows + 7) / 8
	return memory.NewBufferBytes(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b.words))), n))
}

// validBitmap collects the rows that have a value. Its memory is allocated with the first null.
type validBitmap struct {
	bitmap
	nulls int
}

func (b *validBitmap) put(x *exec, valid []uint64) {
	if valid == nil {
		return
	}
	k := x.n - count(valid, x.n)
	if k == 0 {
		return
	}
	if b.words == nil {
		b.words = make([]uint64, wordsFor(b.rows))
		for i := range b.words {
			b.words[i] = ^uint64(0)
		}
	}
	b.nulls += k
	b.bitmap.put(x.from, valid)
}

func (b *validBitmap) validity() *memory.Buffer {
	if b.words == nil {
		return nil
	}
	return b.bitmap.buffer()
}

func makeArray(t arrow.DataType, rows int, buffers []*memory.Buffer, nulls int) arrow.Array {
	d := array.NewData(t, rows, buffers, nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// boolSink collects booleans.
type boolSink struct {
	p     predicate
	bits  bitmap
	valid validBitmap
}

func (s *boolSink) chunk(x *exec) error {
	v, err := s.p.test(x)
	if err != nil {
		return err
	}
	s.bits.put(x.from, v.v)
	s.valid.put(x, v.valid)
	return nil
}

func (s *boolSink) array() (arrow.Array, error) {
	return makeArray(boolType, s.bits.rows, []*memory.Buffer{s.valid.validity(), s.bits.buffer()}, s.valid.nulls), nil
}

// fixedSink collects values of fixed width.
type fixedSink[T any] struct {
	s     source[T]
	t     arrow.DataType
	v     []T
	valid validBitmap
}

func newFixedSink[T any](s source[T], t arrow.DataType, rows int) sink {
	return &fixedSink[T]{s: s, t: t, v: make([]T, rows), valid: validBitmap{bitmap: bitmap{rows: rows}}}
}

func (s *fixedSink[T]) chunk(x *exec) error {
	v, err := s.s.eval(x)
	if err != nil {
		return err
	}
	copy(s.v[x.from:], v.v)
	s.valid.put(x, v.valid)
	return nil
}

func (s *fixedSink[T]) array() (arrow.Array, error) {
	return makeArray(s.t, len(s.v), []*memory.Buffer{s.valid.validity(), memory.NewBufferBytes(bytesOf(s.v))},
		s.valid.nulls), nil
}

func bytesOf[T any](v []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(zero)))
}

// wideSink collects decimals that are computed as int64.
type wideSink struct {
	fixedSink[int128]
	small source[int64]
}

func (s *wideSink) chunk(x *exec) error {
	v, err := s.small.eval(x)
	if err != nil {
		return err
	}
	out := s.v[x.from:][:len(v.v)]
	for i, a := range v.v {
		out[i] = int128{uint64(a), a >> 63}
	}
	s.valid.put(x, v.valid)
	return nil
}

// textSink collects texts or bytes.
type textSink[O int32 | int64] struct {
	s       source[string]
	n       *node
	offsets []O
	content []byte
	valid   validBitmap
}

func (s *textSink[O]) chunk(x *exec) error {
	v, err := s.s.eval(x)
	if err != nil {
		return err
	}
	offsets := s.offsets[x.from+1:][:len(v.v)]
	var most int64 = math.MaxInt64
	if unsafe.Sizeof(O(0)) == 4 {
		most = math.MaxInt32
	}
	for i, t := range v.v {
		if bitSet(v.valid, i) {
			s.content = append(s.content, t...)
		}
		offsets[i] = O(len(s.content))
	}
	if int64(len(s.content)) > most {
		return s.n.failf("more than 2 GiB of text in a batch; cast it to large_utf8, or use more partitions")
	}
	s.valid.put(x, v.valid)
	return nil
}

func (s *textSink[O]) array() (arrow.Array, error) {
	return makeArray(s.n.t, len(s.offsets)-1, []*memory.Buffer{s.valid.validity(),
		memory.NewBufferBytes(bytesOf(s.offsets)), memory.NewBufferBytes(s.content)}, s.valid.nulls), nil
}

// viewSink collects texts or bytes of the view types.
type viewSink struct {
	s source[string]
	b array.Builder
}

func (s *viewSink) chunk(x *exec) error {
	v, err := s.s.eval(x)
	if err != nil {
		return err
	}
	for i, t := range v.v {
		if !bitSet(v.valid, i) {
			s.b.AppendNull()
			continue
		}
		switch b := s.b.(type) {
		case *array.StringViewBuilder:
			b.Append(t)
		case *array.BinaryViewBuilder:
			b.Append([]byte(t))
		}
	}
	return nil
}

func (s *viewSink) array() (arrow.Array, error) {
	defer s.b.Release()
	return s.b.NewArray(), nil
}

// newSink returns the sink for the values of n, compiled as p.
func newSink(n *node, p any, rows int) sink {
	valid := validBitmap{bitmap: bitmap{rows: rows}}
	switch s := p.(type) {
	case predicate:
		return &boolSink{p: s, bits: bitmap{make([]uint64, wordsFor(rows)), rows}, valid: valid}
	case source[int8]:
		return newFixedSink(s, n.t, rows)
	case source[int16]:
		return newFixedSink(s, n.t, rows)
	case source[int32]:
		return newFixedSink(s, n.t, rows)
	case source[int64]:
		if n.class() == decimal {
			return &wideSink{fixedSink[int128]{t: n.t, v: make([]int128, rows), valid: valid}, s}
		}
		return newFixedSink(s, n.t, rows)
	case source[uint8]:
		return newFixedSink(s, n.t, rows)
	case source[uint16]:
		return newFixedSink(s, n.t, rows)
	case source[uint32]:
		return newFixedSink(s, n.t, rows)
	case source[uint64]:
		return newFixedSink(s, n.t, rows)
	case source[float32]:
		return newFixedSink(s, n.t, rows)
	case source[float64]:
		return newFixedSink(s, n.t, rows)
	case source[int128]:
		return newFixedSink(s, n.t, rows)
	case source[string]:
		switch n.t.ID() {
		case arrow.LARGE_STRING, arrow.LARGE_BINARY:
			return &textSink[int64]{s: s, n: n, offsets: make([]int64, rows+1), valid: valid}
		case arrow.STRING_VIEW, arrow.BINARY_VIEW:
			return &viewSink{s, array.NewBuilder(heap, n.t)}
		}
		return &textSink[int32]{s: s, n: n, offsets: make([]int32, rows+1), valid: valid}
	}
	return nil
}
