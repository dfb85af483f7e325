package peermem

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Field is the name of the field of a get_data request that has a token, and of the field of the reply that has a loan.
const Field = "millstream-memory"

const (
	// leastFrame is the length in bytes from which a frame is lent: reading a shorter one costs as much as sending it.
	leastFrame = 256 << 10
	// tokenSize is the length of a token in bytes.
	tokenSize = 16
)

// here identifies the kernel and the namespace of process IDs of this process; "" if it is unknown.
var here = sync.OnceValue(func() string { return hostid.In("pid") })

// token is a copy of the token of a request, at an address that the reader knows.
type token [2]atomic.Uint64

// Loan is memory that a peer reads. Return ends it.
type Loan struct {
	token  *token
	frames []wire.Frame // keeps their memory
	bytes  int64        // in host memory
	device int64        // in GPU memory
}

// Lend replaces large frames and frames in GPU memory of the reply m to a request by a loan, which it adds to the body.
// field and device are the fields Field and DeviceField of the request, nil for none. It waits for the last writes of
// lent GPU memory. It returns nil, and leaves m unchanged, if the peer is on another machine or in this process, or m
// has no frames that can be lent: large ones in memory of the Go heap, or ones in a pool of memory of the peer's GPU. A
// loan of GPU memory announces the table, which may be nil.
func Lend(ctx context.Context, t *Table, field, device []byte, m *wire.Message) (*Loan, error) {
	from, err := readRequest(field)
	if err != nil {
		return nil, err
	}
	var uuid string
	if device != nil {
		r := msgpack.NewReader(device)
		if uuid, err = r.ReadString(); err != nil {
			return nil, err
		}
	}
	if from.machine == "" || from.machine != here() || from.pid == int64(os.Getpid()) && !SameProcess.Load() {
		return nil, nil
	}
	l := &Loan{}
	var parts, deviceParts []byte
	onDevice := 0
	if uuid != "" {
		if deviceParts, onDevice, err = l.lendDevice(ctx, uuid, m); err != nil {
			l.release()
			return nil, err
		}
	}
	for i, f := range m.Frames {
		if i > 0 && f.Buffer() == nil && !f.CUDA() && f.Len() >= leastFrame {
			parts = appendPart(parts, part{frame: i, addr: addressOf(f.Bytes()), size: int64(f.Len())})
			l.frames = append(l.frames, f)
			l.bytes += int64(f.Len())
			m.Frames[i] = wire.HeapFrame(nil)
		}
	}
	if len(l.frames) == 0 {
		return nil, nil
	}
	l.token = new(token)
	l.token[0].Store(from.token[0])
	l.token[1].Store(from.token[1])
	o := offer{pid: os.Getpid(), token: uintptr(unsafe.Pointer(l.token))}
	if onDevice > 0 {
		o.table, o.tableID = t.place()
	}
	m.Frames[0] = wire.HeapFrame(appendLoan(m.Frames[0].Bytes(), o, parts, len(l.frames)-onDevice, deviceParts,
		onDevice))
	return l, nil
}

// Bytes returns the length of the lent frames in bytes. It is 0 for a nil Loan.
func (l *Loan) Bytes() Lent {
	if l == nil {
		return Lent{}
	}
	return Lent{Host: l.bytes, Device: l.device}
}

// Lent has the length of lent frames in bytes, by their memory.
type Lent struct{ Host, Device int64 }

// Total returns the length of all lent frames in bytes.
func (n Lent) Total() int64 { return n.Host + n.Device }

// Return ends the loan: a peer that is still reading discards what it has read. It must be called before the lent
// memory is released. It may be called on a nil Loan.
func (l *Loan) Return() {
	if l == nil {
		return
	}
	l.token[0].Store(0)
	l.token[1].Store(0)
	runtime.KeepAlive(l.frames)
	l.release()
}

// release releases the lent frames.
func (l *Loan) release() {
	for _, f := range l.frames {
		f.Release()
	}
	l.frames = nil
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// offer identifies the process of a loan and the address of its token.
type offer struct {
	pid   int
	token uintptr
	parts []part

	device  []devicePart // in GPU memory
	table   uintptr      // address of the Table; 0: none
	tableID []byte
}

// part is a lent frame: its index in the message, address and length in bytes.
type part struct {
	frame int
	addr  uintptr
	size  int64
}

var errFields = errors.New("peermem: invalid fields of a loan")

// appendLoan returns the body of a reply, a map, with a loan as its first field, and the lent GPU memory, if there is
// any, as its second one.
func appendLoan(body []byte, o offer, parts []byte, n int, device []byte, onDevice int) []byte {
	r := msgpack.NewReader(body)
	fields, err := r.ReadMapLen()
	if err != nil {
		panic("peermem: reply is not a map: " + err.Error())
	}
	fields++
	if onDevice > 0 {
		fields++
	}
	out := msgpack.AppendMapHeader(make([]byte, 0, 96+len(parts)+len(device)+len(body)), fields)
	out = msgpack.AppendString(out, Field)
	out = msgpack.AppendArrayHeader(out, 3)
	out = msgpack.AppendInt(out, int64(o.pid))
	out = msgpack.AppendUint(out, uint64(o.token))
	out = append(msgpack.AppendArrayHeader(out, n), parts...)
	if onDevice > 0 {
		out = msgpack.AppendArrayHeader(msgpack.AppendString(out, DeviceField), 3)
		out = msgpack.AppendUint(out, uint64(o.table))
		out = msgpack.AppendBytes(out, o.tableID)
		out = append(msgpack.AppendArrayHeader(out, onDevice), device...)
	}
	return append(out, body[r.Offset():]...)
}

func appendPart(dst []byte, p part) []byte {
	dst = msgpack.AppendArrayHeader(dst, 3)
	dst = msgpack.AppendInt(dst, int64(p.frame))
	dst = msgpack.AppendUint(dst, uint64(p.addr))
	return msgpack.AppendInt(dst, p.size)
}

// readLoan returns the loan in the body of a reply with a number of frames besides the body; ok is false if there is
// none.
func readLoan(body []byte, frames int) (o offer, ok bool, err error) {
	r := msgpack.NewReader(body)
	if r.Kind() != msgpack.MapKind {
		return o, false, nil
	}
	fields, err := r.ReadMapLen()
	if err != nil || fields == 0 {
		return o, false, nil // not a reply with data: its reader reports it
	}
	if name, err := r.ReadName(); err != nil || string(name) != Field {
		return o, false, nil
	}
	if err := tuple(&r, 3); err != nil {
		return o, false, err
	}
	pid, err := r.ReadInt()
	if err != nil {
		return o, false, err
	}
	at, err := r.ReadUint()
	if err != nil {
		return o, false, err
	}
	n, err := r.ReadArrayLen()
	if err == nil && n > frames {
		err = errFields
	}
	if err != nil {
		return o, false, err
	}
	o = offer{pid: int(pid), token: uintptr(at), parts: make([]part, n)}
	for i := range o.parts {
		if err := tuple(&r, 3); err != nil {
			return o, false, err
		}
		frame, err := r.ReadInt()
		if err != nil {
			return o, false, err
		}
		addr, err := r.ReadUint()
		if err != nil {
			return o, false, err
		}
		size, err := r.ReadInt()
		if err != nil {
			return o, false, err
		}
		o.parts[i] = part{frame: int(frame), addr: uintptr(addr), size: size}
	}
	if fields > 1 {
		if name, err := r.ReadName(); err == nil && string(name) == DeviceField {
			if err := readDeviceLoan(&r, &o, frames); err != nil {
				return o, false, err
			}
		}
	}
	return o, true, nil
}

// tuple reads the header of an array of n elements.
func tuple(r *msgpack.Reader, n int) error {
	k, err := r.ReadArrayLen()
	if err == nil && k != n {
		err = errFields
	}
	return err
}
