package cuda

import (
	"fmt"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Allocation identifies the whole allocation that contains a buffer, for processes that open an allocation once and use
// many buffers in it.
type Allocation struct {
	// ID is a number that is unique among all allocations of this process, past and future.
	ID uint64
	// Handle is the handle of the whole allocation, for OpenMem in another process.
	Handle MemHandle
	// Offset is the offset of the buffer in the allocation, in bytes.
	Offset int
}

// exported caches the handles of allocations, which cost several driver calls each.
var exported struct {
	sync.Mutex
	m map[uint64]Allocation // by ID, with Offset 0
}

// ExportAllocation is ExportMem for the whole allocation that contains b. It is fast if the allocation was exported
// before.
func ExportAllocation(b *mem.Buffer) (Allocation, error) {
	addr := uint64(b.Addr())
	if b.Kind() != mem.Device {
		_, err := ExportMem(b) // returns the reason
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
		if len(exported.m) >= 1024 || exported.m == nil { // mostly of freed allocations
			exported.m = map[uint64]Allocation{}
		}
		exported.m[id] = a
		exported.Unlock()
	}
	if a.Offset = int(addr - base); a.Handle.length != size {
		return Allocation{}, fmt.Errorf("cuda: export: size of allocation %d changed to %d bytes from %d: %w", id, size,
			a.Handle.length, ErrInvalidValue)
	}
	return a, nil
}
