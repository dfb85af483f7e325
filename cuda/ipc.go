package cuda

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// MemHandle identifies device memory of one process to another process of the same host. It is a value that can be sent
// as bytes or text. A process with the handle can read and write the memory.
type MemHandle struct {
	native [64]byte // CUipcMemHandle: names the whole allocation
	uuid   [16]byte // of the device or MIG instance
	offset uint64   // of the buffer within the allocation
	length uint64
}

// The encoding: magic, version, reserved, uuid, offset, length, native handle.
const (
	handleMagic   = "MSCM"
	handleVersion = 1
	handleLen     = 4 + 1 + 3 + 16 + 8 + 8 + 64
)

// Len returns the length of the exported buffer in bytes.
func (h MemHandle) Len() int { return int(h.length) }

// UUID returns the identity of the memory's device, without the prefix "GPU-" or "MIG-".
func (h MemHandle) UUID() string { return uuidText("", h.uuid) }

// MarshalBinary returns the handle as 104 bytes for UnmarshalBinary.
func (h MemHandle) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, handleLen)
	b = append(b, handleMagic...)
	b = append(b, handleVersion, 0, 0, 0)
	b = append(b, h.uuid[:]...)
	b = binary.LittleEndian.AppendUint64(b, h.offset)
	b = binary.LittleEndian.AppendUint64(b, h.length)
	return append(b, h.native[:]...), nil
}

// UnmarshalBinary parses the output of MarshalBinary. OpenMem checks whether the handle is valid.
func (h *MemHandle) UnmarshalBinary(b []byte) error {
	if len(b) != handleLen {
		return fmt.Errorf("cuda: memory handle of %d bytes, want %d", len(b), handleLen)
	}
	if string(b[:4]) != handleMagic {
		return fmt.Errorf("cuda: memory handle begins with %q, want %q", b[:4], handleMagic)
	}
	if b[4] != handleVersion || b[5]|b[6]|b[7] != 0 {
		return fmt.Errorf("cuda: memory handle of version %d, want %d: both processes must run compatible releases",
			b[4], handleVersion)
	}
	var n MemHandle
	copy(n.uuid[:], b[8:])
	n.offset = binary.LittleEndian.Uint64(b[24:])
	n.length = binary.LittleEndian.Uint64(b[32:])
	copy(n.native[:], b[40:])
	if n.length > 1<<62 || n.offset > 1<<62 {
		return fmt.Errorf("cuda: memory handle of %d bytes at offset %d: not a range of memory", n.length, n.offset)
	}
	*h = n
	return nil
}

// MarshalText returns the binary form in base64.
func (h MemHandle) MarshalText() ([]byte, error) {
	b, err := h.MarshalBinary()
	return base64.StdEncoding.AppendEncode(nil, b), err
}

// UnmarshalText parses the output of MarshalText.
func (h *MemHandle) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("cuda: memory handle: %w", err)
	}
	return h.UnmarshalBinary(b)
}

// ExportMem returns a handle to b's memory, which must be device memory of NewDeviceResource or a pool on it. The
// caller keeps a reference to b until the other process has released the buffer of OpenMem, and waits for b.Ready (or
// shares an event) before the other process reads.
func ExportMem(b *mem.Buffer) (MemHandle, error) {
	if b.Kind() != mem.Device {
		return MemHandle{}, fmt.Errorf("cuda: export: %v memory cannot be shared between processes: use "+
			"NewDeviceResource: %w", b.Kind(), ErrNotSupported)
	}
	if b.Len() == 0 {
		return MemHandle{}, errors.New("cuda: export: empty buffer")
	}
	dev := b.Device()
	info, r := cudrv.DeviceQuery(dev)
	if err := check("export", dev, r); err != nil {
		return MemHandle{}, err
	}
	base, _, r := cudrv.AddressRange(dev, uint64(b.Addr()))
	var native [64]byte
	if r == cudrv.Success {
		native, r = cudrv.IPCGetMem(dev, base)
	}
	if err := check("export", dev, r); err != nil {
		return MemHandle{}, fmt.Errorf("%w: memory of NewAsyncResource and of virtual memory management cannot be "+
			"exported, memory of NewDeviceResource can", err)
	}
	return MemHandle{native: native, uuid: info.InstanceUUID, offset: uint64(b.Addr()) - base, length: uint64(b.Len())},
		nil
}

// OpenMem maps memory that another process exported. device is the ordinal of the GPU that will use it, or -1 for the
// GPU of the memory, which must then be visible to this process. The mapping lasts until the last reference is
// released; the exporter owns the memory.
func OpenMem(device int, h MemHandle) (*mem.Buffer, error) {
	if h.length == 0 {
		return nil, errors.New("cuda: open: empty handle")
	}
	if device < 0 {
		var err error
		if device, err = ordinalOf(h.uuid); err != nil {
			return nil, err
		}
	}
	base, r := cudrv.IPCOpenMem(device, h.native)
	if err := check("open exported memory", device, r); err != nil {
		if r == cudrv.InvalidContext {
			err = fmt.Errorf("%w: a process cannot open its own handle", err)
		}
		return nil, err
	}
	closeMem := func() { logFailure("close exported memory", device, cudrv.IPCCloseMem(device, base)) }
	// The range was sent by another process: use only the driver's values.
	start, size, r := cudrv.AddressRange(device, base)
	if err := check("open exported memory: address range", device, r); err != nil {
		closeMem()
		return nil, err
	}
	if room := start + size - base; h.offset > room || h.length > room-h.offset {
		closeMem()
		return nil, fmt.Errorf("cuda: open exported memory: handle has %d bytes at offset %d, the "+
			"allocation has %d: %w", h.length, h.offset, room, ErrInvalidValue)
	}
	return mem.NewRegion(mem.RegionConfig{
		Addr: uintptr(base + h.offset), Len: int(h.length), Kind: mem.Device, Device: device,
		FreeAfter: func(pending []mem.Event) { freeAfter(pending, closeMem) },
	}).Buffer(), nil
}

// ordinalOf returns the ordinal of the device with a UUID in this process.
func ordinalOf(uuid [16]byte) (int, error) {
	n, r := cudrv.DeviceCount()
	if err := check("open exported memory", -1, r); err != nil {
		return 0, err
	}
	for i := range n {
		if info, r := cudrv.DeviceQuery(i); r == cudrv.Success && info.InstanceUUID == uuid {
			return i, nil
		}
	}
	return 0, fmt.Errorf("cuda: open exported memory: GPU %s is not visible to this process%s: make it "+
		"visible, or pass OpenMem a device that can access it: %w", uuidText("", uuid), visible(), ErrInvalidDevice)
}

// EventHandle identifies an event of one process to another process of the same host.
type EventHandle [64]byte

// Export returns a handle to an event created with EventConfig.IPC. The caller keeps e reachable and open while another
// process uses it.
func (e *Event) Export() (EventHandle, error) {
	if err := e.open("export event"); err != nil {
		return EventHandle{}, err
	}
	if e.flags&cudrv.EventInterprocess == 0 {
		return EventHandle{}, fmt.Errorf("cuda: export event: event created without EventConfig.IPC: %w",
			ErrInvalidHandle)
	}
	h, r := cudrv.IPCGetEvent(e.device, e.handle)
	runtime.KeepAlive(e)
	return h, check("export event", e.device, r)
}

// OpenEvent opens an event that another process exported. device is the GPU it was created on.
func OpenEvent(device int, h EventHandle) (*Event, error) {
	n, r := cudrv.IPCOpenEvent(device, h)
	if err := check("open exported event", device, r); err != nil {
		return nil, err
	}
	return wrapEvent(native{n, device, cudrv.EventDisableTiming | cudrv.EventInterprocess}), nil
}
