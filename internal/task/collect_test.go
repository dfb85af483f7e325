package task

import (
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/wire"
)

func numbersBatch(values ...int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{{Name: "n", Type: arrow.PrimitiveTypes.Int64}}, nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).AppendValues(values, nil)
	return b.NewRecordBatch()
}

// nested has types of package wire and of Arrow in all possible positions.
type nested struct {
	Batch   arrow.RecordBatch
	Batches []arrow.RecordBatch
	ByName  map[string]arrow.RecordBatch
	Table   arrow.Table
	Any     any
	Deep    []map[int]*nestedLeaf
	Dict    wire.Dict
	Dicts   []wire.Dict
	Tuple   wire.Tuple
	Set     wire.Set
	Bytes   wire.ByteArray
	Text    string
	Numbers []float64
	Raw     []byte
	Count   int
}

type nestedLeaf struct {
	Batch arrow.RecordBatch
	Pair  [2]arrow.RecordBatch
}

func init() { RegisterType[nested]() }

func nestedValue() nested {
	one, two, none := numbersBatch(1), numbersBatch(2, 2), numbersBatch()
	return nested{
		Batch:   one,
		Batches: []arrow.RecordBatch{two, none, nil},
		ByName:  map[string]arrow.RecordBatch{"a": one, "b": two},
		Table:   array.NewTableFromRecords(one.Schema(), []arrow.RecordBatch{one, two}),
		Any:     two,
		Deep:    []map[int]*nestedLeaf{{7: {Batch: one, Pair: [2]arrow.RecordBatch{two, one}}}, nil, {}},
		Dict:    wire.NewDict("k", int64(1), "batch", one),
		Dicts:   []wire.Dict{wire.NewDict("plain", "x"), wire.NewDict(int64(3), two)},
		Tuple:   wire.Tuple{int64(1), two},
		Set:     wire.Set{"only"},
		Bytes:   wire.ByteArray("array"),
		Text:    "text",
		Numbers: []float64{1, 2},
		Raw:     []byte("raw"),
		Count:   3,
	}
}

// equalNested compares by content: batches are equal if their values are.
func equalNested(got, want any) bool {
	switch w := want.(type) {
	case arrow.RecordBatch:
		g, ok := got.(arrow.RecordBatch)
		return ok && array.RecordEqual(g, w)
	case arrow.Table:
		g, ok := got.(arrow.Table)
		return ok && array.TableEqual(g, w)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if g.IsValid() != w.IsValid() || w.IsValid() && g.Type() != w.Type() {
		return false
	}
	if !w.IsValid() {
		return true
	}
	switch w.Kind() {
	case reflect.Pointer:
		if g.IsNil() || w.IsNil() {
			return g.IsNil() == w.IsNil()
		}
		return equalNested(g.Elem().Interface(), w.Elem().Interface())
	case reflect.Slice, reflect.Array:
		if g.Len() != w.Len() {
			return false
		}
		for i := range w.Len() {
			if !equalNested(g.Index(i).Interface(), w.Index(i).Interface()) {
				return false
			}
		}
		return true
	case reflect.Map:
		if g.Len() != w.Len() {
			return false
		}
		for it := w.MapRange(); it.Next(); {
			x := g.MapIndex(it.Key())
			if !x.IsValid() || !equalNested(x.Interface(), it.Value().Interface()) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range w.NumField() {
			if !equalNested(g.Field(i).Interface(), w.Field(i).Interface()) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(got, want)
}

func sentNested[T any](t *testing.T, v T) {
	t.Helper()
	if got := sent(t, v); !equalNested(got, v) {
		t.Errorf("%T as a result: %+v, want %+v", v, got, v)
	}
}

// Results that contain record batches and other values of package wire can be sent.
func TestNestedResults(t *testing.T) {
	v := nestedValue()
	fields := reflect.ValueOf(v)
	for i := range fields.NumField() { // separately first, so that a failure names the field
		only := reflect.New(fields.Type()).Elem()
		only.Field(i).Set(fields.Field(i))
		t.Run(fields.Type().Field(i).Name, func(t *testing.T) { sentNested(t, only.Interface().(nested)) })
	}
	sentNested(t, v)
	sentNested(t, &v)
	sentNested(t, []nested{v, {}})
	sentNested(t, nested{})
	sentNested(t, []arrow.RecordBatch{numbersBatch(1, 2, 3)})
	sentNested(t, []arrow.RecordBatch{})
	sentNested(t, map[string][]arrow.RecordBatch{"a": {numbersBatch(4)}, "b": nil})
	sentNested(t, []wire.Dict{wire.NewDict("a", int64(1))})
	sentNested(t, []any{numbersBatch(1), "x", nil, wire.NewDict("a", numbersBatch(2))})
	sentNested(t, [2]arrow.Table{nil, v.Table})

	// A reader that expects any gets the original type, if it is registered.
	s, err := EncodeValue(v)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	var out any
	if err := DecodeInto(s, &out); err != nil {
		t.Fatal(err)
	}
	if !equalNested(out, v) {
		t.Errorf("into any: %+v, want %+v", out, v)
	}
}

// A serialized value within another one is decoded by its reader.
func TestNestedSerialized(t *testing.T) {
	s, err := EncodeValue(numbersBatch(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	closed, err := EncodeValue(map[string]*wire.Serialized{"x": s})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]arrow.RecordBatch
	if err := DecodeInto(closed, &got); err != nil {
		t.Fatal(err)
	}
	if want := numbersBatch(1, 2); got["x"] == nil || !array.RecordEqual(got["x"], want) {
		t.Errorf("got %v, want %v", got["x"], want)
	}
}

// A value that cannot be encoded is rejected with its path.
func TestNestedRefused(t *testing.T) {
	type withChan struct {
		Batches []arrow.RecordBatch
		C       chan int
	}
	_, err := EncodeValue(withChan{Batches: []arrow.RecordBatch{numbersBatch(1)}, C: make(chan int)})
	if err == nil || !strings.Contains(err.Error(), ".C") {
		t.Errorf("got %v, want an error that names .C", err)
	}
	_, err = EncodeValue(map[complex128]arrow.RecordBatch{1i: numbersBatch(1)})
	if err == nil || !strings.Contains(err.Error(), "map[complex128]") {
		t.Errorf("got %v, want an error that names the map's type", err)
	}
}
