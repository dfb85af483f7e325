package cuda

import (
	"fmt"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Allocation names the whole allocation that a buffer lies in, for processes that open an
// allocation once and reach many buffers in it.
type Allocation struct {
	// ID is a number that no other allocation of this process has, or will have.
	ID uint64
	// Handle is what OpenMem takes in another process: all of the allocation.
	Handle MemHandle
	// Offset is where the buffer begins in it, in bytes.
	Offset int
}

// exported remembers the handles of allocations, which cost several calls of the driver each.
var exported struct {
	sync.Mutex
	m map[uint64]Allocation // by ID, with Offset 0
}

// ExportAllocation is ExportMem for all of the allocation that b lies in. It is fast when the
// allocation was exported before.
func ExportAllocation(b *mem.Buffer) (Allocation, error) {
	addr := uint64(b.Addr())
	if b.Kind() != mem.Device {
		_, err := ExportMem(b) // it says what is wrong
		return Allocation{}, err
	}
	id, r := cudrv.BufferID(b.Device(), addr)
	if err := check("export", b.Device(), r); err != nil {
		return Allocation{}, err
	}
	base, size, r := cudrv.AddressRange(b.Device(), addr)
	if err := check("export", b.Device(), r); err != nil {
		return Allocation{}, err
	}
	exported.Lock()
	a, ok := exported.m[id]
	exported.Unlock()
	if !ok {
		whole := mem.NewRegion(mem.RegionConfig{Addr: uintptr(base), Len: int(size), Kind: mem.Device,
			Device: b.Device()}).Buffer()
		h, err := ExportMem(whole)
		whole.Release()
		if err != nil {
			return Allocation{}, err
		}
		a = Allocation{ID: id, Handle: h}
		exported.Lock()
		if len(exported.m) >= 1024 || exported.m == nil { // of allocations that are no more, mostly
			exported.m = map[uint64]Allocation{}
		}
		exported.m[id] = a
		exported.Unlock()
	}
	if a.Offset = int(addr - base); a.Handle.length != size {
		return Allocation{}, fmt.Errorf("cuda: export: allocation %d has %d bytes, had %d: %w", id, size,
			a.Handle.length, ErrInvalidValue)
	}
	return a, nil
}
