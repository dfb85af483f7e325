// Package join joins Arrow batches by hashed keys. A Table is built once from the batches of the right side, and a
// Prober passes the batches of the left side through it and emits rows in the order of the left side. Both are
// functions of their arguments without goroutines of their own.
//
// Null keys equal nothing. Floats are equal as keys if they are equal as numbers, and all NaNs are equal.
package join

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Kind specifies which rows a join returns.
type Kind uint8

// Kinds of joins. Left is the side that is probed, right the side of the Table.
const (
	Inner Kind = iota // pairs that match
	Left              // pairs, and rows of the left side without a match
	Right             // pairs, and rows of the right side without a match
	Full              // pairs, and rows of both sides without a match
	Semi              // rows of the left side with a match, once
	Anti              // rows of the left side without a match
	Cross             // all pairs; it has no keys
)

var kindNames = [...]string{"inner", "left", "right", "full", "semi", "anti", "cross"}

// String returns the name of the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// keepsLeft reports whether pairs are completed by rows of the left side without a match.
func (k Kind) keepsLeft() bool { return k == Left || k == Full }

// keepsRight reports whether pairs are completed by rows of the right side without a match.
func (k Kind) keepsRight() bool { return k == Right || k == Full }

// selects reports whether the result has only rows of the left side.
func (k Kind) selects() bool { return k == Semi || k == Anti }

// Condition is a further condition of a join, on pairs with equal keys. A pair for which it is not true is no match,
// for all kinds.
type Condition struct {
	Left, Right []int // columns of the two sides that Eval needs
	// Eval returns one value for each pair. Row i of left and of right, which have the columns above in their order,
	// are a pair. The values are those of an array that the caller of Eval releases.
	Eval func(left, right arrow.RecordBatch) (*array.Boolean, error)
}

// Options are those of a Prober. Columns are numbers.
type Options struct {
	Kind Kind
	Keys []int // key columns of the left side, as many as the Table has
	// Left and Right are the columns of the two sides in the result, in this order. Semi and Anti have no Right.
	Left, Right []int
	Schema      *arrow.Schema // of the result; default: the fields of the columns, nullable where the kind makes nulls
	Condition   *Condition
	MaxRows     int // of a batch of the result; default: 65,536
	// NullAware makes Anti that of NOT IN instead of NOT EXISTS, for one key and no condition: a null key of the
	// table excludes all rows, and a null key of the left side its row, unless the table is empty.
	NullAware bool
}

// Emit receives a batch of the result and releases it. An error ends the join and is returned by it.
type Emit func(arrow.RecordBatch) error

const (
	defaultRows = 1 << 16
	chunkRows   = 2048 // looked up at a time: keys and results stay in the first cache
)
