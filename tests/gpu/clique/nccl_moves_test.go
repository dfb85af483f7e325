package clique

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

func f16(v int) collective.F16   { return elem.ToF16(float32(v)) }
func bf16(v int) collective.BF16 { return elem.ToBF16(float32(v)) }

// encodeHalves writes averages, which may have a fraction.
func encodeHalves(k clique.Kind, sums []int64, ranks int) []byte {
	var out []byte
	for _, s := range sums {
		v := float64(s) / float64(ranks)
		switch k {
		case collective.Float16:
			out = binary.NativeEndian.AppendUint16(out, uint16(elem.ToF16(float32(v))))
		case collective.BFloat16:
			out = binary.NativeEndian.AppendUint16(out, uint16(elem.ToBF16(float32(v))))
		case collective.Float32:
			out = binary.NativeEndian.AppendUint32(out, math.Float32bits(float32(v)))
		default:
			out = binary.NativeEndian.AppendUint64(out, math.Float64bits(v))
		}
	}
	return out
}

// movements are the collectives that only copy. Parts of V forms differ in length, and one of
// them is empty.
func movements(ctx context.Context, r *clique.Rank, k clique.Kind, n, root int) error {
	rank, size, es := r.Rank(), r.Size(), k.Size()
	bufs := &buffers{ctx: ctx}
	defer bufs.free()
	var errs []error
	buf := func(data []byte) *mem.Buffer {
		b, err := bufs.of(data)
		errs = append(errs, err)
		return b
	}
	empty := func(elements int) *mem.Buffer { return buf(make([]byte, elements*es)) }
	check := func(what string, err error, b *mem.Buffer, want []byte) {
		what = fmt.Sprintf("%s of %d, root %d", what, n, root)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
			return
		}
		got, err := ncclBytes(ctx, b)
		if err == nil {
			err = differs(what, k, got, want)
		}
		errs = append(errs, err)
	}
	counts := make([]int, size) // of the V forms
	for i := range counts {
		counts[i] = n * ((i + root) % 3)
	}
	var joined, joinedV []byte // all ranks' parts
	for i := range size {
		joined = append(joined, encode(k, values(i, 0, n))...)
		joinedV = append(joinedV, encode(k, values(i, 0, counts[i]))...)
	}
	mine, mineV := buf(encode(k, values(rank, 0, n))), buf(encode(k, values(rank, 0, counts[rank])))
	if errors.Join(errs...) != nil {
		return errors.Join(errs...)
	}

	b := buf(encode(k, values(rank, 0, n)))
	check("Broadcast", r.Do(ctx, kinds[k].Broadcast(b, root)), b, encode(k, values(root, 0, n)))

	all := empty(n * size)
	check("AllGather", r.Do(ctx, kinds[k].AllGather(mine, all)), all, joined)
	allV := empty(len(joinedV) / es)
	check("AllGatherV", r.Do(ctx, kinds[k].AllGather(mineV, allV).WithCounts(counts, nil)), allV, joinedV)

	var at, atV *mem.Buffer // root's
	want, wantV := []byte(nil), []byte(nil)
	if rank == root {
		at, atV, want, wantV = empty(n*size), empty(len(joinedV)/es), joined, joinedV
	} else {
		at, atV = empty(0), empty(0)
	}
	check("Gather", r.Do(ctx, kinds[k].Gather(mine, at, root)), at, want)
	check("GatherV", r.Do(ctx, kinds[k].Gather(mineV, atV, root).WithCounts(counts, nil)), atV, wantV)

	out, outV := empty(n), empty(counts[rank])
	if rank == root {
		at, atV = buf(joined), buf(joinedV)
	}
	check("Scatter", r.Do(ctx, kinds[k].Scatter(at, out, root)), out, encode(k, values(rank, 0, n)))
	check("ScatterV", r.Do(ctx, kinds[k].Scatter(atV, outV, root).WithCounts(counts, nil)), outV,
		encode(k, values(rank, 0, counts[rank])))

	var got []byte // part i of each rank's values goes to rank i
	for i := range size {
		got = append(got, encode(k, values(i, rank*n, n))...)
	}
	all = empty(n * size)
	check("AllToAll", r.Do(ctx, kinds[k].AllToAll(buf(encode(k, values(rank, 0, n*size))), all)), all, got)

	// Rank i sends i+j+1 elements to rank j, but none to itself.
	var sends, recvs []int
	var data []byte
	got = nil
	for j := range size {
		here, there := rank+j+1, j+rank+1
		if j == rank {
			here, there = 0, 0
		}
		sends, recvs = append(sends, here), append(recvs, there)
		data = append(data, encode(k, values(rank, 10*j, here))...)
		got = append(got, encode(k, values(j, 10*rank, there))...)
	}
	all = empty(len(got) / es)
	check("AllToAllV", r.Do(ctx, kinds[k].AllToAll(buf(data), all).WithCounts(sends, recvs)), all, got)

	// In place: this rank's part is where it will be.
	place := empty(n * size)
	part := place.Slice(rank*n*es, n*es)
	defer part.Release()
	fresh := buf(encode(k, values(rank, 0, n)))
	errs = append(errs, copyOn(ctx, part, fresh))
	check("AllGather in place", r.Do(ctx, kinds[k].AllGather(part, place)), place, joined)
	return errors.Join(errs...)
}

// reducibleByNCCL: all but the integers of two bytes.
func reducibleByNCCL(k clique.Kind) bool {
	return !slices.Contains([]clique.Kind{collective.Int16, collective.Uint16}, k)
}

// ncclEvery runs every collective on a rank.
var ncclEvery = clique.Func("gpu.nccl.every", func(ctx context.Context, r *clique.Rank, _ int) (string, error) {
	err := everyCollective(ctx, r, reducibleByNCCL)
	if r.Err() != nil {
		return "", r.Err()
	}
	if err != nil {
		return err.Error(), nil // the other rank has the same to tell
	}
	return "", nil
})

// Each collective over kinds, operations and sizes gives what one process would compute.
func TestGPUNCCLCollectives(t *testing.T) {
	_, c := ncclCluster(t, 2)
	q := ncclForm(t, c, clique.Options{})
	got, err := ncclEvery.RunAll(testContext(t), q, 0)
	must(t, err)
	for rank, text := range got {
		if text != "" {
			t.Errorf("rank %d: %s", rank, text)
		}
	}
}
