package gpu

import (
	"math/bits"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/frame/internal/vec"
)

// The host's versions of Random, Sum and a merge, for results to compare with.

func hostMix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// hostRandom returns columns of 64-bit integers.
func hostRandom(columns []Random, first, rows int) [][]int64 {
	const step = 0x9e3779b97f4a7c15
	out := make([][]int64, len(columns))
	for i, c := range columns {
		out[i] = make([]int64, rows)
		for r := range out[i] {
			v := hostMix(hostMix(c.Seed^step) + uint64(first+r)*step)
			switch {
			case c.Counted:
				v = uint64(first + r)
			case c.Range != 0:
				v, _ = bits.Mul64(v, c.Range)
			}
			if v += uint64(c.Low); c.Spread {
				v = hostMix(v)
			}
			out[i][r] = int64(v)
		}
	}
	return out
}

func hostSum(columns [][]int64) (sum uint64) {
	for r := range columns[0] {
		h := uint64(0)
		for _, c := range columns {
			h = hostMix(h*31 + uint64(c[r]))
		}
		sum += h
	}
	return sum
}

func batchOf(columns [][]int64) arrow.RecordBatch {
	var arrays []arrow.Array
	for _, c := range columns {
		d := array.NewData(arrow.PrimitiveTypes.Int64, len(c), []*memory.Buffer{nil,
			memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(c))}, nil, 0, 0)
		arrays = append(arrays, array.NewInt64Data(d))
	}
	return array.NewRecordBatch(keyed, arrays, int64(len(columns[0])))
}

// hostMerge is the merge of merged on the host, by a number of goroutines: rows are those of each side.
func hostMerge(t testing.TB, rows, threads int) outcome {
	t.Helper()
	l, r := mergeSides(rows)
	chunks, parts := 4*threads, 4*threads
	sides := [2][][]arrow.RecordBatch{make([][]arrow.RecordBatch, parts), make([][]arrow.RecordBatch, parts)}
	input := [2][]arrow.RecordBatch{make([]arrow.RecordBatch, chunks), make([]arrow.RecordBatch, chunks)}
	parallel(threads, 2*chunks, func(i int) {
		from, to := rows*(i/2)/chunks, rows*(i/2+1)/chunks
		input[i%2][i/2] = batchOf(hostRandom([][]Random{l, r}[i%2], from, to-from))
	})
	begin := time.Now()
	var mu sync.Mutex
	parallel(threads, 2*chunks, func(i int) {
		list, err := vec.Partition(input[i%2][i/2], []int{0}, parts)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		for p, b := range list {
			sides[i%2][p] = append(sides[i%2][p], b)
		}
	})
	var all outcome
	parallel(threads, parts, func(p int) {
		o, err := hostJoinPart(sides[0][p], sides[1][p])
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		all.Rows, all.Sum = all.Rows+o.Rows, all.Sum+o.Sum
	})
	t.Logf("merge of 2 × %d rows by %d goroutines of the host: %.1f ms, %d rows", rows, threads,
		time.Since(begin).Seconds()*1e3, all.Rows)
	return all
}

func hostJoinPart(left, right []arrow.RecordBatch) (o outcome, err error) {
	x, err := join.Build(keyed, right, []int{0})
	if err != nil {
		return o, err
	}
	defer x.Release()
	p, err := x.Probe(keyed, join.Options{Kind: join.Inner, Keys: []int{0}, Left: []int{0, 1}, Right: []int{1}})
	if err != nil {
		return o, err
	}
	defer p.Release()
	emit := func(b arrow.RecordBatch) error {
		defer b.Release()
		var columns [][]int64
		for _, c := range b.Columns() {
			columns = append(columns, c.(*array.Int64).Int64Values())
		}
		o.Rows, o.Sum = o.Rows+b.NumRows(), o.Sum+hostSum(columns)
		return nil
	}
	for _, b := range left {
		if err := p.Add(b, emit); err != nil {
			return o, err
		}
	}
	return o, p.Finish(emit)
}

// parallel calls f for 0 to n-1 on a number of goroutines.
func parallel(threads, n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range threads {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// The host's merge does not depend on the number of goroutines, and has the pairs of its definition.
func TestHostMerge(t *testing.T) {
	const rows = 20_000
	one := hostMerge(t, rows, 1)
	if two := hostMerge(t, rows, 3); one != two {
		t.Errorf("%+v by one goroutine, %+v by three", one, two)
	}
	l, r := mergeSides(rows)
	left, right := hostRandom(l, 0, rows), hostRandom(r, 0, rows)
	at := map[int64]int64{}
	for i, k := range right[0] {
		at[k] = right[1][i]
	}
	var want outcome
	for i, k := range left[0] {
		if v, ok := at[k]; ok {
			want.Rows++
			want.Sum += hostSum([][]int64{{k}, {left[1][i]}, {v}})
		}
	}
	if one != want || want.Rows < rows/4 || want.Rows > rows*2/5 {
		t.Errorf("%+v, want %+v: three of ten rows", one, want)
	}
}
