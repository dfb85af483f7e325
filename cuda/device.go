package cuda

import (
	"encoding/hex"
	"fmt"

	"go.millstream.dev/internal/device/cudrv"
)

// Device describes one GPU, or one MIG instance of a GPU, that is visible to this process. The other functions of this
// package identify a device by its Ordinal, which CUDA_VISIBLE_DEVICES determines.
type Device struct {
	Ordinal int
	Name    string
	// UUID is the identifier that nvidia-smi -L prints and CUDA_VISIBLE_DEVICES accepts: "GPU-…" or, for a MIG
	// instance, "MIG-…".
	UUID string
	// MIG reports whether the device is a MIG instance; GPUUUID is then the GPU it belongs to. Otherwise GPUUUID equals
	// UUID.
	MIG     bool
	GPUUUID string
	// PCIBusID is domain:bus:device.function, such as "0000:3b:00.0".
	PCIBusID string
	// TotalMemory is in bytes. FreeMemory is -1 if this process has no context on the device, since the query would
	// create one; MemoryInfo does.
	TotalMemory, FreeMemory int64
	// Major and Minor are the compute capability, such as 9 and 0.
	Major, Minor    int
	Multiprocessors int
	// NUMANode is the closest NUMA node of host memory, -1 if unknown.
	NUMANode int
	// Integrated reports whether the GPU shares its memory with the CPU.
	Integrated bool
	// UnifiedAddressing reports whether the GPU shares an address space with the CPU. Copies require it.
	UnifiedAddressing bool
	// ManagedMemory reports whether NewManagedResource works, ConcurrentManagedAccess whether the CPU may access
	// managed memory while the GPU is busy, PageableMemoryAccess whether the GPU can access any memory of the process.
	ManagedMemory, ConcurrentManagedAccess, PageableMemoryAccess bool
	// MemoryPools reports whether NewAsyncResource works.
	MemoryPools bool
	// IPC reports whether ExportMem and Event.Export work, GPUDirectRDMA whether network cards can access the GPU's
	// memory.
	IPC, GPUDirectRDMA bool
}

// String returns "device 0: NVIDIA H200 (GPU-…, 0000:3b:00.0)".
func (d Device) String() string {
	return fmt.Sprintf("device %d: %s (%s, %s)", d.Ordinal, d.Name, d.UUID, d.PCIBusID)
}

// DeviceCount returns the number of visible devices. It creates no context.
func DeviceCount() (int, error) {
	n, r := cudrv.DeviceCount()
	return n, check("count devices", -1, r)
}

// Devices returns descriptions of all visible devices, by ordinal. It creates no context.
func Devices() ([]Device, error) {
	n, err := DeviceCount()
	if err != nil {
		return nil, err
	}
	list := make([]Device, n)
	for i := range list {
		if list[i], err = DeviceByOrdinal(i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// DeviceByOrdinal returns the description of one device. It creates no context.
func DeviceByOrdinal(device int) (Device, error) {
	i, r := cudrv.DeviceQuery(device)
	if err := check("describe", device, r); err != nil {
		return Device{}, err
	}
	d := Device{
		Ordinal: device, Name: i.Name, PCIBusID: i.PCIBusID,
		MIG: i.InstanceUUID != i.UUID, GPUUUID: uuidText("GPU-", i.UUID),
		TotalMemory: int64(i.Total), FreeMemory: -1,
		Major: i.Major, Minor: i.Minor, Multiprocessors: i.Multiprocessors, NUMANode: i.NUMANode,
		Integrated: i.Integrated, UnifiedAddressing: i.UnifiedAddressing,
		ManagedMemory: i.Managed, ConcurrentManagedAccess: i.ConcurrentManaged, PageableMemoryAccess: i.PageableAccess,
		MemoryPools: i.MemoryPools, IPC: i.IPC, GPUDirectRDMA: i.GPUDirectRDMA,
	}
	d.UUID = d.GPUUUID
	if d.MIG {
		d.UUID = uuidText("MIG-", i.InstanceUUID)
	}
	if active, r := cudrv.PrimaryActive(device); r == cudrv.Success && active {
		if free, _, r := cudrv.MemInfo(device); r == cudrv.Success {
			d.FreeMemory = int64(free)
		}
	}
	return d, nil
}

// uuidText formats 16 bytes as 8-4-4-4-12 hexadecimal digits after a prefix.
func uuidText(prefix string, u [16]byte) string {
	h := hex.EncodeToString(u[:])
	return prefix + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// MemoryInfo returns the free and total memory of a device in bytes. It creates the device's context if there is none.
func MemoryInfo(device int) (free, total int64, err error) {
	f, t, r := cudrv.MemInfo(device)
	return int64(f), int64(t), check("memory info", device, r)
}

// HasContext reports whether this process already has a primary context on the device, created by any library. It
// creates none.
func HasContext(device int) (bool, error) {
	active, r := cudrv.PrimaryActive(device)
	return active, check("context state", device, r)
}

// PrimaryContext creates the device's primary context, if there is none, and returns it (a CUcontext). It takes some
// hundred milliseconds and some hundred MiB of device memory, and lasts until the process ends. Allocating memory,
// streams and events does the same, so this call is only needed to create it early or to pass the context to another
// library.
func PrimaryContext(device int) (uintptr, error) {
	ctx, r := cudrv.RetainPrimary(device)
	return uintptr(ctx), check("primary context", device, r)
}

// SetCurrent makes the device's primary context current on the calling OS thread, for calls into other CUDA libraries;
// hold runtime.LockOSThread around both. This package itself does not need it.
func SetCurrent(device int) error { return check("set current", device, cudrv.SetCurrent(device)) }

// CanAccessPeer reports whether one device can access the memory of another directly (NVLink or PCIe peer to peer). It
// creates no context.
func CanAccessPeer(device, peer int) (bool, error) {
	yes, r := cudrv.CanAccessPeer(device, peer)
	return yes, check(fmt.Sprintf("peer access to device %d", peer), device, r)
}
