package collective

import (
	"bytes"
	"context"
	"fmt"

	"go.millstream.dev/internal/collective/elem"
)

// testCase is one collective with everything that can vary.
type testCase struct {
	code  Code
	kind  Kind
	op    elem.OpCode
	n     int // elements of a part
	root  int
	ranks int
}

func (c testCase) String() string {
	return fmt.Sprintf("%v %v %v n=%d root=%d ranks=%d", c.code, c.kind, c.op, c.n, c.root, c.ranks)
}

// store writes a number as an element.
func store(k Kind, b []byte, i int, v float64) {
	switch k {
	case Int8:
		elem.Slice[int8](b)[i] = int8(v)
	case Int16:
		elem.Slice[int16](b)[i] = int16(v)
	case Int32:
		elem.Slice[int32](b)[i] = int32(v)
	case Int64:
		elem.Slice[int64](b)[i] = int64(v)
	case Uint8:
		elem.Slice[uint8](b)[i] = uint8(v)
	case Uint16:
		elem.Slice[uint16](b)[i] = uint16(v)
	case Uint32:
		elem.Slice[uint32](b)[i] = uint32(v)
	case Uint64:
		elem.Slice[uint64](b)[i] = uint64(v)
	case Float16:
		elem.Slice[F16](b)[i] = elem.ToF16(float32(v))
	case BFloat16:
		elem.Slice[BF16](b)[i] = elem.ToBF16(float32(v))
	case Float32:
		elem.Slice[float32](b)[i] = float32(v)
	case Float64:
		elem.Slice[float64](b)[i] = v
	}
}

// value is element i of a rank: small whole numbers, so that every order of operations gives the same.
func (c testCase) value(rank, i int) float64 {
	if c.op == elem.OpProd {
		return float64(1 + (rank+i)&1*(i&1))
	}
	return float64(1 + (rank*5+i*3)%3)
}

// fillWith makes a buffer of rank's elements from begin on.
func (c testCase) fillWith(rank, begin, n int) []byte {
	b := make([]byte, n*c.kind.Size())
	for i := range n {
		store(c.kind, b, i, c.value(rank, begin+i))
	}
	return b
}

// reduced is the result for elements begin … begin+n, computed one by one.
func (c testCase) reduced(begin, n int) []byte {
	b := make([]byte, n*c.kind.Size())
	for i := range n {
		acc := c.value(0, begin+i)
		if c.op == elem.OpPreMulSum {
			acc *= 2
		}
		for r := 1; r < c.ranks; r++ {
			x := c.value(r, begin+i)
			switch c.op {
			case elem.OpProd:
				acc *= x
			case elem.OpMin:
				acc = min(acc, x)
			case elem.OpMax:
				acc = max(acc, x)
			case elem.OpPreMulSum:
				acc += x * float64(2+r%2)
			default:
				acc += x
			}
		}
		switch {
		case c.op != elem.OpAvg:
		case c.kind == Float16 || c.kind == BFloat16 || c.kind == Float32:
			acc = float64(float32(acc) / float32(c.ranks))
		default: // store cuts off
			acc /= float64(c.ranks)
		}
		store(c.kind, b, i, acc)
	}
	return b
}

func (c testCase) operation(rank int) Op {
	if c.op == elem.OpPreMulSum {
		return elem.PreMulSumOf(c.kind, float64(2+rank%2))
	}
	return elem.NewOp(c.op, 0, 0)
}

// counts of the V forms differ from rank to rank, and may be 0.
func (c testCase) counts() []int {
	counts := make([]int, c.ranks)
	for r := range counts {
		counts[r] = (c.n + r) * (r % 3)
	}
	return counts
}

// caller carries calls out: a Group, or one on fake devices.
type caller interface {
	Rank() int
	Do(ctx context.Context, c Call) error
}

// run calls the collective on one rank and compares with the plain result.
func (c testCase) run(ctx context.Context, g caller) error {
	r, es, n := g.Rank(), c.kind.Size(), c.n
	isRoot := r == c.root
	var got, want []byte
	var err error
	join := func(count func(int) int) []byte {
		var b []byte
		for q := range c.ranks {
			b = append(b, c.fillWith(q, 0, count(q))...)
		}
		return b
	}
	same := func(int) int { return n }
	counts := c.counts()
	counted := func(q int) int { return counts[q] }
	total := countBefore(append(counts, 0), c.ranks)
	switch c.code {
	case Barrier:
		err = g.Do(ctx, barrier())
	case AllReduce:
		send := c.fillWith(r, 0, n)
		got, want = make([]byte, n*es), c.reduced(0, n)
		if n%2 == 1 { // in place as well
			got = send
		}
		err = g.Do(ctx, allReduce(send, got, c.kind, c.operation(r)))
	case Reduce:
		got = make([]byte, n*es)
		err = g.Do(ctx, reduce(c.fillWith(r, 0, n), got, c.kind, c.operation(r), c.root))
		want = make([]byte, n*es)
		if isRoot {
			want = c.reduced(0, n)
		}
	case Broadcast:
		got, want = c.fillWith(r, 0, n), c.fillWith(c.root, 0, n)
		err = g.Do(ctx, broadcast(got, c.kind, c.root))
	case AllGather:
		got, want = make([]byte, c.ranks*n*es), join(same)
		err = g.Do(ctx, allGather(c.fillWith(r, 0, n), got, c.kind))
	case AllGatherV:
		got, want = make([]byte, total*es), join(counted)
		err = g.Do(ctx, allGatherV(c.fillWith(r, 0, counts[r]), got, counts, c.kind))
	case Gather:
		if isRoot {
			got, want = make([]byte, c.ranks*n*es), join(same)
		}
		err = g.Do(ctx, gather(c.fillWith(r, 0, n), got, c.kind, c.root))
	case GatherV:
		if isRoot {
			got, want = make([]byte, total*es), join(counted)
		}
		err = g.Do(ctx, gatherV(c.fillWith(r, 0, counts[r]), got, counts, c.kind, c.root))
	case Scatter:
		got, want = make([]byte, n*es), c.fillWith(c.root, r*n, n)
		err = g.Do(ctx, scatter(c.fillWith(c.root, 0, c.ranks*n), got, c.kind, c.root))
	case ScatterV:
		got, want = make([]byte, counts[r]*es), c.fillWith(c.root, countBefore(counts, r), counts[r])
		err = g.Do(ctx, scatterV(c.fillWith(c.root, 0, total), got, counts, c.kind, c.root))
	case ReduceScatter:
		got, want = make([]byte, n*es), c.reduced(r*n, n)
		err = g.Do(ctx, reduceScatter(c.fillWith(r, 0, c.ranks*n), got, c.kind, c.operation(r)))
	case AllToAll:
		got = make([]byte, c.ranks*n*es)
		for q := range c.ranks {
			want = append(want, c.fillWith(q, r*n, n)...)
		}
		err = g.Do(ctx, allToAll(c.fillWith(r, 0, c.ranks*n), got, c.kind))
	case AllToAllV: // rank a sends counts[(a+b)%ranks] to rank b
		out := make([]int, c.ranks)
		for q := range out {
			out[q] = counts[(r+q)%c.ranks]
		}
		got = make([]byte, total*es)
		for q := range c.ranks {
			row := make([]int, c.ranks)
			for p := range row {
				row[p] = counts[(q+p)%c.ranks]
			}
			want = append(want, c.fillWith(q, countBefore(row, r), row[r])...)
		}
		err = g.Do(ctx, allToAllV(c.fillWith(r, 0, total), out, got, out, c.kind))
	}
	if err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	if !bytes.Equal(got, want) {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		return fmt.Errorf("%v: %d bytes, want %d; first difference in element %d", c, len(got), len(want), at/es)
	}
	return nil
}
