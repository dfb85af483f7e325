// Package group computes aggregates of the rows of each group: hash group-by of Arrow batches, also without keys, which
// gives one group, and without aggregates, which gives the distinct rows of keys.
//
// Null is a key like others, -0 is 0 and all NaNs are the same key. Aggregates other than CountAll, First, Last and
// CollectList skip nulls.
//
// Work is divided by modes: Partial grouping of parts of the input gives states, which Merge combines in any number of
// steps, and from which Final computes the result. Complete is all of it. States are columns of a batch, after those of
// the keys, so that they can be sent and partitioned by key.
package group

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var heap = memory.NewGoAllocator()

// Mode specifies the input and the output of a Grouper.
type Mode uint8

// Modes.
const (
	Complete Mode = iota // rows to results
	Partial              // rows to states
	Merge                // states to states
	Final                // states to results
)

// rowInput reports whether the input has rows, and not states.
func (m Mode) rowInput() bool { return m == Complete || m == Partial }

// stateOutput reports whether the output has states, and not results.
func (m Mode) stateOutput() bool { return m == Partial || m == Merge }

// Func is an aggregate function.
type Func uint8

// Aggregate functions.
const (
	// CountAll is the number of rows.
	CountAll Func = iota
	// Count is the number of values.
	Count
	// Sum is the sum of values: int64 for signed integers and booleans, uint64 for unsigned integers, float64 for
	// floats and decimal128(38, s) for decimals. Overflow is an error. The sum of no values is null.
	Sum
	// Min is the least value: text by bytes, NaN above all numbers.
	Min
	// Max is the greatest value.
	Max
	// Mean is the arithmetic mean, float64.
	Mean
	// Var is the variance with n-1, null for less than two values.
	Var
	// Std is the square root of Var.
	Std
	// Median is the exact median, between two values their mean, float64.
	Median
	// Quantile is the exact quantile Spec.Q, interpolated linearly between values.
	Quantile
	// ApproxQuantile is the quantile Spec.Q of a summary of at most a few hundred numbers for each group. The rank of
	// the result differs from the wanted one by about 4·q·(1-q)/200 of the number of values, which is one percent for
	// the median and a tenth of that for the 97.5th percentile. Groups of at most 200 values are exact.
	ApproxQuantile
	// First is the value, which may be null, of the first row by position; see SetPosition.
	First
	// Last is the value of the last row by position.
	Last
	// NUnique is the number of distinct values, exactly.
	NUnique
	// CollectList is a list of all values and nulls, in the order in which they were added.
	CollectList
)

var funcNames = [...]string{"count", "count", "sum", "min", "max", "mean", "var", "std", "median", "quantile",
	"approx_quantile", "first", "last", "nunique", "collect_list"}

// String returns the name of the function.
func (f Func) String() string {
	if int(f) < len(funcNames) {
		return funcNames[f]
	}
	return fmt.Sprintf("Func(%d)", uint8(f))
}

// Spec specifies an aggregate.
type Spec struct {
	Func   Func
	Column int     // number of the input column; CountAll has none
	Name   string  // of the result column
	Q      float64 // of Quantile and ApproxQuantile, from 0 to 1
}

// check returns an error if the spec cannot be computed from a schema.
func (s Spec) check(in *arrow.Schema) error {
	if int(s.Func) >= len(funcNames) {
		return fmt.Errorf("group: unknown aggregate function %d", s.Func)
	}
	if s.Func == CountAll {
		return nil
	}
	if s.Column < 0 || s.Column >= in.NumFields() {
		return fmt.Errorf("group: %v of column %d of %d", s.Func, s.Column, in.NumFields())
	}
	if s.Func == Quantile || s.Func == ApproxQuantile {
		if math.IsNaN(s.Q) || s.Q < 0 || s.Q > 1 {
			return fmt.Errorf("group: %v %v of column %q; use a number from 0 to 1", s.Func, s.Q,
				in.Field(s.Column).Name)
		}
	}
	return nil
}

// typeError is returned for a function that is not defined for a type.
func typeError(f Func, field arrow.Field) error {
	return fmt.Errorf("group: %v of column %q of type %v is not defined; cast it to another type", f, field.Name,
		field.Type)
}
