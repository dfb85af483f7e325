package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"go.millstream.dev/rpc"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// What Client.benchmark_hardware and the dashboard's page /hardware ask of each worker: bytes
// per second, by the size of one operation. The sizes are Dask's, as the answers of all
// workers are averaged; the time is shorter.
const hardwareTime = 200 * time.Millisecond

// maxHardware bounds the bytes of one size: a benchmark must not wear out a disk.
const maxHardware = 256 << 20

type hardwareSize struct {
	name  string
	bytes int
}

var (
	diskSizes    = []hardwareSize{{"1 kiB", 1 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20}, {"100 MiB", 100 << 20}}
	memorySizes  = []hardwareSize{{"2 kiB", 2 << 10}, {"10 kiB", 10 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20}}
	networkSizes = []hardwareSize{{"1 kiB", 1 << 10}, {"10 kiB", 10 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20}, {"50 MiB", 50 << 20}}
)

// measure repeats an operation on so many bytes, and tells how many went through per second.
func measure(ctx context.Context, sizes []hardwareSize, op func(data []byte) (int, error)) (msgpack.Map, error) {
	out := make(msgpack.Map, 0, len(sizes))
	for _, size := range sizes {
		data := make([]byte, size.bytes)
		_, _ = rand.Read(data)
		begun, total := time.Now(), 0
		for n := 0; n == 0 || time.Since(begun) < hardwareTime && total < maxHardware; n++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			moved, err := op(data)
			if err != nil {
				return nil, err
			}
			total += moved
		}
		out = append(out, msgpack.Pair{Key: size.name, Value: float64(total) / time.Since(begun).Seconds()})
	}
	return out, nil
}

func (w *Worker) benchmarkDisk(ctx context.Context, _ *rpc.Request) (any, error) {
	f, err := os.CreateTemp(w.dir, "benchmark-*")
	if err != nil {
		return nil, fmt.Errorf("worker: benchmark_disk: %w", err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	return measure(ctx, diskSizes, func(data []byte) (int, error) {
		if _, err := f.WriteAt(data, 0); err != nil {
			return 0, err
		}
		return len(data), f.Sync()
	})
}

func (w *Worker) benchmarkMemory(ctx context.Context, _ *rpc.Request) (any, error) {
	to := make([]byte, memorySizes[len(memorySizes)-1].bytes)
	return measure(ctx, memorySizes, func(data []byte) (int, error) { return copy(to, data), nil })
}

func (w *Worker) benchmarkNetwork(ctx context.Context, _ *rpc.Request, in struct {
	Address string `rpc:"address"`
}) (msgpack.Map, error) {
	address := string([]byte(in.Address))
	return measure(ctx, networkSizes, func(data []byte) (int, error) {
		m, err := w.peers.Do(ctx, address, "echo", msgpack.MapOf("op", "echo", "data", wire.Serialize{Value: data}))
		if err != nil {
			return 0, err
		}
		m.Release()
		return 2 * len(data), nil
	})
}
