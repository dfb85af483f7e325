package stagetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/mem"
)

// Sharing simulates memory of the device that processes share, within this process: a handle is an address.
type Sharing struct {
	// Refuse, if not nil, is returned by each attempt to map memory.
	Refuse error

	mapped, opened atomic.Int64
}

// Mapped returns the number of regions that are mapped, Opened how often one was.
func (s *Sharing) Mapped() int64 { return s.mapped.Load() }

// Opened returns how often a region was mapped.
func (s *Sharing) Opened() int64 { return s.opened.Load() }

// Share registers the device as the GPU of this process, until the test ends: its copies, and a Sharing. No other test
// of the process may use another one at the same time.
func (d *Device) Share(t testing.TB) *Sharing {
	t.Helper()
	s := &Sharing{}
	before := copier.Share()
	copier.Register(func(device int) (copier.Device, error) {
		if device != d.ordinal {
			return copier.Device{}, fmt.Errorf("stagetest: no device %d", device)
		}
		return copier.Device{Down: d.Queue(), Up: d.Queue(), Pinned: d.Pinned()}, nil
	})
	copier.RegisterSharing(&copier.Sharing{
		UUID:   func(device int) (string, error) { return fmt.Sprintf("GPU-%d", device), nil },
		Export: exportMemory,
		Open: func(device int, handle []byte) (*mem.Buffer, error) {
			if s.Refuse != nil {
				return nil, s.Refuse
			}
			return s.open(device, handle)
		},
	})
	t.Cleanup(func() { copier.RegisterSharing(before) })
	return s
}

// exportMemory returns the address and the length of a buffer.
func exportMemory(b *mem.Buffer) ([]byte, error) {
	handle := binary.NativeEndian.AppendUint64(nil, uint64(b.Addr()))
	return binary.NativeEndian.AppendUint64(handle, uint64(b.Len())), nil
}

func (s *Sharing) open(device int, handle []byte) (*mem.Buffer, error) {
	if len(handle) != 16 {
		return nil, errors.New("stagetest: invalid handle")
	}
	s.mapped.Add(1)
	s.opened.Add(1)
	return mem.NewRegion(mem.RegionConfig{Addr: uintptr(binary.NativeEndian.Uint64(handle)),
		Len: int(binary.NativeEndian.Uint64(handle[8:])), Kind: mem.Device, Device: device,
		Free: func() { s.mapped.Add(-1) }}).Buffer(), nil
}
