package cuda

import (
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// PointerAttributes is what the driver knows about an address.
type PointerAttributes struct {
	// Known is false for memory that CUDA did not allocate or register: ordinary host
	// memory, as far as the driver can tell.
	Known bool
	// Kind is the sort of memory; Host if not Known.
	Kind mem.Kind
	// Device is the GPU that the memory is on or was registered with, -1 if not Known.
	Device int
	// Base and Size are the allocation that the address lies in; 0 if the driver does not say.
	Base uintptr
	Size int
	// IPC: ExportMem can export it.
	IPC bool
}

// Pointer asks the driver about an address. It makes no context.
func Pointer(addr uintptr) (PointerAttributes, error) {
	i, r := cudrv.PointerQuery(uint64(addr))
	if err := check(fmt.Sprintf("attributes of %#x", addr), -1, r); err != nil {
		return PointerAttributes{}, err
	}
	a := PointerAttributes{Known: i.Type != cudrv.MemoryUnknown, Device: i.Device, Base: uintptr(i.Base),
		Size: int(i.Size), IPC: i.IPC}
	switch {
	case !a.Known:
		return PointerAttributes{Device: -1}, nil
	case i.Managed:
		a.Kind = mem.Managed
	case i.Type == cudrv.MemoryHost:
		a.Kind = mem.Pinned
	default:
		a.Kind = mem.Device
	}
	return a, nil
}

// FromPointer wraps memory that was allocated elsewhere, such as another CUDA library, without
// a copy. The driver says what kind it is and on which device; the range must lie within one
// allocation. free, which may be nil, runs when the last reference is released and the ready
// events of all views are done.
func FromPointer(addr uintptr, n int, free func()) (*mem.Buffer, error) {
	if n < 0 || addr == 0 && n > 0 {
		return nil, fmt.Errorf("cuda: wrap %d bytes at %#x: not a range of memory", n, addr)
	}
	a, err := Pointer(addr)
	if err != nil {
		return nil, err
	}
	if !a.Known {
		return nil, fmt.Errorf("cuda: wrap %d bytes at %#x: CUDA does not know this address: %w", n, addr,
			ErrInvalidValue)
	}
	if a.Size > 0 && (addr < a.Base || uint64(n) > uint64(a.Base)+uint64(a.Size)-uint64(addr)) {
		return nil, fmt.Errorf("cuda: wrap %d bytes at %#x: the allocation is %d bytes at %#x: %w", n, addr, a.Size,
			a.Base, ErrInvalidValue)
	}
	return mem.NewRegion(mem.RegionConfig{
		Addr: addr, Len: n, Kind: a.Kind, Device: a.Device,
		FreeAfter: func(pending []mem.Event) {
			if free != nil {
				freeAfter(pending, free)
			}
		},
	}).Buffer(), nil
}
