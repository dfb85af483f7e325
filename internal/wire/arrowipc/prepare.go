package arrowipc

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// prepare is Prepare for the values of the codec.
func prepare(v any) {
	switch v := v.(type) {
	case arrow.RecordBatch:
		Prepare(v)
	case arrow.Table:
		for i := range int(v.NumCols()) {
			for _, a := range v.Column(i).Data().Chunks() {
				prepareArray(a)
			}
		}
	}
}

// Prepare counts the nulls of all arrays of a batch whose number is not known, such as slices. The Arrow library counts
// them when they are first needed, and keeps the number without a lock: goroutines that share a batch would race.
// Invalid arrays are left as they are, for their first reader to reject.
func Prepare(b arrow.RecordBatch) {
	for _, a := range b.Columns() {
		prepareArray(a)
	}
}

func prepareArray(a arrow.Array) {
	defer func() { _ = recover() }() // the Arrow library panics for invalid data
	countNulls(a)
}

// countNulls counts the nulls of an array, and of the arrays that it consists of.
func countNulls(a arrow.Array) {
	a.NullN()
	switch a := a.(type) { // arrays with their own numbers
	case *array.Dictionary:
		countNulls(a.Indices())
		countNulls(a.Dictionary())
	case array.ExtensionArray:
		countNulls(a.Storage())
	case array.ListLike:
		countNulls(a.ListValues())
	case *array.Struct:
		for i := range a.NumField() { // slices of the children
			countNulls(a.Field(i))
		}
	case array.Union:
		for i := range a.NumFields() {
			countNulls(a.Field(i))
		}
	}
	for _, child := range a.Data().Children() {
		if child != nil && child.NullN() == array.UnknownNullCount {
			x := array.MakeFromData(child)
			countNulls(x)
			x.Release()
		}
	}
}
