package clique

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/mem"
)

var allKinds = []clique.Kind{collective.Int8, collective.Int16, collective.Int32, collective.Int64,
	collective.Uint8, collective.Uint16, collective.Uint32, collective.Uint64,
	collective.Float16, collective.BFloat16, collective.Float32, collective.Float64}

var allOps = []string{"sum", "prod", "min", "max", "avg", "premulsum"}

// opFor is an operation by its name, with this rank's scale.
func opFor(name string, k clique.Kind, rank int) clique.Op {
	switch name {
	case "sum":
		return clique.Sum
	case "prod":
		return clique.Prod
	case "min":
		return clique.Min
	case "max":
		return clique.Max
	case "avg":
		return clique.Avg
	}
	return preMul(k, rank+2)
}

func preMul(k clique.Kind, scale int) clique.Op {
	switch k {
	case collective.Int8:
		return clique.PreMulSum(int8(scale))
	case collective.Int32:
		return clique.PreMulSum(int32(scale))
	case collective.Int64:
		return clique.PreMulSum(int64(scale))
	case collective.Uint8:
		return clique.PreMulSum(uint8(scale))
	case collective.Uint32:
		return clique.PreMulSum(uint32(scale))
	case collective.Uint64:
		return clique.PreMulSum(uint64(scale))
	case collective.Float16:
		return clique.PreMulSum(clique.F16(f16(scale)))
	case collective.BFloat16:
		return clique.PreMulSum(clique.BF16(bf16(scale)))
	case collective.Float32:
		return clique.PreMulSum(float32(scale))
	}
	return clique.PreMulSum(float64(scale))
}

// sizes of a rank's part in elements.
var partSizes = []int{1, 7, 1000, 65537}

// everyCollective runs each collective on device memory over kinds, operations and sizes, and
// compares with a plain sequential result. Reductions take the kinds that reducible says.
func everyCollective(ctx context.Context, r *clique.Rank, reducible func(clique.Kind) bool) error {
	var errs []error
	step := 0
	for _, k := range allKinds {
		for o, op := range allOps {
			if !reducible(k) {
				break
			}
			n := partSizes[(step+o)%len(partSizes)]
			root := step % r.Size()
			step++
			errs = append(errs, reductions(ctx, r, k, op, n, root))
			if r.Err() != nil {
				return errors.Join(append(errs, r.Err())...)
			}
		}
		n := partSizes[step%len(partSizes)]
		step++
		errs = append(errs, movements(ctx, r, k, n, step%r.Size()))
		if r.Err() != nil {
			return errors.Join(append(errs, r.Err())...)
		}
	}
	return errors.Join(errs...)
}

// average divides as the kind does: whole numbers are cut off.
func average(k clique.Kind, sums []int64, ranks int) []byte {
	if k == collective.Float16 || k == collective.BFloat16 || k == collective.Float32 || k == collective.Float64 {
		return encodeHalves(k, sums, ranks)
	}
	for i := range sums {
		sums[i] /= int64(ranks)
	}
	return encode(k, sums)
}

// expected is the bytes of a reduction.
func expected(k clique.Kind, op string, ranks, from, n int) []byte {
	out := folded(ranks, from, n, op)
	if op == "avg" {
		return average(k, out, ranks)
	}
	return encode(k, out)
}

// buffers makes device memory of what each list of bytes says, and frees it all in the end.
type buffers struct {
	ctx  context.Context
	list []*mem.Buffer
}

func (b *buffers) of(data []byte) (*mem.Buffer, error) {
	d, err := ncclBuffer(b.ctx, data)
	if d != nil {
		b.list = append(b.list, d)
	}
	return d, err
}

func (b *buffers) free() {
	for _, d := range b.list {
		d.Release()
	}
}

func reductions(ctx context.Context, r *clique.Rank, k clique.Kind, op string, n, root int) error {
	name := func(what string) string { return fmt.Sprintf("%s %s of %d, root %d", what, op, n, root) }
	bufs := &buffers{ctx: ctx}
	defer bufs.free()
	rank, size, es := r.Rank(), r.Size(), k.Size()
	o := opFor(op, k, rank)
	mine := encode(k, values(rank, 0, n))
	send, err := bufs.of(mine)
	if err != nil {
		return err
	}
	recv, err := bufs.of(make([]byte, n*es))
	if err != nil {
		return err
	}
	var errs []error
	check := func(what string, b *mem.Buffer, want []byte) {
		got, err := ncclBytes(ctx, b)
		if err == nil {
			err = differs(name(what), k, got, want)
		}
		errs = append(errs, err)
	}
	want := expected(k, op, size, 0, n)
	if err := r.Do(ctx, kinds[k].AllReduce(send, recv, o)); err != nil {
		return fmt.Errorf("%s of %v: %w", name("AllReduce"), k, err)
	}
	check("AllReduce", recv, want)
	check("AllReduce's send", send, mine)
	if err := r.Do(ctx, kinds[k].Reduce(send, recv, o, root)); err != nil {
		return fmt.Errorf("%s of %v: %w", name("Reduce"), k, err)
	}
	if rank == root {
		check("Reduce", recv, want)
	}
	q := r.Start(ctx, kinds[k].AllReduce(send, send, o)) // in place
	<-q.Done()
	if err := q.Err(); err != nil {
		return fmt.Errorf("%s of %v: %w", name("AllReduce in place"), k, err)
	}
	check("AllReduce in place", send, want)
	all, err := bufs.of(encode(k, values(rank, 0, n*size)))
	if err != nil {
		return err
	}
	if err := r.Do(ctx, kinds[k].ReduceScatter(all, recv, o)); err != nil {
		return fmt.Errorf("%s of %v: %w", name("ReduceScatter"), k, err)
	}
	check("ReduceScatter", recv, expected(k, op, size, rank*n, n))
	return errors.Join(errs...)
}
