package collbench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
	"go.millstream.dev/nccl"
)

// On device memory the ranks are workers of a local cluster that run collectives of a clique. They share one GPU; for
// NCCL each has a different host ID.

// device is the GPU of all ranks.
const device = 0

// prepareGPU creates the CUDA context of a worker, and sets a separate NCCL host ID.
var prepareGPU = client.Func("millstream.bench.allreduce.gpu", func(_ context.Context, _ int) (int, error) {
	err := errors.Join(os.Setenv("NCCL_HOSTID", "bench-allreduce-"+strconv.Itoa(os.Getpid())),
		os.Setenv("NCCL_SOCKET_IFNAME", "lo"))
	if err != nil {
		return 0, err
	}
	_, err = cuda.PrimaryContext(device)
	return 0, err
})

// deviceRound measures all sizes on one rank. in has the time for each size in nanoseconds and the sizes; out has the
// microseconds of one call.
var deviceRound = clique.Func("millstream.bench.allreduce.device",
	func(ctx context.Context, r *clique.Rank, in []int64) ([]float64, error) {
		if len(in) == 0 {
			return nil, errors.New("missing time")
		}
		var out []float64
		for _, size := range in[1:] {
			us, err := measureDevice(ctx, r, int(size), time.Duration(in[0]))
			if err != nil {
				return nil, fmt.Errorf("%d bytes: %w", size, err)
			}
			out = append(out, us)
		}
		return out, nil
	})

// localGPU starts a cluster whose workers share the GPU.
func localGPU(ctx context.Context, ranks int) (*client.Client, func(), error) {
	k, err := cluster.Local(ctx, cluster.Config{Workers: ranks, Threads: 1, MemoryLimit: cluster.NoMemoryLimit})
	if err != nil {
		return nil, nil, err
	}
	free := func() { _ = k.Close() }
	c, err := k.Client(ctx)
	if err == nil {
		closeCluster := free
		free = func() {
			_ = c.Close()
			closeCluster()
		}
		err = c.WaitForWorkers(ctx, ranks)
	}
	if err == nil {
		_, err = prepareGPU.Run(ctx, c, 0)
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return c, free, nil
}

// OursOnDevice returns a clique on device memory.
func OursOnDevice(setting string) Competitor {
	return Competitor{Setting: setting, mem: "cuda", measure: func(ctx context.Context, o Options) ([]line, error) {
		c, free, err := localGPU(ctx, o.Ranks)
		if err != nil {
			return nil, err
		}
		defer free()
		backend := clique.UCX
		if setting == SettingNCCL {
			backend = clique.NCCL
		}
		q, err := clique.Form(ctx, c, clique.Options{Backend: backend})
		if err != nil {
			return nil, err
		}
		in := append([]int64{int64(o.RoundTime)}, o.Sizes...)
		times, err := deviceRound.RunAll(ctx, q, in)
		if err != nil {
			return nil, err
		}
		by, _ := q.Devices()
		var lines []line
		for i, us := range times[0] {
			lines = append(lines, line{o.Sizes[i], us, string(by)})
		}
		return lines, q.Dissolve(ctx)
	}}
}

// measureDevice returns the time of one all-reduce in microseconds, like measure. Calls are enqueued one after the
// other, and only the last one is waited for, as in the loop in C.
func measureDevice(ctx context.Context, r *clique.Rank, size int, d time.Duration) (float64, error) {
	res := cuda.NewDeviceResource(device)
	send, err := res.Alloc(ctx, size)
	if err != nil {
		return 0, err
	}
	defer send.Release()
	recv, err := res.Alloc(ctx, size)
	if err != nil {
		return 0, err
	}
	defer recv.Release()
	host := make([]byte, size)
	for i := 0; i < size; i += 4 {
		binary.NativeEndian.PutUint32(host[i:], math.Float32bits(float32(r.Rank()+1)))
	}
	if err := cuda.CopyFromHost(ctx, send, host); err != nil {
		return 0, err
	}
	calls := func(k int) (time.Duration, error) {
		if err := r.Do(ctx, clique.Barrier()); err != nil {
			return 0, err
		}
		begin := time.Now()
		for range k {
			if err := r.Do(ctx, clique.AllReduce(clique.Buffer[float32](send), clique.Buffer[float32](recv),
				clique.Sum)); err != nil {
				return 0, err
			}
		}
		err := recv.WaitReady(ctx)
		return time.Since(begin), err
	}
	if _, err := calls(2); err != nil {
		return 0, err
	}
	warm, err := calls(5)
	if err != nil {
		return 0, err
	}
	count := []int64{max(int64(5*float64(d)/float64(warm+1)), 3)}
	if err := r.Do(ctx, clique.Broadcast(clique.Of(count), 0)); err != nil {
		return 0, err
	}
	took, err := calls(int(count[0]))
	if err != nil {
		return 0, err
	}
	if err := checkSum(ctx, recv, host, float32(r.Size()*(r.Size()+1)/2)); err != nil {
		return 0, err
	}
	return float64(took.Nanoseconds()) / 1e3 / float64(count[0]), nil
}

// checkSum checks three elements of the result; host has space for it.
func checkSum(ctx context.Context, b *mem.Buffer, host []byte, want float32) error {
	if err := cuda.CopyToHost(ctx, host, b); err != nil {
		return err
	}
	n := len(host) / 4
	for _, i := range []int{0, n / 2, n - 1} {
		if got := math.Float32frombits(binary.NativeEndian.Uint32(host[4*i:])); got != want {
			return fmt.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	return nil
}

// initAlone measures ncclCommInit on a rank, in microseconds: the lower bound of forming a clique.
var initAlone = clique.Func("millstream.bench.allreduce.init",
	func(ctx context.Context, r *clique.Rank, _ int) (float64, error) {
		var id nccl.UniqueID
		if r.Rank() == 0 {
			var err error
			if id, err = nccl.NewUniqueID(); err != nil {
				return 0, err
			}
		}
		if err := r.Do(ctx, clique.Broadcast(clique.Of(id[:]), 0)); err != nil {
			return 0, err
		}
		begin := time.Now()
		c, err := nccl.Init(ctx, nccl.Config{Device: device}, id, r.Rank(), r.Size())
		if err != nil {
			return 0, err
		}
		took := time.Since(begin)
		return float64(took.Nanoseconds()) / 1e3, c.Shutdown(ctx)
	})
