package peermem

import (
	"context"
	"crypto/rand"
	"encoding/binary"

	"go.millstream.dev/internal/device/copier"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// DeviceField is the name of the field of a get_data request that has the UUID of the reader's GPU, and of the field of
// the reply, after the loan, that has the lent frames in memory of that GPU.
const DeviceField = "millstream-gpu"

// DeviceTransport is the name of the transport of lent GPU memory in records of transfers, as UCX names it.
const DeviceTransport = "cuda_ipc"

// maxHandle is the maximum length of a handle of device memory in bytes.
const maxHandle = 256

// exported is how other processes find a region of GPU memory. It is created once for each region.
type exported struct {
	handle []byte // nil: the region cannot be exported
	uuid   string
	// serial distinguishes regions whose handles are equal, because one was freed before the other was allocated.
	serial uint64
}

type exportKey struct{}

// export returns the handle of the region of a buffer.
func export(b *mem.Buffer) *exported {
	s := copier.Share()
	r := b.Region()
	if s == nil || b.Kind() != mem.Device || r.Len() <= b.Len() {
		return &exported{} // an allocation of its own would be mapped for this transfer only: UCX has a cache for that
	}
	v, err := r.Attach(exportKey{}, func() (any, error) {
		e := &exported{}
		whole := r.Buffer()
		defer whole.Release()
		handle, err := s.Export(whole)
		if err == nil {
			e.uuid, err = s.UUID(whole.Device())
		}
		if err != nil || len(handle) > maxHandle {
			return e, nil // managed memory, or that of a pool of the driver: it is sent
		}
		var seed [8]byte
		_, _ = rand.Read(seed[:]) // never fails
		e.handle, e.serial = handle, binary.NativeEndian.Uint64(seed[:])
		return e, nil
	})
	if err != nil {
		return &exported{}
	}
	return v.(*exported)
}

// devicePart is a lent frame in GPU memory: its index in the message, the handle and the serial number of its region,
// and its range there.
type devicePart struct {
	frame        int
	handle       []byte
	serial       uint64
	offset, size int64
}

// lendDevice adds the frames of a message to the loan that are in memory of the GPU with a UUID, when their last write
// is complete, and removes them from the message. It returns their descriptions.
func (l *Loan) lendDevice(ctx context.Context, uuid string, m *wire.Message) (parts []byte, n int, err error) {
	for i, f := range m.Frames {
		if i == 0 || !f.OnDevice() || f.Len() == 0 {
			continue
		}
		b := f.Buffer()
		e := export(b)
		if e.handle == nil || e.uuid != uuid {
			continue
		}
		if err := b.WaitReady(ctx); err != nil {
			return nil, 0, err
		}
		parts = appendDevicePart(parts, devicePart{i, e.handle, e.serial, int64(b.Addr() - b.Region().Addr()),
			int64(b.Len())})
		n++
		l.frames = append(l.frames, f)
		l.device += int64(f.Len())
		m.Frames[i] = wire.HeapFrame(nil)
	}
	return parts, n, nil
}

func appendDevicePart(dst []byte, p devicePart) []byte {
	dst = msgpack.AppendArrayHeader(dst, 5)
	dst = msgpack.AppendInt(dst, int64(p.frame))
	dst = msgpack.AppendBytes(dst, p.handle)
	dst = msgpack.AppendUint(dst, p.serial)
	dst = msgpack.AppendInt(dst, p.offset)
	return msgpack.AppendInt(dst, p.size)
}

// readDeviceLoan reads the field DeviceField of a reply.
func readDeviceLoan(r *msgpack.Reader, o *offer, frames int) error {
	if err := tuple(r, 3); err != nil {
		return err
	}
	addr, err := r.ReadUint()
	if err != nil {
		return err
	}
	o.table = uintptr(addr)
	if o.tableID, err = r.ReadBytes(); err != nil {
		return err
	}
	if o.table != 0 && len(o.tableID) != idSize {
		return errFields
	}
	o.device, err = readDeviceParts(r, frames)
	return err
}

// readDeviceParts reads the lent frames in GPU memory of a reply with a number of frames besides the body.
func readDeviceParts(r *msgpack.Reader, frames int) ([]devicePart, error) {
	n, err := r.ReadArrayLen()
	if err == nil && n > frames {
		err = errFields
	}
	if err != nil {
		return nil, err
	}
	parts := make([]devicePart, n)
	for i := range parts {
		if err := readDevicePart(r, &parts[i]); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func readDevicePart(r *msgpack.Reader, p *devicePart) error {
	if err := tuple(r, 5); err != nil {
		return err
	}
	frame, err := r.ReadInt()
	if err != nil {
		return err
	}
	p.frame = int(frame)
	if p.handle, err = r.ReadBytes(); err != nil {
		return err
	}
	if len(p.handle) == 0 || len(p.handle) > maxHandle {
		return errFields
	}
	if p.serial, err = r.ReadUint(); err != nil {
		return err
	}
	if p.offset, err = r.ReadInt(); err != nil {
		return err
	}
	p.size, err = r.ReadInt()
	return err
}
