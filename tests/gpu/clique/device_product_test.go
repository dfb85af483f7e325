package clique

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
)

var (
	deviceCodes = []collective.Code{collective.AllReduce, collective.Reduce, collective.Broadcast, collective.AllGather,
		collective.AllGatherV, collective.Gather, collective.GatherV, collective.Scatter, collective.ScatterV,
		collective.ReduceScatter, collective.AllToAll, collective.AllToAllV}
	deviceOps      = []string{"sum", "prod", "min", "max", "avg", "premulsum"}
	deviceSizes    = []int{0, 1, 7, 601, 9001, 70_001} // elements: through the host, directly
	deviceSettings = []string{"shm", "ucx", "tcp"}
)

// deviceCase is one collective with everything that can vary.
type deviceCase struct {
	code  collective.Code
	kind  collective.Kind
	op    string
	n     int // elements of a part
	root  int
	ranks int
	async bool // memory that no other process can open
	index int  // of the case; its data follows from it
}

func (c deviceCase) String() string {
	return fmt.Sprintf("%v %v %s n=%d root=%d ranks=%d async=%v", c.code, c.kind, c.op, c.n, c.root, c.ranks, c.async)
}

// deviceCases are all pairs of collective and kind, with the other factors going round, so that over the settings and
// numbers of ranks every pair of anything is there.
func deviceCases(ranks, setting int) []deviceCase {
	var list []deviceCase
	for i, code := range deviceCodes {
		for j, kind := range elem.Kinds() {
			k := i + j + ranks + setting
			list = append(list, deviceCase{code: code, kind: kind, op: deviceOps[(i+2*j+setting+k/5)%len(deviceOps)],
				n:    deviceSizes[(i+j+3*setting+ranks)%len(deviceSizes)],
				root: k % ranks, ranks: ranks, async: (i*3+j+ranks)%7 == 0, index: len(list)})
		}
	}
	return list
}

func (c deviceCase) operation(rank int) collective.Op {
	switch c.op {
	case "prod":
		return collective.Prod
	case "min":
		return collective.Min
	case "max":
		return collective.Max
	case "avg":
		return collective.Avg
	case "premulsum":
		return elem.PreMulSumOf(c.kind, float64(1+rank))
	}
	return collective.Sum
}

// data is all that a rank has to give: every rank can compute every rank's.
func (c deviceCase) data(rank, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(c.index)<<8|uint64(c.ranks), uint64(rank)))
	var b []byte
	for range n {
		v := r.NormFloat64()
		switch c.kind {
		case collective.Float16:
			b = binary.NativeEndian.AppendUint16(b, uint16(elem.ToF16(float32(v))))
		case collective.BFloat16:
			b = binary.NativeEndian.AppendUint16(b, uint16(elem.ToBF16(float32(v))))
		case collective.Float32:
			b = binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(v)))
		case collective.Float64:
			b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v))
		default:
			b = binary.NativeEndian.AppendUint64(b, r.Uint64())[:len(b)+c.kind.Size()]
		}
	}
	return b
}

func (c deviceCase) counts(rank int) []int {
	counts := make([]int, c.ranks)
	for r := range counts {
		counts[r] = (c.n/c.ranks + r) * ((r + rank) % 3)
	}
	return counts
}

func total(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// reduced is the plain result of a stretch of all ranks' data, of which each has n elements.
func (c deviceCase) reduced(n, from, to int) []byte {
	es := c.kind.Size()
	var sources [][]byte
	var ops []collective.Op
	for r := range c.ranks {
		sources, ops = append(sources, c.data(r, n)[from*es:to*es]), append(ops, c.operation(r))
	}
	out := make([]byte, (to-from)*es)
	collective.FoldHost(out, sources, c.kind, ops)
	return out
}

// arguments are this rank's send, the length of its recv, the counts, and what recv must be in the end (nil: anything).
func (c deviceCase) arguments(rank int) (send []byte, recv int, counts, counts2 []int, want []byte) {
	es, n := c.kind.Size(), c.n
	root := rank == c.root
	same := func(from, count int) []byte { return c.data(from, count) }
	switch c.code {
	case collective.AllReduce:
		return same(rank, n), n * es, nil, nil, c.reduced(n, 0, n)
	case collective.Reduce:
		if !root {
			return same(rank, n), -1, nil, nil, nil
		}
		return same(rank, n), n * es, nil, nil, c.reduced(n, 0, n)
	case collective.Broadcast:
		return same(rank, n), n * es, nil, nil, same(c.root, n)
	case collective.AllGather, collective.Gather:
		for r := range c.ranks {
			want = append(want, same(r, n)...)
		}
		send, recv = same(rank, n), len(want)
	case collective.AllGatherV, collective.GatherV:
		counts = c.counts(0)
		for r := range c.ranks {
			want = append(want, same(r, counts[r])...)
		}
		send, recv = same(rank, counts[rank]), len(want)
	case collective.Scatter:
		want = same(c.root, n*c.ranks)[rank*n*es : (rank+1)*n*es]
		if root {
			send = same(c.root, n*c.ranks)
		}
		return send, n * es, nil, nil, want
	case collective.ScatterV:
		counts = c.counts(0)
		at := total(counts[:rank]) * es
		all := same(c.root, total(counts))
		if root {
			send = all
		}
		return send, counts[rank] * es, counts, nil, all[at : at+counts[rank]*es]
	case collective.ReduceScatter:
		return same(rank, n*c.ranks), n * es, nil, nil, c.reduced(n*c.ranks, rank*n, (rank+1)*n)
	case collective.AllToAll:
		for r := range c.ranks {
			want = append(want, same(r, n*c.ranks)[rank*n*es:(rank+1)*n*es]...)
		}
		return same(rank, n*c.ranks), len(want), nil, nil, want
	case collective.AllToAllV:
		counts2 = make([]int, c.ranks)
		for r := range c.ranks {
			row := c.counts(r)
			at := total(row[:rank]) * es
			want = append(want, same(r, total(row))[at:at+row[rank]*es]...)
			counts2[r] = row[rank]
		}
		counts = c.counts(rank)
		return same(rank, total(counts)), len(want), counts, counts2, want
	}
	if (c.code == collective.Gather || c.code == collective.GatherV) && !root {
		return send, -1, counts, nil, nil
	}
	return send, recv, counts, nil, want
}

// run does a case on a rank.
func (c deviceCase) run(ctx context.Context, r *deviceRank, plain, async mem.Resource) error {
	from := plain
	if c.async {
		from = async
	}
	alloc := func(n int) (*mem.Buffer, error) {
		whole, err := from.Alloc(ctx, n+64)
		if err != nil {
			return nil, err
		}
		defer whole.Release()
		at := (c.index % 3) * c.kind.Size() // not always at a multiple of 16
		return whole.Slice(at, n), nil
	}
	send, recv, counts, counts2, want := c.arguments(r.Rank())
	call := collective.Call{Code: c.code, Kind: c.kind, Op: c.operation(r.Rank()), Root: c.root, Counts: counts,
		RecvCounts: counts2,
		OnDevice:   true}
	var err error
	if send != nil {
		if call.Send.Buffer, err = alloc(len(send)); err != nil {
			return err
		}
		defer call.Send.Buffer.Release()
		if len(send) > 0 {
			if err := cuda.CopyFromHost(ctx, call.Send.Buffer, send); err != nil {
				return err
			}
		}
	}
	switch {
	case c.code == collective.Broadcast, c.code == collective.AllReduce && c.index%2 == 1:
		call.Recv = call.Send // in place
	case recv >= 0:
		if call.Recv.Buffer, err = alloc(recv); err != nil {
			return err
		}
		defer call.Recv.Buffer.Release()
	}
	if err := r.Do(ctx, call); err != nil {
		return fmt.Errorf("%v: %w", c, err)
	}
	if call.Recv.Buffer == nil || want == nil {
		return nil
	}
	got, err := ncclBytes(ctx, call.Recv.Buffer)
	if err != nil {
		return err
	}
	if string(got) != string(want) {
		for i := range want {
			if got[i] != want[i] {
				es := c.kind.Size()
				e := i / es
				return fmt.Errorf("%v: element %d of %d is %x, want %x", c, e, len(want)/es, got[e*es:(e+1)*es],
					want[e*es:(e+1)*es])
			}
		}
	}
	return nil
}

// deviceProduct does all cases of a setting.
func deviceProduct(ctx context.Context, r *deviceRank) error {
	stream, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return err
	}
	defer stream.Close()
	pool, err := mem.NewPool(cuda.NewDeviceResource(device), mem.PoolConfig{SlabBytes: 16 << 20})
	if err != nil {
		return err
	}
	for _, c := range deviceCases(r.Size(), r.order.Argument) {
		if err := c.run(ctx, r, pool, cuda.NewAsyncResource(stream)); err != nil {
			return err
		}
	}
	return nil
}

// TestGPUDeviceCollectives compares every collective on device memory, among one to four processes on one GPU, with a
// plain sequential result, bit by bit: every pair of setting, number of ranks, collective, kind, operation, size and
// root, in pooled memory and in memory that no other process can open.
func TestGPUDeviceCollectives(t *testing.T) {
	requireGPU(t)
	for i, setting := range deviceSettings {
		for ranks := 1; ranks <= 4; ranks++ {
			t.Run(fmt.Sprintf("%s of %d", setting, ranks), func(t *testing.T) {
				noErrors(t, runDeviceRanks(t, ranks, setting, "product", i))
			})
		}
	}
}

// TestDeviceCasesHaveEveryPair needs no GPU: the cases of all groups together have every pair of values of two factors.
func TestDeviceCasesHaveEveryPair(t *testing.T) {
	seen := map[[4]any]bool{}
	for setting := range deviceSettings {
		for ranks := 1; ranks <= 4; ranks++ {
			for _, c := range deviceCases(ranks, setting) {
				factors := []any{setting, ranks, c.code, c.kind, c.op, c.n, c.async}
				for f := range factors {
					for g := range f {
						seen[[4]any{f, factors[f], g, factors[g]}] = true
					}
				}
			}
		}
	}
	sizes := []int{len(deviceSettings), 4, len(deviceCodes), len(elem.Kinds()), len(deviceOps), len(deviceSizes), 2}
	want := 0
	for f := range sizes {
		for g := range f {
			want += sizes[f] * sizes[g]
		}
	}
	if len(seen) != want {
		t.Errorf("%d pairs, want %d", len(seen), want)
	}
}
