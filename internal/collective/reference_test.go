package collective

import (
	"bytes"
	"context"
	"fmt"
)

// testCase is one collective with everything that can vary.
type testCase struct {
	code  callCode
	kind  Kind
	op    opCode
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
		of[int8](b)[i] = int8(v)
	case Int16:
		of[int16](b)[i] = int16(v)
	case Int32:
		of[int32](b)[i] = int32(v)
	case Int64:
		of[int64](b)[i] = int64(v)
	case Uint8:
		of[uint8](b)[i] = uint8(v)
	case Uint16:
		of[uint16](b)[i] = uint16(v)
	case Uint32:
		of[uint32](b)[i] = uint32(v)
	case Uint64:
		of[uint64](b)[i] = uint64(v)
	case Float16:
		of[F16](b)[i] = ToF16(float32(v))
	case BFloat16:
		of[BF16](b)[i] = ToBF16(float32(v))
	case Float32:
		of[float32](b)[i] = float32(v)
	case Float64:
		of[float64](b)[i] = v
	}
}

// value is element i of a rank: small whole numbers, so that every order of operations gives the same.
func (c testCase) value(rank, i int) float64 {
	if c.op == opProd {
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
		if c.op == opPreMulSum {
			acc *= 2
		}
		for r := 1; r < c.ranks; r++ {
			x := c.value(r, begin+i)
			switch c.op {
			case opProd:
				acc *= x
			case opMin:
				acc = min(acc, x)
			case opMax:
				acc = max(acc, x)
			case opPreMulSum:
				acc += x * float64(2+r%2)
			default:
				acc += x
			}
		}
		switch {
		case c.op != opAvg:
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
	if c.op == opPreMulSum {
		return PreMulSumOf(c.kind, float64(2+rank%2))
	}
	return Op{code: c.op}
}

// counts of the V forms differ from rank to rank, and may be 0.
func (c testCase) counts() []int {
	counts := make([]int, c.ranks)
	for r := range counts {
		counts[r] = (c.n + r) * (r % 3)
	}
	return counts
}

// caller has the collectives of a Group.
type caller interface {
	Rank() int
	Barrier(ctx context.Context) error
	AllReduce(ctx context.Context, send, recv []byte, k Kind, op Op) error
	Reduce(ctx context.Context, send, recv []byte, k Kind, op Op, root int) error
	Broadcast(ctx context.Context, buf []byte, k Kind, root int) error
	AllGather(ctx context.Context, send, recv []byte, k Kind) error
	AllGatherV(ctx context.Context, send, recv []byte, counts []int, k Kind) error
	Gather(ctx context.Context, send, recv []byte, k Kind, root int) error
	GatherV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) error
	Scatter(ctx context.Context, send, recv []byte, k Kind, root int) error
	ScatterV(ctx context.Context, send, recv []byte, counts []int, k Kind, root int) error
	ReduceScatter(ctx context.Context, send, recv []byte, k Kind, op Op) error
	AllToAll(ctx context.Context, send, recv []byte, k Kind) error
	AllToAllV(ctx context.Context, send []byte, sendCounts []int, recv []byte, recvCounts []int, k Kind) error
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
	total := before(append(counts, 0), c.ranks)
	switch c.code {
	case callBarrier:
		err = g.Barrier(ctx)
	case callAllReduce:
		send := c.fillWith(r, 0, n)
		got, want = make([]byte, n*es), c.reduced(0, n)
		if n%2 == 1 { // in place as well
			got = send
		}
		err = g.AllReduce(ctx, send, got, c.kind, c.operation(r))
	case callReduce:
		got = make([]byte, n*es)
		err = g.Reduce(ctx, c.fillWith(r, 0, n), got, c.kind, c.operation(r), c.root)
		want = make([]byte, n*es)
		if isRoot {
			want = c.reduced(0, n)
		}
	case callBroadcast:
		got, want = c.fillWith(r, 0, n), c.fillWith(c.root, 0, n)
		err = g.Broadcast(ctx, got, c.kind, c.root)
	case callAllGather:
		got, want = make([]byte, c.ranks*n*es), join(same)
		err = g.AllGather(ctx, c.fillWith(r, 0, n), got, c.kind)
	case callAllGatherV:
		got, want = make([]byte, total*es), join(counted)
		err = g.AllGatherV(ctx, c.fillWith(r, 0, counts[r]), got, counts, c.kind)
	case callGather:
		if isRoot {
			got, want = make([]byte, c.ranks*n*es), join(same)
		}
		err = g.Gather(ctx, c.fillWith(r, 0, n), got, c.kind, c.root)
	case callGatherV:
		if isRoot {
			got, want = make([]byte, total*es), join(counted)
		}
		err = g.GatherV(ctx, c.fillWith(r, 0, counts[r]), got, counts, c.kind, c.root)
	case callScatter:
		got, want = make([]byte, n*es), c.fillWith(c.root, r*n, n)
		err = g.Scatter(ctx, c.fillWith(c.root, 0, c.ranks*n), got, c.kind, c.root)
	case callScatterV:
		got, want = make([]byte, counts[r]*es), c.fillWith(c.root, before(counts, r), counts[r])
		err = g.ScatterV(ctx, c.fillWith(c.root, 0, total), got, counts, c.kind, c.root)
	case callReduceScatter:
		got, want = make([]byte, n*es), c.reduced(r*n, n)
		err = g.ReduceScatter(ctx, c.fillWith(r, 0, c.ranks*n), got, c.kind, c.operation(r))
	case callAllToAll:
		got = make([]byte, c.ranks*n*es)
		for q := range c.ranks {
			want = append(want, c.fillWith(q, r*n, n)...)
		}
		err = g.AllToAll(ctx, c.fillWith(r, 0, c.ranks*n), got, c.kind)
	case callAllToAllV: // rank a sends counts[(a+b)%ranks] to rank b
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
			want = append(want, c.fillWith(q, before(row, r), row[r])...)
		}
		err = g.AllToAllV(ctx, c.fillWith(r, 0, total), out, got, out, c.kind)
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
