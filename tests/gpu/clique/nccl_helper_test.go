package clique

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// ncclAlone makes NCCL take a worker for one of another machine, so that it does not mind that
// the ranks share a GPU.
var ncclAlone = client.Func("gpu.nccl.alone", func(context.Context, int) (int, error) {
	return os.Getpid(), os.Setenv("NCCL_HOSTID", "millstream-test-"+strconv.Itoa(os.Getpid()))
})

// ncclCluster starts workers that all use the one GPU, each with a host id of its own.
func ncclCluster(t testing.TB, workers int) (*cluster.Cluster, *client.Client) {
	t.Helper()
	requireGPU(t)
	if err := nccl.Available(); err != nil {
		t.Fatal(err) // a machine with a GPU has NCCL for these tests
	}
	t.Setenv("NCCL_SOCKET_IFNAME", "lo")
	k, err := cluster.Local(testContext(t), cluster.Config{Workers: workers, Threads: 2,
		MemoryLimit: cluster.NoMemoryLimit, Logger: quiet(), Log: cluster.LogSpec{Level: "error"}})
	must(t, err)
	t.Cleanup(func() { _ = k.Close() })
	c, err := k.Client(testContext(t))
	must(t, err)
	t.Cleanup(func() {
		_ = c.Close()
	})
	must(t, c.WaitForWorkers(testContext(t), workers))
	_, err = ncclAlone.Run(testContext(t), c, 0)
	must(t, err)
	return k, c
}

// ncclForm forms a clique on NCCL that is dissolved at the end.
func ncclForm(t testing.TB, c *client.Client, opts clique.Options) *clique.Clique {
	t.Helper()
	opts.Backend, opts.Timeout = clique.NCCL, patience
	begin := time.Now()
	q, err := clique.Form(testContext(t), c, opts)
	must(t, err)
	by, why := q.Devices()
	t.Logf("%v in %v; device memory by %s: %s", q, time.Since(begin).Round(time.Millisecond), by, why)
	if by != clique.NCCL {
		t.Fatalf("device memory uses backend %q", by)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := q.Dissolve(ctx); err != nil && c.Err() == nil {
			t.Errorf("dissolve: %v", err)
		}
	})
	return q
}

// ncclBuffer is device memory with some bytes in it.
func ncclBuffer(ctx context.Context, b []byte) (*mem.Buffer, error) {
	d, err := cuda.NewDeviceResource(device).Alloc(ctx, len(b))
	if err != nil || len(b) == 0 {
		return d, err
	}
	return d, cuda.CopyFromHost(ctx, d, b)
}

// ncclBytes is what is in device memory, once it is there.
func ncclBytes(ctx context.Context, b *mem.Buffer) ([]byte, error) {
	if err := b.WaitReady(ctx); err != nil {
		return nil, err
	}
	out := make([]byte, b.Len())
	if len(out) == 0 {
		return out, nil
	}
	return out, cuda.CopyToHost(ctx, out, b)
}

// copyOn copies device memory and waits.
func copyOn(ctx context.Context, dst, src *mem.Buffer) error { return cuda.Copy(ctx, dst, src) }

// encode writes small whole numbers as elements of a kind, in this machine's order.
func encode(k clique.Kind, values []int64) []byte {
	out := make([]byte, 0, len(values)*k.Size())
	for _, v := range values {
		switch k {
		case collective.Int8, collective.Uint8:
			out = append(out, byte(v))
		case collective.Int16, collective.Uint16:
			out = binary.NativeEndian.AppendUint16(out, uint16(v))
		case collective.Float16:
			out = binary.NativeEndian.AppendUint16(out, uint16(elem.ToF16(float32(v))))
		case collective.BFloat16:
			out = binary.NativeEndian.AppendUint16(out, uint16(elem.ToBF16(float32(v))))
		case collective.Int32, collective.Uint32:
			out = binary.NativeEndian.AppendUint32(out, uint32(v))
		case collective.Float32:
			out = binary.NativeEndian.AppendUint32(out, math.Float32bits(float32(v)))
		case collective.Float64:
			out = binary.NativeEndian.AppendUint64(out, math.Float64bits(float64(v)))
		default:
			out = binary.NativeEndian.AppendUint64(out, uint64(v))
		}
	}
	return out
}

// value is element i of a rank: small enough for the products of nine ranks in any kind but the
// smallest, whose tests have two ranks.
func value(rank, i int) int64 { return int64((rank*7+i*3)%3) + 1 }

func values(rank, from, n int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = value(rank, from+i)
	}
	return out
}

// folded is the plain, sequential reduction of all ranks' elements. Averages of those are whole
// only for even sums, which the callers see to by doubling.
func folded(ranks, from, n int, op string) []int64 {
	out := values(0, from, n)
	for i := range out {
		if op == "premulsum" {
			out[i] *= 2
		}
		for r := 1; r < ranks; r++ {
			v := value(r, from+i)
			switch op {
			case "sum", "avg":
				out[i] += v
			case "prod":
				out[i] *= v
			case "min":
				out[i] = min(out[i], v)
			case "max":
				out[i] = max(out[i], v)
			case "premulsum":
				out[i] += v * int64(r+2)
			}
		}
	}
	return out
}

// differs says where two pieces of memory differ.
func differs(what string, k clique.Kind, got, want []byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s of %v: %d bytes, want %d", what, k, len(got), len(want))
	}
	es := k.Size()
	for i := 0; i < len(got); i += es {
		if string(got[i:i+es]) != string(want[i:i+es]) {
			return fmt.Errorf("%s of %v: element %d of %d is % x, want % x", what, k, i/es, len(got)/es, got[i:i+es],
				want[i:i+es])
		}
	}
	return nil
}

// ncclTogether undoes ncclAlone.
var ncclTogether = client.Func("gpu.nccl.together", func(context.Context, int) (int, error) {
	return 0, os.Unsetenv("NCCL_HOSTID")
})
