package cuda

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Dim is the extent of a grid or a block. A zero field counts as 1.
type Dim struct{ X, Y, Z int }

// LaunchConfig specifies the number of threads of a kernel launch.
type LaunchConfig struct {
	// Grid is in blocks, Block in threads.
	Grid, Block Dim
	// SharedBytes is the dynamic shared memory of each block. Default 0, at most 48 KiB.
	SharedBytes int
}

// Arg is one parameter of a kernel, returned by In, Out, Val or Struct, or a buffer that the kernel accesses in another
// way, returned by AlsoIn or AlsoOut.
type Arg struct {
	bits   uint64
	bytes  []byte // of Struct
	buf    *mem.Buffer
	size   uint8
	write  bool
	hidden bool // not a parameter
}

// In passes the address of a buffer that the kernel only reads.
func In(b *mem.Buffer) Arg { return Arg{buf: b, bits: uint64(b.Addr()), size: 8} }

// Out passes the address of a buffer that the kernel writes, or reads and writes.
func Out(b *mem.Buffer) Arg { return Arg{buf: b, bits: uint64(b.Addr()), size: 8, write: true} }

// Val passes a value, which must have the size of the kernel's parameter: int is not accepted, as CUDA's has 32 bits
// and Go's 64. A uintptr passes an address that the caller keeps alive.
func Val[T ~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 |
	~float64](v T) Arg {
	a := Arg{size: uint8(unsafe.Sizeof(v))}
	*(*T)(unsafe.Pointer(&a.bits)) = v
	return a
}

// Struct passes a structure by value, as its bytes; the kernel's structure must have the same size and layout. The
// bytes are copied by Launch.
func Struct(b []byte) Arg { return Arg{bytes: b} }

// AlsoIn declares a buffer that the kernel reads although its address is not a parameter: it is in a Struct or in
// device memory. It is not passed to the kernel.
func AlsoIn(b *mem.Buffer) Arg { return Arg{buf: b, hidden: true} }

// AlsoOut is AlsoIn for a buffer that the kernel writes.
func AlsoOut(b *mem.Buffer) Arg { return Arg{buf: b, hidden: true, write: true} }

// maxParameterBytes is CUDA's limit for all parameters of a kernel together.
const maxParameterBytes = 4096

// launcher is the memory of one call of Launch besides the event. Pooled.
type launcher struct {
	l      cudrv.Launch
	values [maxParameterBytes]byte // aligned: behind uint64s
	waits  []uint64
	events []mem.Event // of waits, to keep them reachable
}

var launchers = sync.Pool{New: func() any { return new(launcher) }}

func (l *launcher) put() {
	clear(l.events)
	l.waits, l.events = l.waits[:0], l.events[:0]
	launchers.Put(l)
}

// Launch enqueues a kernel. The stream waits on the device for the ready events of all buffers among args; the returned
// event becomes the ready event of those that are written, and holds all of them until it is done, so that the caller
// may release them immediately. Buffers that are only read must not be written before the event is done.
//
// The number, order and sizes of the parameters are not checked: a mismatch corrupts memory or makes a later call fail
// with ErrIllegalAddress, after which this process cannot use the device any more.
func (s *Stream) Launch(f *Function, cfg LaunchConfig, args ...Arg) (*Event, error) {
	if f.module.device != s.device {
		return nil, fmt.Errorf("cuda: launch %s: kernel on device %d, stream on device %d: %w", f.name,
			f.module.device, s.device, ErrInvalidHandle)
	}
	l := launchers.Get().(*launcher)
	defer l.put()
	bufs, err := l.fill(s, f, cfg, args)
	if err != nil {
		return nil, err
	}
	e, err := s.enqueue(f.name, func(e *Event) cudrv.Result {
		l.l.Stream, l.l.Record = s.handle, e.handle
		return cudrv.LaunchKernel(s.device, &l.l, l.values[:], l.waits)
	}, bufs...)
	runtime.KeepAlive(f)
	if err != nil {
		return nil, err
	}
	for i := range args {
		if a := &args[i]; a.buf != nil && a.write {
			a.buf.SetReady(e)
		}
	}
	return e, nil
}

// fill fills in the launch and returns the buffers to hold.
func (l *launcher) fill(s *Stream, f *Function, cfg LaunchConfig, args []Arg) ([]*mem.Buffer, error) {
	bad := func(format string, values ...any) error {
		return fmt.Errorf("cuda: launch %s: %s: %w", f.name, fmt.Sprintf(format, values...), ErrInvalidValue)
	}
	grid, ok1 := cfg.Grid.native()
	block, ok2 := cfg.Block.native()
	if !ok1 || !ok2 || cfg.SharedBytes < 0 {
		return nil, bad("grid %v, block %v, %d bytes of shared memory", cfg.Grid, cfg.Block, cfg.SharedBytes)
	}
	if n := uint64(block[0]) * uint64(block[1]) * uint64(block[2]); f.info.MaxThreads > 0 &&
		n > uint64(f.info.MaxThreads) {
		return nil, bad("%d threads in a block, at most %d for this kernel", n, f.info.MaxThreads)
	}
	l.l.Grid, l.l.Block, l.l.Shared, l.l.Function = grid, block, uint32(cfg.SharedBytes), f.handle
	count, at, held := 0, 0, 0
	for i := range args {
		a := &args[i]
		if a.buf != nil {
			held++
			if err := l.await(s, a); err != nil {
				return nil, err
			}
		}
		if a.hidden {
			continue
		}
		n := int(a.size)
		if n == 0 {
			n = len(a.bytes)
		}
		room := (n + 7) &^ 7 // every parameter begins at a multiple of 8
		if count == cudrv.MaxParameters || at+room > len(l.values) || n == 0 {
			return nil, bad("argument %d: at most %d parameters of %d bytes together, none of them empty", i,
				cudrv.MaxParameters, len(l.values))
		}
		if a.size > 0 {
			*(*uint64)(unsafe.Pointer(&l.values[at])) = a.bits
		} else {
			copy(l.values[at:], a.bytes)
		}
		l.l.At[count] = uint16(at)
		at += room
		count++
	}
	l.l.Parameters, l.l.Waits = uint32(count), uint32(len(l.waits))
	bufs := make([]*mem.Buffer, 0, held)
	for i := range args {
		if args[i].buf != nil {
			bufs = append(bufs, args[i].buf)
		}
	}
	return bufs, nil
}

// await makes the launch wait for a buffer's last write, unless the stream's order does.
func (l *launcher) await(s *Stream, a *Arg) error {
	if a.write {
		if err := checkWrite("launch", a.buf); err != nil {
			return err
		}
	}
	e := a.buf.Ready()
	if own, ok := e.(*Event); ok && own.RecordedOn(s) {
		return nil
	}
	h, err := pendingHandle(e)
	if err != nil || h == 0 {
		return err
	}
	l.waits, l.events = append(l.waits, h), append(l.events, e)
	return nil
}

// native returns the extent in the driver's form. The driver checks its own limits.
func (d Dim) native() (n [3]uint32, ok bool) {
	for i, v := range [3]int{d.X, d.Y, d.Z} {
		if v < 0 || v > 1<<31-1 {
			return n, false
		}
		n[i] = uint32(max(v, 1))
	}
	return n, true
}
