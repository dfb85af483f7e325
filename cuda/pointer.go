package cuda

import (
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// PointerAttributes are the driver's attributes of an address.
type PointerAttributes struct {
	// Known is false for memory that CUDA did not allocate or register, such as ordinary host memory.
	Known bool
	// Kind is the kind of memory; Host if not Known.
	Kind mem.Kind
	// Device is the GPU that the memory is on or was registered with, -1 if not Known.
	Device int
	// Base and Size are the allocation that contains the address; 0 if unknown.
	Base uintptr
	Size int
	// IPC reports whether ExportMem can export the memory.
	IPC bool
}

// Pointer returns the driver's attributes of an address. It creates no context.
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

// FromPointer wraps memory that was allocated elsewhere, such as by another CUDA library, without a copy. Its kind and
// device are queried from the driver; the range must be within one allocation. free, which may be nil, runs when the
// last reference is released and the ready events of all views are done.
func FromPointer(addr uintptr, n int, free func()) (*mem.Buffer, error) {
	if n < 0 || addr == 0 && n > 0 {
		return nil, fmt.Errorf("cuda: wrap %d bytes at %#x: not a range of memory", n, addr)
	}
	a, err := Pointer(addr)
	if err != nil {
		return nil, err
	}
	if !a.Known {
		return nil, fmt.Errorf("cuda: wrap %d bytes at %#x: unknown to CUDA: %w", n, addr,
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
