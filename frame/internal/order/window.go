package order

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Function is a function of a window.
type Function uint8

// Functions of windows. Those from Sum on are of the rows of a Frame and, but for First and Last, skip nulls.
const (
	RowNumber Function = iota // from 1 in each partition
	Rank                      // number of the first row with the same order keys
	DenseRank                 // as Rank, but without gaps
	Lag                       // value of the row Offset rows before, null outside of the partition
	Lead                      // value of the row Offset rows after, null outside of the partition
	Sum
	Mean
	Min
	Max
	Count // of values that are not null, or of rows if Col is negative
	First
	Last
)

var functionNames = [...]string{"row_number", "rank", "dense_rank", "lag", "lead", "sum", "mean", "min", "max", "count",
	"first_value", "last_value"}

// String returns the name of the function in SQL.
func (f Function) String() string {
	if int(f) < len(functionNames) {
		return functionNames[f]
	}
	return fmt.Sprintf("function %d", uint8(f))
}

// Unbounded is the bound of a Frame that has all rows of the partition on its side.
const Unbounded = -1

// Frame specifies the rows of a partition that a function is of, relative to the current row. The zero value has the
// current row only. A rolling window over n rows is Frame{Preceding: n - 1}, a cumulative one
// Frame{Preceding: Unbounded}.
type Frame struct {
	Preceding, Following int // rows before and after the current one, or Unbounded
	// Peers adds the rows with the same order keys where a bound is the current row, as RANGE in SQL.
	Peers bool
}

// Window is a column that Windows computes.
type Window struct {
	Function Function
	Name     string // of the column
	Col      int    // number of the argument; RowNumber, Rank and DenseRank have none
	Offset   int    // of Lag and Lead, in rows; negative numbers reverse them
	Frame    Frame
	// MinValues is how many values that are not null a frame of Sum, Mean, Min and Max must have: with fewer, the
	// result is null. Default: 1.
	MinValues int
}

// Type returns the type of the result for batches with a schema.
func (w Window) Type(s *arrow.Schema) (arrow.DataType, error) {
	switch w.Function {
	case RowNumber, Rank, DenseRank:
		return arrow.PrimitiveTypes.Int64, nil
	case Count:
		if w.Col < s.NumFields() {
			return arrow.PrimitiveTypes.Int64, nil
		}
	}
	if w.Col < 0 || w.Col >= s.NumFields() {
		return nil, fmt.Errorf("order: %v of column %d of %d", w.Function, w.Col, s.NumFields())
	}
	f := s.Field(w.Col)
	switch w.Function {
	case Lag, Lead, First, Last:
		return f.Type, nil
	case Min, Max:
		if formOf(f.Type) != noForm {
			return f.Type, nil
		}
	case Sum, Mean:
		if t := sumType(f.Type); t != nil && w.Function == Sum {
			return t, nil
		} else if t != nil {
			return arrow.PrimitiveTypes.Float64, nil
		}
	}
	return nil, fmt.Errorf("order: no %v of column %q of type %v", w.Function, f.Name, f.Type)
}

// sumType returns the type of sums of a type, or nil if it has none.
func sumType(t arrow.DataType) arrow.DataType {
	switch t.ID() {
	case arrow.INT8, arrow.INT16, arrow.INT32, arrow.INT64:
		return arrow.PrimitiveTypes.Int64
	case arrow.UINT8, arrow.UINT16, arrow.UINT32, arrow.UINT64:
		return arrow.PrimitiveTypes.Uint64
	case arrow.FLOAT32, arrow.FLOAT64:
		return arrow.PrimitiveTypes.Float64
	case arrow.DECIMAL128:
		return &arrow.Decimal128Type{Precision: 38, Scale: t.(*arrow.Decimal128Type).Scale}
	}
	return nil
}

// Windows returns the rows of batches, which have the schema, in one batch with further columns for the windows. The
// batches must be sorted by the partition columns, in any directions, and then by the order keys. The caller releases
// the result.
func Windows(s *arrow.Schema, batches []arrow.RecordBatch, partition []int, keys []SortKey, windows []Window) (
	_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if err := checkKeys(s, keys); err != nil {
		return nil, err
	}
	split := make([]SortKey, len(partition))
	for i, c := range partition {
		split[i].Col = c
	}
	if err := checkKeys(s, split); err != nil {
		return nil, err
	}
	fields := s.Fields()
	for _, w := range windows {
		t, err := w.Type(s)
		if err != nil {
			return nil, err
		}
		fields = append(fields, arrow.Field{Name: w.Name, Type: t, Nullable: true})
	}
	whole, err := vec.Concat(s, batches)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	defer whole.Release()
	if err := checkRows(whole.NumRows()); err != nil {
		return nil, err
	}
	columns := append([]arrow.Array(nil), whole.Columns()...)
	own := len(columns)
	defer func() { vec.Release(columns[own:]) }()
	p := newPartitions(whole, split, keys)
	for i, w := range windows {
		c, err := p.compute(w, whole, fields[own+i].Type)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	md := s.Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), columns, whole.NumRows()), nil
}

// partitions has where partitions and peers begin, each with the number of rows at the end.
type partitions struct {
	n     int
	parts []int32
	peers []int32
}

func newPartitions(b arrow.RecordBatch, split, keys []SortKey) *partitions {
	n := int(b.NumRows())
	changed := make([]bool, n)
	if n > 0 {
		changed[0] = true
	}
	markChanges(newKeyed(b, split, false), changed)
	p := &partitions{n: n, parts: positions(changed)}
	markChanges(newKeyed(b, keys, false), changed)
	p.peers = positions(changed)
	return p
}

// markChanges marks the rows with keys that are not those of the row before.
func markChanges(k *keyed, changed []bool) {
	for i := range k.parts {
		p := &k.parts[i]
		if p.text == nil && p.valid == nil && p.words[1] == nil {
			words := p.words[0]
			for row := 1; row < len(words); row++ {
				if words[row] != words[row-1] {
					changed[row] = true
				}
			}
			continue
		}
		for row := 1; row < len(changed); row++ {
			if !changed[row] && p.compare(row, p, row-1) != 0 {
				changed[row] = true
			}
		}
	}
}

func positions(marks []bool) []int32 {
	var out []int32
	for i, m := range marks {
		if m {
			out = append(out, int32(i))
		}
	}
	return append(out, int32(len(marks)))
}

// compute returns the column of a window.
func (p *partitions) compute(w Window, b arrow.RecordBatch, t arrow.DataType) (arrow.Array, error) {
	switch w.Function {
	case RowNumber, Rank, DenseRank:
		return p.number(w.Function), nil
	case Lag:
		return p.shift(b.Column(w.Col), -w.Offset)
	case Lead:
		return p.shift(b.Column(w.Col), w.Offset)
	}
	first, last, err := p.bounds(w.Frame)
	if err != nil {
		return nil, err
	}
	switch w.Function {
	case First:
		return vec.TakeArray(b.Column(w.Col), first)
	case Last:
		return vec.TakeArray(b.Column(w.Col), last)
	case Count:
		return countFrames(b, w.Col, first, last), nil
	case Min, Max:
		return p.extremes(b.Column(w.Col), w, first, last)
	}
	return sumFrames(b.Column(w.Col), b.ColumnName(w.Col), w, t, first, last)
}

// number returns the numbers or ranks of rows.
func (p *partitions) number(f Function) arrow.Array {
	out := make([]int64, p.n)
	peer := 0
	for i, lo := range p.parts[:len(p.parts)-1] {
		hi := p.parts[i+1]
		if f == RowNumber {
			for row := lo; row < hi; row++ {
				out[row] = int64(row-lo) + 1
			}
			continue
		}
		for dense := int64(1); p.peers[peer] < hi; dense++ {
			rank := dense
			if f == Rank {
				rank = int64(p.peers[peer]-lo) + 1
			}
			for row := p.peers[peer]; row < p.peers[peer+1]; row++ {
				out[row] = rank
			}
			peer++
		}
	}
	return fixedArray(arrow.PrimitiveTypes.Int64, out, nil, 0)
}

// shift returns the values of the rows that are offset rows after each.
func (p *partitions) shift(a arrow.Array, offset int) (arrow.Array, error) {
	rows := make([]int32, p.n)
	offset = max(min(offset, p.n), -p.n)
	for i, lo := range p.parts[:len(p.parts)-1] {
		for row := lo; row < p.parts[i+1]; row++ {
			at := int(row) + offset
			if rows[row] = -1; at >= int(lo) && at < int(p.parts[i+1]) {
				rows[row] = int32(at)
			}
		}
	}
	return vec.TakeArray(a, rows)
}
