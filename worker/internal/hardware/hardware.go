// Package hardware measures disk, memory and network of a worker, for Client.benchmark_hardware and the page /hardware
// of the dashboard.
package hardware

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// sizeTime is the duration of the measurement of each size. The sizes are those of Dask, because the replies of all
// workers are averaged; the duration is shorter.
const sizeTime = 200 * time.Millisecond

// maxBytes bounds the bytes written for one size, to limit the wear of disks.
const maxBytes = 256 << 20

type size struct {
	name  string
	bytes int
}

var (
	diskSizes = []size{
		{"1 kiB", 1 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20}, {"100 MiB", 100 << 20}}
	memorySizes = []size{
		{"2 kiB", 2 << 10}, {"10 kiB", 10 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20}}
	networkSizes = []size{
		{"1 kiB", 1 << 10}, {"10 kiB", 10 << 10}, {"100 kiB", 100 << 10}, {"1 MiB", 1 << 20}, {"10 MiB", 10 << 20},
		{"50 MiB", 50 << 20}}
)

// measure repeats an operation on random bytes and returns the bytes per second for each size. op returns the number of
// bytes that it moved.
func measure(ctx context.Context, sizes []size, op func(data []byte) (int, error)) (msgpack.Map, error) {
	out := make(msgpack.Map, 0, len(sizes))
	for _, s := range sizes {
		data := make([]byte, s.bytes)
		_, _ = rand.Read(data)
		begun, total := time.Now(), 0
		for n := 0; n == 0 || time.Since(begun) < sizeTime && total < maxBytes; n++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			moved, err := op(data)
			if err != nil {
				return nil, err
			}
			total += moved
		}
		out = append(out, msgpack.Pair{Key: s.name, Value: float64(total) / time.Since(begun).Seconds()})
	}
	return out, nil
}

// Disk measures synced writes to a file in dir.
func Disk(ctx context.Context, dir string) (msgpack.Map, error) {
	f, err := os.CreateTemp(dir, "benchmark-*")
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

// Memory measures copies within the memory of the process.
func Memory(ctx context.Context) (msgpack.Map, error) {
	to := make([]byte, memorySizes[len(memorySizes)-1].bytes)
	return measure(ctx, memorySizes, func(data []byte) (int, error) { return copy(to, data), nil })
}

// Network measures echo, which sends data to a peer and reads it back.
func Network(ctx context.Context, echo func(data []byte) error) (msgpack.Map, error) {
	return measure(ctx, networkSizes, func(data []byte) (int, error) { return 2 * len(data), echo(data) })
}
