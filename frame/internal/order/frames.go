package order

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// bounds returns the first and the last row of the frame of each row. Both never decrease.
func (p *partitions) bounds(f Frame) (first, last []int32, err error) {
	if f.Preceding < Unbounded || f.Following < Unbounded {
		return nil, nil, fmt.Errorf("order: frame from %d rows before to %d rows after; use numbers of rows or "+
			"Unbounded", f.Preceding, f.Following)
	}
	if f.Peers && (f.Preceding > 0 || f.Following > 0) {
		return nil, nil, errors.New("order: frame of peers with a number of rows; use the current row or Unbounded")
	}
	first, last = make([]int32, p.n), make([]int32, p.n)
	before, after := f.Preceding, f.Following
	if before == Unbounded {
		before = p.n
	}
	if after == Unbounded {
		after = p.n
	}
	for i, lo := range p.parts[:len(p.parts)-1] {
		hi := p.parts[i+1]
		for row := lo; row < hi; row++ {
			first[row] = int32(max(int(lo), int(row)-before))
			last[row] = int32(min(int(hi)-1, int(row)+after))
		}
	}
	if f.Peers {
		for i, lo := range p.peers[:len(p.peers)-1] {
			hi := p.peers[i+1]
			for row := lo; row < hi; row++ {
				first[row], last[row] = min(first[row], lo), max(last[row], hi-1)
			}
		}
	}
	return first, last, nil
}

// countFrames returns the number of values that are not null in each frame, or of rows.
func countFrames(b arrow.RecordBatch, col int, first, last []int32) arrow.Array {
	out := make([]int64, len(first))
	var valid []byte
	off := 0
	if col >= 0 {
		valid, off = vec.Validity(b.Column(col))
	}
	if valid == nil {
		for i := range out {
			out[i] = int64(last[i]-first[i]) + 1
		}
		return fixedArray(arrow.PrimitiveTypes.Int64, out, nil, 0)
	}
	before := make([]int64, len(first)+1) // values before each row
	for i := range first {
		before[i+1] = before[i]
		if bitSet(valid, off+i) {
			before[i+1]++
		}
	}
	for i := range out {
		out[i] = before[last[i]+1] - before[first[i]]
	}
	return fixedArray(arrow.PrimitiveTypes.Int64, out, nil, 0)
}

// extremes returns the least or greatest value of each frame.
func (p *partitions) extremes(a arrow.Array, w Window, first, last []int32) (arrow.Array, error) {
	schema := arrow.NewSchema([]arrow.Field{{Name: w.Name, Type: a.DataType(), Nullable: true}}, nil)
	b := batchOf(schema, a)
	defer b.Release()
	k := &newKeyed(b, []SortKey{{Desc: w.Function == Max}}, false).parts[0]
	rows := make([]int32, len(first))
	// queue has the rows of the frame that are less than all after them, from head on; the first is the least.
	queue, head := make([]int32, 0, 64), 0
	next, count := int32(0), 0
	lastFirst := int32(0)
	for i := range rows {
		for ; lastFirst < first[i]; lastFirst++ {
			if lastFirst < next && !k.null(int(lastFirst)) {
				count--
			}
		}
		next = max(next, first[i])
		for ; next <= last[i]; next++ {
			if k.null(int(next)) {
				continue
			}
			count++
			for len(queue) > head && k.compare(int(queue[len(queue)-1]), k, int(next)) > 0 {
				queue = queue[:len(queue)-1]
			}
			if head > 1024 && head > len(queue)/2 {
				queue, head = queue[:copy(queue, queue[head:])], 0
			}
			queue = append(queue, next)
		}
		for head < len(queue) && queue[head] < first[i] {
			head++
		}
		if rows[i] = -1; head < len(queue) && count >= w.MinValues {
			rows[i] = queue[head]
		}
	}
	return vec.TakeArray(a, rows)
}

// sumFrames returns the sum or mean of each frame.
func sumFrames(a arrow.Array, name string, w Window, t arrow.DataType, first, last []int32) (arrow.Array, error) {
	n := len(first)
	valid, off := vec.Validity(a)
	live := func(row int32) bool { return valid == nil || bitSet(valid, off+int(row)) }
	out := newFixed(n)
	least := max(w.MinValues, 1)
	if floats := floatsOf(a); floats != nil {
		sums, counts := sumFloats(floats, live, first, last)
		for i, s := range sums {
			if w.Function == Mean {
				s /= float64(counts[i])
			}
			out.set(i, math.Float64bits(s), counts[i] >= least)
		}
		return fixedArray(t, out.words, out.valid, out.nulls), nil
	}
	values := integersOf(a)
	scale := 0.0
	if d, ok := a.DataType().(*arrow.Decimal128Type); ok {
		scale = float64(d.Scale)
	}
	var wide [][2]uint64
	if t.ID() == arrow.DECIMAL128 {
		wide = make([][2]uint64, n)
	}
	var sum int192
	count, from, next := 0, int32(0), int32(0)
	for i := range n {
		// Sums of integers are exact, so that values can be subtracted.
		for ; next <= last[i]; next++ {
			if live(next) {
				sum = sum.add(values(next))
				count++
			}
		}
		for ; from < first[i]; from++ {
			if live(from) {
				sum = sum.subtract(values(from))
				count--
			}
		}
		ok := count >= least
		if w.Function == Mean {
			out.set(i, math.Float64bits(sum.float()/float64(count)/math.Pow(10, scale)), ok)
			continue
		}
		out.set(i, sum[0], ok)
		if wide != nil {
			wide[i] = [2]uint64{sum[0], sum[1]}
		}
		if ok && !sum.fits(t) {
			return nil, fmt.Errorf("order: sum of column %q exceeds the type %v; cast the column to a float", name, t)
		}
	}
	if wide != nil {
		return fixedArray(t, wide, out.valid, out.nulls), nil
	}
	return fixedArray(t, out.words, out.valid, out.nulls), nil
}

// sumFloats returns the sums and the numbers of values of frames. It only adds: subtraction of what leaves a frame
// would lose digits, and infinities.
func sumFloats(values func(int32) float64, live func(int32) bool, first, last []int32) ([]float64, []int) {
	sums, counts := make([]float64, len(first)), make([]int, len(first))
	// Rows before middle are in sums of all to the middle; those after it are in one sum.
	var (
		toMiddle      = make([]float64, len(first))
		countToMiddle = make([]int32, len(first))
		middle, next  int32
		after         float64
		countAfter    int
	)
	for i := range sums {
		if first[i] >= middle {
			// All rows of the frame that were added become rows before the middle.
			var sum float64
			count := int32(0)
			for row := next - 1; row >= first[i]; row-- {
				if live(row) {
					sum += values(row)
					count++
				}
				toMiddle[row], countToMiddle[row] = sum, count
			}
			middle, after, countAfter = max(next, first[i]), 0, 0
		}
		for next = max(next, first[i]); next <= last[i]; next++ {
			if live(next) {
				after += values(next)
				countAfter++
			}
		}
		sums[i], counts[i] = after, countAfter
		if first[i] < middle {
			sums[i] += toMiddle[first[i]]
			counts[i] += int(countToMiddle[first[i]])
		}
	}
	return sums, counts
}
