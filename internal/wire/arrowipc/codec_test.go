package arrowipc

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// batch is a record batch of a few kinds of columns.
func batch(t testing.TB) arrow.RecordBatch {
	t.Helper()
	s := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Float64), Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, []bool{true, false, true})
	b.Field(1).(*array.StringBuilder).AppendValues([]string{"a", "", "ccc"}, nil)
	l := b.Field(2).(*array.ListBuilder)
	for range 3 {
		l.Append(true)
		l.ValueBuilder().(*array.Float64Builder).Append(0.5)
	}
	return b.NewRecordBatch()
}

func TestArrow(t *testing.T) {
	rec := batch(t)
	defer rec.Release()
	tbl := array.NewTableFromRecords(rec.Schema(), []arrow.RecordBatch{rec, rec})
	defer tbl.Release()
	for _, in := range []any{rec, tbl} {
		m, err := wire.Encode(wire.Serialize{Value: in}, wire.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := wire.Decode(m, wire.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []any{v, wire.Clone(v)} {
			switch want := in.(type) {
			case arrow.RecordBatch:
				if !array.RecordEqual(got.(arrow.RecordBatch), want) {
					t.Errorf("got %v", got)
				}
				got.(arrow.RecordBatch).Release()
			case arrow.Table:
				if !array.TableEqual(got.(arrow.Table), want) {
					t.Errorf("got %v", got)
				}
				got.(arrow.Table).Release()
			}
		}
	}
}

// TestArrowZeroCopy looks for the column's memory in the frame.
func TestArrowZeroCopy(t *testing.T) {
	rec := batch(t)
	defer rec.Release()
	frames, err := encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(classRecordBatch, frames)
	if err != nil {
		t.Fatal(err)
	}
	col := v.(arrow.RecordBatch).Column(0).Data().Buffers()[1].Bytes()
	b := frames[0]
	at := bytes.Index(b, col[:24])
	if at < 0 || &b[at] != &col[0] {
		t.Error("the column was copied")
	}
}

// TestArrowDamaged changes bytes: the result is an error or a batch that can be read.
func TestArrowDamaged(t *testing.T) {
	rec := batch(t)
	defer rec.Release()
	frames, err := encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		b := bytes.Clone(frames[0])
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b))]
		}
		readAll(b)
	}
}

// readAll decodes a stream and looks at every cell.
func readAll(b []byte) {
	for _, class := range []pickle.Global{classTable, classRecordBatch} {
		v, err := decode(class, [][]byte{b})
		if err != nil {
			continue
		}
		switch v := v.(type) {
		case arrow.RecordBatch:
			_, _ = v.MarshalJSON()
		case arrow.Table:
			tr := array.NewTableReader(v, 0)
			for tr.Next() {
				_, _ = tr.RecordBatch().MarshalJSON()
			}
			tr.Release()
		}
	}
}

func FuzzArrow(f *testing.F) {
	rec := batch(f)
	frames, err := encode(rec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(frames[0])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(_ *testing.T, b []byte) {
		for _, class := range []pickle.Global{classTable, classRecordBatch} {
			_, _ = decode(class, [][]byte{b})
		}
	})
}
