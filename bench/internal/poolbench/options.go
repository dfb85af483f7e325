package poolbench

import (
	"fmt"
	"time"

	"go.millstream.dev/bench/internal/options"
)

// Bench is the name of these figures.
const Bench = "pool"

// Names of what the pool stands on.
const (
	// MemHost is mapped host memory: no GPU is needed.
	MemHost = "host"
	// MemCUDA is a GPU's memory.
	MemCUDA = "cuda"
)

// MemNames are the kinds of memory.
var MemNames = []string{MemHost, MemCUDA}

// Names of the cases.
const (
	// CaseAlloc is Pool.Alloc and Buffer.Release.
	CaseAlloc = "alloc-free"
	// CaseStream is Pool.AllocOn in the order of a stream and Buffer.Release.
	CaseStream = "alloc-free-on-stream"
)

// CaseNames are the cases.
var CaseNames = []string{CaseAlloc, CaseStream}

// PeerNames are the allocators of Python that it is compared with, all of device memory.
var PeerNames = []string{"rmm-pool", "cuda-async", "cuda-malloc"}

// Options choose what Run measures. The zero value of a field means its default.
type Options struct {
	// Cases; default all.
	Cases []string
	// Mem is what the pool stands on; default cuda.
	Mem string
	// Sizes of a buffer in bytes; default 1 MiB.
	Sizes []int64
	// Quick is fewer and shorter rounds.
	Quick bool
	// Rounds of which the best counts; default 5, quick 2.
	Rounds int
	// RoundTime is how long one round takes; default 200 ms, quick 50 ms.
	RoundTime time.Duration
	// Device is the GPU's number; default 0.
	Device int
}

// Complete fills in the defaults and checks every name.
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
		return fmt.Errorf("device %d must not be negative", o.Device)
	}
	return options.Positive(o.Quick, options.Number[time.Duration]{What: "length of a round", Value: &o.RoundTime,
		Full: 200 * time.Millisecond, Quick: 50 * time.Millisecond})
}

// maxSize keeps the pool, which is four buffers large, within a small GPU.
const maxSize = 1 << 30

// jobs are the case and size of each figure. Host memory has no streams.
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
