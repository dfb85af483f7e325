package poolbench

import (
	"fmt"
	"time"

	"go.millstream.dev/bench/internal/options"
)

// Bench is the name of the benchmark in figures.
const Bench = "pool"

// Kinds of memory of the pool.
const (
	// MemHost is mapped host memory, which needs no GPU.
	MemHost = "host"
	// MemCUDA is GPU memory.
	MemCUDA = "cuda"
)

// MemNames are the kinds of memory.
var MemNames = []string{MemHost, MemCUDA}

// Names of the cases.
const (
	// CaseAlloc measures Pool.Alloc and Buffer.Release.
	CaseAlloc = "alloc-free"
	// CaseStream measures Pool.AllocOn in the order of a stream and Buffer.Release.
	CaseStream = "alloc-free-on-stream"
)

// CaseNames are the names of the cases.
var CaseNames = []string{CaseAlloc, CaseStream}

// PeerNames are the Python allocators to compare with, all of device memory.
var PeerNames = []string{"rmm-pool", "cuda-async", "cuda-malloc"}

// Options specify what Run measures. Zero values select defaults.
type Options struct {
	// Cases are the names of the cases (default all).
	Cases []string
	// Mem is the memory of the pool (default cuda).
	Mem string
	// Sizes are the sizes of a buffer in bytes (default 1 MiB).
	Sizes []int64
	// Quick selects fewer and shorter rounds.
	Quick bool
	// Rounds is the number of rounds, of which the best counts (default 5, quick 2).
	Rounds int
	// RoundTime is the duration of one round (default 200 ms, quick 50 ms).
	RoundTime time.Duration
	// Device is the number of the GPU (default 0).
	Device int
}

// Complete sets the defaults and checks all names.
func (o *Options) Complete() error {
	if err := options.Choose("case", &o.Cases, CaseNames, CaseNames); err != nil {
		return err
	}
	if o.Mem == "" {
		o.Mem = MemCUDA
	}
	if err := options.Known("memory", []string{o.Mem}, MemNames); err != nil {
		return err
	}
	if err := options.Sizes(&o.Sizes, 1, maxSize, 1<<20); err != nil {
		return err
	}
	rounds := options.Number[int]{What: "rounds", Value: &o.Rounds, Full: 5, Quick: 2}
	if err := options.Positive(o.Quick, rounds); err != nil {
		return err
	}
	if o.Device < 0 {
		return fmt.Errorf("device %d is negative", o.Device)
	}
	return options.Positive(o.Quick, options.Number[time.Duration]{What: "duration of a round", Value: &o.RoundTime,
		Full: 200 * time.Millisecond, Quick: 50 * time.Millisecond})
}

// maxSize bounds the pool, which has the size of four buffers, for small GPUs.
const maxSize = 1 << 30

// jobs returns the case and size of each figure. Host memory has no streams.
func (o *Options) jobs() (jobs []command) {
	for _, c := range o.Cases {
		if c == CaseStream && o.Mem == MemHost {
			continue
		}
		for _, n := range o.Sizes {
			jobs = append(jobs, command{Case: c, Mem: o.Mem, Device: o.Device, Size: n})
		}
	}
	return jobs
}
