package cuda

import (
	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
)

// The driver is not opened here; comms that stage GPU memory request its streams.
func init() {
	copier.Register(openCopier)
	copier.RegisterToHost(CopyToHost)
	copier.RegisterSharing(&copier.Sharing{UUID: deviceUUID, Export: exportBytes, Open: openBytes})
}

// deviceUUID returns the UUID of a device or MIG instance.
func deviceUUID(device int) (string, error) {
	d, err := DeviceByOrdinal(device)
	return d.UUID, err
}

// exportBytes is ExportMem with an encoded handle.
func exportBytes(b *mem.Buffer) ([]byte, error) {
	h, err := ExportMem(b)
	if err != nil {
		return nil, err
	}
	return h.MarshalBinary()
}

// openBytes is OpenMem with an encoded handle.
func openBytes(device int, handle []byte) (*mem.Buffer, error) {
	var h MemHandle
	if err := h.UnmarshalBinary(handle); err != nil {
		return nil, err
	}
	return OpenMem(device, h)
}

// copyStream adapts a Stream to copier.Copier, whose events are interfaces.
type copyStream struct{ *Stream }

func (s copyStream) Copy(dst, src *mem.Buffer) (mem.Event, error) {
	e, err := s.Stream.Copy(dst, src)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// openCopier creates two streams on a device.
func openCopier(device int) (copier.Device, error) {
	down, err := NewStream(device, StreamConfig{})
	if err != nil {
		return copier.Device{}, err
	}
	up, err := NewStream(device, StreamConfig{})
	if err != nil {
		_ = down.Close()
		return copier.Device{}, err
	}
	return copier.Device{Down: copyStream{down}, Up: copyStream{up}, Pinned: NewPinnedResource(device)}, nil
}
