package taskbench

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"go.millstream.dev/client"
)

// functionsRan counts the functions below that ran in this process.
var functionsRan atomic.Int64

// count is the report of a worker.
type count struct {
	Pid int64
	Ran int64
}

// rowsOf specifies a partition of the shuffle.
type rowsOf struct {
	Partition int64
	Rows      int64
	Seed      uint64
}

// target is an output partition, -1 for an input partition.
type target struct {
	Partition, Parts int64
}

// Functions of the benchmark. Those of Python, in bench_tasks.py, do the same.
var (
	noopFunc = client.Func("taskbench.noop", func(_ context.Context, i int64) (int64, error) {
		functionsRan.Add(1)
		return i, nil
	})
	leafFunc = client.Func("taskbench.leaf", func(_ context.Context, i int64) (int64, error) {
		functionsRan.Add(1)
		return i, nil
	})
	addFunc = client.Func2("taskbench.add", func(_ context.Context, a, b int64) (int64, error) {
		functionsRan.Add(1)
		return a + b, nil
	})
	mixFunc = client.Func2("taskbench.mix", func(_ context.Context, i int64, deps []int64) (int64, error) {
		functionsRan.Add(1)
		return mixed(i, deps), nil
	})
	// ranFunc returns how many functions ran here since the last call.
	ranFunc = client.Func("taskbench.ran", func(context.Context, int64) (count, error) {
		return count{int64(os.Getpid()), functionsRan.Swap(0)}, nil
	})
	// profileFunc starts a CPU profile of the worker, or ends it if the path is empty.
	profileFunc = client.Func("taskbench.profile", func(_ context.Context, path string) (bool, error) {
		return true, workerProfile.to(path)
	})
	blobFunc = client.Func2("taskbench.blob", func(_ context.Context, n, seed int64) ([]byte, error) {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(seed)
		}
		return b, nil
	})
	lengthFunc = client.Func("taskbench.length", func(_ context.Context, b []byte) (int64, error) {
		return int64(len(b)), nil
	})
	spinFunc = client.Func("taskbench.spin", func(ctx context.Context, s spinning) ([]float64, error) {
		return s.run(ctx)
	})
	makeFunc = client.Func("taskbench.make-rows", func(_ context.Context, r rowsOf) ([]byte, error) {
		return makeRows(r.Partition, int(r.Rows), r.Seed), nil
	})
	splitFunc = client.Func2("taskbench.split", func(_ context.Context, rows []byte, parts int64) ([][]byte, error) {
		return splitRows(rows, int(parts)), nil
	})
	pickFunc = client.Func2("taskbench.pick", func(_ context.Context, blocks [][]byte, i int64) ([]byte, error) {
		return blocks[i], nil
	})
	joinFunc = client.Func("taskbench.join", func(_ context.Context, blocks [][]byte) ([]byte, error) {
		return joinRows(blocks), nil
	})
	summarizeFunc = client.Func2("taskbench.summarize",
		func(_ context.Context, rows []byte, t target) (summary, error) {
			return summarize(rows, int(t.Partition), int(t.Parts))
		})
)

// workerProfile is used by one task at a time.
var workerProfile profile

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
