package poolbench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
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
	// Rounds of which the best counts; default 5.
	Rounds int
	// RoundTime is how long one round takes; default 200 ms.
	RoundTime time.Duration
	// Device is the GPU's number; default 0.
	Device int
}

// Complete fills in the defaults and checks every name.
func (o *Options) Complete() error {
	if len(o.Cases) == 0 {
		o.Cases = CaseNames
	}
	if o.Mem == "" {
		o.Mem = MemCUDA
	}
	if len(o.Sizes) == 0 {
		o.Sizes = []int64{1 << 20}
	}
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.RoundTime == 0 {
		o.RoundTime = 200 * time.Millisecond
	}
	for _, c := range o.Cases {
		if !slices.Contains(CaseNames, c) {
			return fmt.Errorf("unknown case %q; there are %s", c, strings.Join(CaseNames, ", "))
		}
	}
	if !slices.Contains(MemNames, o.Mem) {
		return fmt.Errorf("unknown memory %q; there are %s", o.Mem, strings.Join(MemNames, ", "))
	}
	if o.Rounds < 1 || o.RoundTime <= 0 || o.Device < 0 {
		return errors.New("rounds, the time of a round and the device must be positive")
	}
	for _, n := range o.Sizes {
		if n < 1 || n > maxSize {
			return fmt.Errorf("size %s: want 1 B to %s", benchfmt.FormatSize(n), benchfmt.FormatSize(maxSize))
		}
	}
	return nil
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
