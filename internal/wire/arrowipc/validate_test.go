package arrowipc

import (
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// texts returns an array of texts with these offsets.
func texts(data string, nulls int, valid []byte, offsets ...int32) arrow.Array {
	var bits *memory.Buffer
	if valid != nil {
		bits = memory.NewBufferBytes(valid)
	}
	d := array.NewData(arrow.BinaryTypes.String, len(offsets)-1, []*memory.Buffer{bits,
		memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes([]byte(data))}, nil,
		nulls, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

// TestValidTexts compares the check of all texts together with that of each.
func TestValidTexts(t *testing.T) {
	for _, c := range []struct {
		about string
		texts arrow.Array
		fast  bool
		valid bool
	}{
		{"none", texts("", 0, nil, 0), true, true},
		{"ASCII", texts("abcdefghijkl", 0, nil, 0, 3, 3, 12), true, true},
		{"a part of the bytes", texts("\xffabc\xff", 0, nil, 1, 2, 4), true, true},
		{"runes", texts("aéüb", 0, nil, 0, 1, 3, 5, 6), true, true},
		{"a divided rune", texts("aéüb", 0, nil, 0, 2, 6), false, false},
		{"a divided rune, long", texts(strings.Repeat("x", 20)+"é", 0, nil, 0, 21, 22), false, false},
		{"no UTF-8", texts("abcdefgh\xffi", 0, nil, 0, 10), false, false},
		{"no UTF-8 at the end", texts("\xff", 0, nil, 0, 1), false, false},
		{"offsets that decrease", texts("abcd", 0, nil, 0, 3, 2, 4), false, false},
		{"a negative offset", texts("abcd", 0, nil, -1, 3), false, false},
		{"nulls", texts("ab", 1, []byte{0b101}, 0, 1, 1, 2), true, true},
		{"a wrong number of nulls", texts("ab", 2, []byte{0b101}, 0, 1, 1, 2), false, false},
	} {
		if got := validTexts(c.texts.(*array.String)); got != c.fast {
			t.Errorf("%s: got %v, want %v", c.about, got, c.fast)
		}
		if err := array.ValidateFull(c.texts); (err == nil) != c.valid {
			t.Errorf("%s: got the error %v, want valid %v", c.about, err, c.valid)
		}
		b := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "s", Type: arrow.BinaryTypes.String}}, nil),
			[]arrow.Array{c.texts}, int64(c.texts.Len()))
		if err := validate(b); (err == nil) != c.valid {
			t.Errorf("%s, batch: got the error %v, want valid %v", c.about, err, c.valid)
		}
		b.Release()
	}
}

// TestSizeOf checks that a stream fits into the memory that is reserved for it.
func TestSizeOf(t *testing.T) {
	for _, b := range []arrow.RecordBatch{large(t, 10_000), large(t, 0), large(t, 1)} {
		frames, err := encode(b)
		if err != nil {
			t.Fatal(err)
		}
		if size := sizeOf(b); len(frames) != 1 || len(frames[0]) > size {
			t.Errorf("%d rows: got %d bytes, want at most %d", b.NumRows(), len(frames[0]), size)
		}
		slice := b.NewSlice(0, b.NumRows()/2)
		if size := sizeOf(slice); size > sizeOf(b)*2/3+2<<10 {
			t.Errorf("half of %d rows: got %d bytes, want about half of %d", b.NumRows(), size, sizeOf(b))
		}
		slice.Release()
		b.Release()
	}
}

// large returns a batch of texts and numbers.
func large(t *testing.T, rows int) arrow.RecordBatch {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String}, {Name: "b", Type: arrow.FixedWidthTypes.Boolean}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).AppendNull()
		b.Field(1).(*array.StringBuilder).Append(strings.Repeat("x", i%20))
		b.Field(2).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	return b.NewRecordBatch()
}
