package mem

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// MmapConfig configures NewMmap. The zero value is useful.
type MmapConfig struct {
	// Populate faults in every page immediately. Default: pages are faulted in on first access.
	Populate bool
	// HugePages asks for transparent huge pages (madvise). It is a hint and never fails.
	HugePages bool
	// Lock locks the pages in memory (mlock), which makes the kind Pinned. The total is bounded
	// by the locked-memory limit (ulimit -l). For memory that CUDA can copy from asynchronously
	// use cuda.NewPinnedResource.
	Lock bool
}

// NewMmap returns a Resource of anonymous private mappings: zeroed, page aligned, outside the Go heap and unmapped with
// the last reference. A transport may register the memory for its whole lifetime.
func NewMmap(cfg MmapConfig) Resource { return &mmapResource{cfg: cfg} }

type mmapResource struct{ cfg MmapConfig }

func (m *mmapResource) Kind() Kind {
	if m.cfg.Lock {
		return Pinned
	}
	return Host
}

func (m *mmapResource) Device() int { return -1 }

func (m *mmapResource) Alloc(ctx context.Context, n int) (*Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSize("mmap", n); err != nil {
		return nil, err
	}
	if n == 0 { // mmap rejects length 0
		return NewRegion(RegionConfig{Kind: m.Kind(), Device: -1}).Buffer(), nil
	}
	flags := syscall.MAP_ANON | syscall.MAP_PRIVATE
	if m.cfg.Populate {
		flags |= syscall.MAP_POPULATE
	}
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, flags)
	if err != nil {
		if errors.Is(err, syscall.ENOMEM) {
			return nil, fmt.Errorf("%w: mmap of %d bytes: %w", ErrOutOfMemory, n, err)
		}
		return nil, fmt.Errorf("mem: mmap of %d bytes: %w", n, err)
	}
	if m.cfg.HugePages {
		_ = syscall.Madvise(b, madvHugepage) // a hint: kernels without THP refuse it
	}
	if m.cfg.Lock {
		if err := syscall.Mlock(b); err != nil {
			_ = syscall.Munmap(b)
			return nil, mlockError(n, err)
		}
	}
	return NewRegion(RegionConfig{
		Addr: addrOf(b), Len: n, Kind: m.Kind(), Device: -1,
		Free: func() {
			if err := syscall.Munmap(b); err != nil {
				panic(fmt.Sprintf("mem: munmap of %d bytes: %v", n, err))
			}
		},
	}).Buffer(), nil
}

// madvHugepage is MADV_HUGEPAGE of <asm-generic/mman-common.h>.
const madvHugepage = 14

// rlimitMemlock is RLIMIT_MEMLOCK of <asm-generic/resource.h>.
const rlimitMemlock = 8

func mlockError(n int, err error) error {
	var lim syscall.Rlimit
	limit := "unknown"
	if syscall.Getrlimit(rlimitMemlock, &lim) == nil {
		limit = fmt.Sprint(lim.Cur)
	}
	if errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("%w: mlock of %d bytes: %w: the locked-memory limit is %s bytes; raise it with ulimit -l "+
			"or LimitMEMLOCK=",
			ErrOutOfMemory, n, err, limit)
	}
	return fmt.Errorf("mem: mlock of %d bytes: %w", n, err)
}
