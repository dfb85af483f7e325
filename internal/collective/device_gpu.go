package collective

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective/elem"
	"go.millstream.dev/internal/device/kernels"
	"go.millstream.dev/mem"
)

// gpu has the operations of a device that deviceCarrier needs. cudaGPU implements it for CUDA; tests of the carrier use
// host memory. All work is put on one stream, in the order of the calls.
type gpu interface {
	// process returns a unique id of this process.
	process() [16]byte
	// identity returns a unique id of the GPU, the same in all processes.
	identity() [16]byte
	device() int
	// export returns a reference to a buffer for other processes of the host.
	export(b *mem.Buffer) (bufferRef, error)
	// open maps the whole allocation of a handle from another process.
	open(handle []byte) (*mem.Buffer, error)
	// copy and fold enqueue work; they wait for the ready events of the buffers, and retain the buffers.
	copy(dst, src *mem.Buffer) (mem.Event, error)
	fold(k Kind, op elem.OpCode, f *foldCall, reads, writes []*mem.Buffer) (mem.Event, error)
	// flush waits for all enqueued work.
	flush(ctx context.Context) error
	// pinned allocates pinned host memory, for fast copies.
	pinned(ctx context.Context, n int) (*mem.Buffer, error)
	close() error
}

// thisProcess is sent to other ranks, so that ranks of the same process can detect it.
var thisProcess = func() (id [16]byte) {
	_, _ = rand.Read(id[:])
	return id
}()

// cudaGPU is a CUDA device with its own stream.
type cudaGPU struct {
	ordinal int
	id      [16]byte
	stream  *cuda.Stream
}

func openCUDA(device int) (gpu, error) {
	d, err := cuda.DeviceByOrdinal(device)
	if err != nil {
		return nil, err
	}
	s, err := cuda.NewStream(device, cuda.StreamConfig{})
	if err != nil {
		return nil, err
	}
	g := &cudaGPU{ordinal: device, stream: s}
	sum := sha256.Sum256([]byte(d.UUID))
	copy(g.id[:], sum[:])
	return g, nil
}

func (g *cudaGPU) process() [16]byte  { return thisProcess }
func (g *cudaGPU) identity() [16]byte { return g.id }
func (g *cudaGPU) device() int        { return g.ordinal }

func (g *cudaGPU) export(b *mem.Buffer) (bufferRef, error) {
	a, err := cuda.ExportAllocation(b)
	if err != nil {
		return bufferRef{}, err
	}
	w := bufferRef{id: a.ID, base: uint64(b.Addr()) - uint64(a.Offset), size: uint64(a.Handle.Len()),
		offset: uint64(a.Offset), length: uint64(b.Len())}
	h, err := a.Handle.MarshalBinary()
	copy(w.handle[:], h)
	return w, err
}

func (g *cudaGPU) open(handle []byte) (*mem.Buffer, error) {
	var h cuda.MemHandle
	if err := h.UnmarshalBinary(handle); err != nil {
		return nil, err
	}
	return cuda.OpenMem(g.ordinal, h)
}

func (g *cudaGPU) copy(dst, src *mem.Buffer) (mem.Event, error) {
	e, err := g.stream.Copy(dst, src)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (g *cudaGPU) fold(k Kind, op elem.OpCode, f *foldCall, reads, writes []*mem.Buffer) (mem.Event, error) {
	e, err := launchFold(g.stream, k, op, f, reads, writes)
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (g *cudaGPU) pinned(ctx context.Context, n int) (*mem.Buffer, error) {
	p, err := pinnedPool(g.ordinal)
	if err != nil {
		return nil, err
	}
	return p.Alloc(ctx, n)
}

// pinnedPools has the pinned memory of all carriers of a process, by device, because pinning takes milliseconds and
// groups are created often. It is kept until the process ends, like the context of the device.
var pinnedPools struct {
	sync.Mutex
	m map[int]*mem.Pool
}

func pinnedPool(device int) (*mem.Pool, error) {
	pinnedPools.Lock()
	defer pinnedPools.Unlock()
	if p := pinnedPools.m[device]; p != nil {
		return p, nil
	}
	p, err := mem.NewPool(cuda.NewPinnedResource(device), mem.PoolConfig{SlabBytes: 4 << 20})
	if err != nil {
		return nil, err
	}
	if pinnedPools.m == nil {
		pinnedPools.m = map[int]*mem.Pool{}
	}
	pinnedPools.m[device] = p
	return p, nil
}

func (g *cudaGPU) flush(ctx context.Context) error { return g.stream.Wait(ctx) }

func (g *cudaGPU) close() error { return g.stream.Close() }

// maxFold is the maximum number of sources and targets of a kernel, and so of ranks whose memory is accessed directly.
const maxFold = 64

// foldCall is the argument of the kernels in internal/device/kernels/fold.cu; it must match their fold_call.
type foldCall struct {
	count            uint64 // elements
	sources, targets uint32
	ranks            uint32 // divisor of avg
	_                uint32
	source           [maxFold]uint64
	target           [maxFold]uint64
	scale            [maxFold]uint64 // of each source, for premulsum
}

// launchFold enqueues a reduction. reads and writes are the buffers of the addresses, which it retains.
func launchFold(s *cuda.Stream, k Kind, op elem.OpCode, f *foldCall, reads, writes []*mem.Buffer) (*cuda.Event, error) {
	if !k.Valid() || op < elem.OpSum || op > elem.OpPreMulSum {
		return nil, fmt.Errorf("collective: no kernel for %v of %v", op, k)
	}
	fn, err := kernels.Function(s.Device(), "fold_"+k.String(), "fold_"+op.String())
	if err != nil {
		return nil, err
	}
	// One thread for each 16 bytes, up to the number that the device runs at once.
	const threads = 256
	work := int(f.count)*k.Size()/16 + 1
	blocks := min((work+threads-1)/threads, 16*132)
	args := make([]cuda.Arg, 0, 1+len(reads)+len(writes))
	args = append(args, cuda.Struct(unsafe.Slice((*byte)(unsafe.Pointer(f)), unsafe.Sizeof(*f))))
	for _, b := range reads {
		args = append(args, cuda.AlsoIn(b))
	}
	for _, b := range writes {
		args = append(args, cuda.AlsoOut(b))
	}
	return s.Launch(fn, cuda.LaunchConfig{Grid: cuda.Dim{X: blocks}, Block: cuda.Dim{X: threads}}, args...)
}

// FoldDevice sets dst to the reduction of the sources with op, from the left, as a collective of as many ranks would.
// PreMulSum uses the same scale for all of them. dst may be one of the sources. The work is enqueued on s.
func FoldDevice(s *cuda.Stream, dst *mem.Buffer, sources []*mem.Buffer, k Kind, op Op) (*cuda.Event, error) {
	if len(sources) == 0 || len(sources) > maxFold || !k.Valid() || !op.Valid() {
		return nil, fmt.Errorf("collective: cannot reduce %d buffers of %v with %v", len(sources), k, op)
	}
	f := foldCall{count: uint64(dst.Len() / k.Size()), sources: uint32(len(sources)), targets: 1,
		ranks: uint32(len(sources))}
	f.target[0] = uint64(dst.Addr())
	for i, b := range sources {
		if b.Len() != dst.Len() || dst.Len()%k.Size() != 0 {
			return nil, fmt.Errorf("collective: source has %d bytes of %v, destination has %d", b.Len(), k, dst.Len())
		}
		f.source[i], f.scale[i] = uint64(b.Addr()), elem.ScaleOf(op)
	}
	return launchFold(s, k, elem.CodeOf(op), &f, sources, []*mem.Buffer{dst})
}

// FoldHost is FoldDevice on host memory, with an operation for each source, because PreMulSum has a scale for each
// rank. It is the reference for tests of the kernels.
func FoldHost(dst []byte, sources [][]byte, k Kind, ops []Op) {
	if len(dst) == 0 {
		return
	}
	own := make([][]byte, len(sources))
	for i, s := range sources {
		own[i] = make([]byte, len(s))
		elem.Prepare(own[i], s, k, ops[i])
	}
	elem.FoldAll(dst, own, k, elem.CodeOf(ops[0]))
	elem.Conclude(dst, k, elem.CodeOf(ops[0]), len(sources))
}
