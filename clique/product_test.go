package clique_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/mem"
)

// operand is element i of a rank: small whole numbers, which every type holds and every order of operations keeps.
func operand[T clique.Number](rank, i int) T { return T(1 + (rank*5+i*3)%3) }

func operands[T clique.Number](rank, from, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = operand[T](rank, from+i)
	}
	return out
}

// memories are the ways to hand elements to a call.
func memories[T clique.Number]() []func(s []T) (clique.View[T], func()) {
	return []func(s []T) (clique.View[T], func()){
		func(s []T) (clique.View[T], func()) { return clique.Of(s), func() {} },
		func(s []T) (clique.View[T], func()) {
			b := mem.FromSlice(s)
			return clique.Buffer[T](b), b.Release
		},
		func(s []T) (clique.View[T], func()) {
			whole := mem.FromSlice(append(make([]T, 3), s...))
			size := whole.Len() / (len(s) + 3)
			b := whole.Slice(3*size, whole.Len()-3*size)
			whole.Release()
			// The result is read where the caller has its elements.
			return clique.Buffer[T](b), func() { copyBack(s, b); b.Release() }
		},
	}
}

func copyBack[T clique.Number](s []T, b *mem.Buffer) {
	v := mem.FromSlice(s)
	defer v.Release()
	copy(v.Bytes(), b.Bytes())
}

// reduced is what an operation makes of element i of all ranks.
func reduced[T clique.Number](op string, ranks, i int) T {
	acc := operand[T](0, i)
	if op == "premulsum" {
		acc *= 2
	}
	for r := 1; r < ranks; r++ {
		x := operand[T](r, i)
		switch op {
		case "prod":
			acc *= x
		case "min":
			acc = min(acc, x)
		case "max":
			acc = max(acc, x)
		case "premulsum":
			acc += 2 * x
		default:
			acc += x
		}
	}
	if op == "avg" {
		acc /= T(ranks)
	}
	return acc
}

func operation[T clique.Number](name string) clique.Op {
	return map[string]clique.Op{"sum": clique.Sum, "prod": clique.Prod, "min": clique.Min, "max": clique.Max,
		"avg":       clique.Avg,
		"premulsum": clique.PreMulSum(T(2))}[name]
}

// wanted compares a result; nil wants that nothing was written.
func wanted[T clique.Number](what string, err error, got, want []T) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !slices.Equal(got, want) {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		return fmt.Errorf("%s: %d elements, want %d; they differ at %d", what, len(got), len(want), at)
	}
	return nil
}

// everything calls each operation with elements of one type, in one kind of memory, in one size, and compares with a
// plain result. async begins each and waits for it.
func everything[T clique.Number](ctx context.Context, r *clique.Rank, view func([]T) (clique.View[T], func()),
	op string,
	n, root int, async bool) error {
	me, size := r.Rank(), r.Size()
	run := func(c clique.Call) error {
		if async {
			return r.Start(ctx, c).Wait(ctx)
		}
		return r.Do(ctx, c)
	}
	// on carries a call on send and recv out; recv has the result then.
	on := func(send, recv []T, call func(send, recv clique.View[T]) clique.Call) error {
		s, freeSend := view(send)
		v, freeRecv := view(recv)
		err := run(call(s, v))
		freeRecv()
		freeSend()
		return err
	}
	var errs []error
	check := func(what string, err error, got, want []T) {
		errs = append(errs, wanted(fmt.Sprintf("%s %s n=%d root=%d ranks=%d", what, op, n, root, size), err, got, want))
	}
	at := func(rank int, x []T) []T { // what only one rank gets
		if rank == me {
			return x
		}
		return make([]T, len(x))
	}
	all := make([]T, n)
	for i := range all {
		all[i] = reduced[T](op, size, i)
	}
	mine, got := operands[T](me, 0, n), make([]T, n)
	check("AllReduce", on(mine, got, func(s, v clique.View[T]) clique.Call {
		return clique.AllReduce(s, v, operation[T](op))
	}), got, all)
	got = make([]T, n)
	check("Reduce", on(mine, got, func(s, v clique.View[T]) clique.Call {
		return clique.Reduce(s, v, operation[T](op), root)
	}), got, at(root, all))
	parts := make([]T, n)
	for i := range parts {
		parts[i] = reduced[T](op, size, me*n+i)
	}
	got = make([]T, n)
	check("ReduceScatter", on(operands[T](me, 0, n*size), got, func(s, v clique.View[T]) clique.Call {
		return clique.ReduceScatter(s, v, operation[T](op))
	}), got, parts)

	got = slices.Clone(mine)
	v, free := view(got)
	err := run(clique.Broadcast(v, root))
	free()
	check("Broadcast", err, got, operands[T](root, 0, n))

	var joined, joinedV, turned []T
	counts := make([]int, size)
	before := 0
	for q := range size {
		counts[q] = (n + q) * (q % 3)
		joined = append(joined, operands[T](q, 0, n)...)
		joinedV = append(joinedV, operands[T](q, 0, counts[q])...)
		turned = append(turned, operands[T](q, me*n, n)...)
		if q < me {
			before += counts[q]
		}
	}
	got = make([]T, n*size)
	check("AllGather", on(mine, got, clique.AllGather[T]), got, joined)
	got = make([]T, len(joinedV))
	check("AllGather by counts", on(operands[T](me, 0, counts[me]), got, func(s, v clique.View[T]) clique.Call {
		return clique.AllGather(s, v).WithCounts(counts, nil)
	}), got, joinedV)
	got = make([]T, n*size)
	check("Gather", on(mine, got, func(s, v clique.View[T]) clique.Call { return clique.Gather(s, v, root) }), got,
		at(root, joined))
	got = make([]T, len(joinedV))
	check("Gather by counts", on(operands[T](me, 0, counts[me]), got, func(s, v clique.View[T]) clique.Call {
		return clique.Gather(s, v, root).WithCounts(counts, nil)
	}), got, at(root, joinedV))
	got = make([]T, n)
	check("Scatter", on(operands[T](root, 0, n*size), got, func(s, v clique.View[T]) clique.Call {
		return clique.Scatter(s, v, root)
	}), got, operands[T](root, me*n, n))
	got = make([]T, counts[me])
	check("Scatter by counts", on(operands[T](root, 0, len(joinedV)), got, func(s, v clique.View[T]) clique.Call {
		return clique.Scatter(s, v, root).WithCounts(counts, nil)
	}), got, operands[T](root, before, counts[me]))
	got = make([]T, n*size)
	check("AllToAll", on(operands[T](me, 0, n*size), got, clique.AllToAll[T]), got, turned)

	next, prev := (me+1)%size, (me+size-1)%size
	got = make([]T, n+2) // longer than the message
	s, freeSend := view(mine)
	v, free = view(got)
	length := -1
	err = run(clique.SendRecv(next, 1<<63|uint64(n), s, prev, 1<<63|uint64(n), v).WithLen(&length))
	free()
	freeSend()
	check("SendRecv", err, got, append(operands[T](prev, 0, n), 0, 0))
	if length != n {
		errs = append(errs, fmt.Errorf("SendRecv says that %d elements came, want %d", length, n))
	}
	return errors.Join(append(errs, run(clique.Barrier()))...)
}

// products calls everything with one type: each operation with every size, and each size with every kind of memory.
func products[T clique.Number](ctx context.Context, r *clique.Rank, ops ...string) error {
	ways := memories[T]()
	for i, n := range []int{0, 7, 1500} {
		for j, op := range ops {
			if err := everything(ctx, r, ways[(i+j)%len(ways)], op, n, (i+j)%r.Size(), (i+j)%2 == 1); err != nil {
				return fmt.Errorf("%T: %w", *new(T), err)
			}
		}
	}
	return nil
}

var everyProduct = clique.Func("test.products", func(ctx context.Context, r *clique.Rank, _ int) (string, error) {
	return "", errors.Join(
		products[float32](ctx, r, "sum", "prod", "min", "max", "avg", "premulsum"), products[float64](ctx, r, "sum",
			"premulsum"),
		products[int8](ctx, r, "min", "max"), products[int16](ctx, r, "sum"), products[int32](ctx, r, "avg", "prod"),
		products[int64](ctx, r, "premulsum", "sum"), products[uint8](ctx, r, "max"), products[uint16](ctx, r,
			"premulsum"),
		products[uint32](ctx, r, "sum"), products[uint64](ctx, r, "min"), products[int](ctx, r, "sum"),
	)
})

// TestProducts compares every operation with a plain result: one to five ranks, types, operations, sizes and kinds of
// memory, by UCX and, of odd cliques, by the workers' connections; the largest clique
// twice.
func TestProducts(t *testing.T) {
	_, c := local(t, cluster.Config{Workers: 5, Mode: cluster.Goroutines})
	whole := form(t, c, clique.Options{})
	for ranks := 1; ranks <= 5; ranks++ {
		backends := []clique.Backend{clique.Auto, clique.Comm}
		for _, backend := range backends[:1+ranks%2] {
			t.Run(fmt.Sprintf("%d ranks %q", ranks, backend), func(t *testing.T) {
				q := form(t, c, clique.Options{Workers: whole.Workers()[:ranks], Backend: backend})
				for range 1 + ranks/5 {
					if _, err := everyProduct.RunAll(testContext(t), q, 0); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
