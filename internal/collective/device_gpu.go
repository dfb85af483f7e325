package collective

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// gpu is what the carrier of device memory needs of a device. The real one is cudaGPU; tests of the carrier's own logic
// have one of host memory. All work goes to one stream, in the order of the calls.
type gpu interface {
	// process tells this process from all others.
	process() [16]byte
	// identity tells the GPU from all others, in all processes.
	identity() [16]byte
	device() int
	// export names a buffer to other processes of the host.
	export(b *mem.Buffer) (where, error)
	// open maps the whole allocation that another process has named.
	open(handle []byte) (*mem.Buffer, error)
	// copy and fold enqueue; they wait for the buffers' ready events, and hold the buffers.
	copy(dst, src *mem.Buffer) (mem.Event, error)
	fold(k Kind, op opCode, f *foldCall, reads, writes []*mem.Buffer) (mem.Event, error)
	// flush returns when all that was enqueued is done.
	flush(ctx context.Context) error
	// pinned allocates host memory that copies reach at full speed.
	pinned(ctx context.Context, n int) (*mem.Buffer, error)
	close() error
}

// thisProcess is told to other ranks, so that ranks of one process find out.
var thisProcess = func() (id [16]byte) {
	_, _ = rand.Read(id[:])
	return id
}()

// cudaGPU is a CUDA device with a stream of its own.
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

func (g *cudaGPU) export(b *mem.Buffer) (where, error) {
	a, err := cuda.ExportAllocation(b)
	if err != nil {
		return where{}, err
	}
	w := where{id: a.ID, base: uint64(b.Addr()) - uint64(a.Offset), size: uint64(a.Handle.Len()), offset: uint64(a.Offset), length: uint64(b.Len())}
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

func (g *cudaGPU) fold(k Kind, op opCode, f *foldCall, reads, writes []*mem.Buffer) (mem.Event, error) {
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

// pinnedPools are the pinned memory of all carriers of a process, by device: pinning takes milliseconds, and lanes come
// and go. They last as long as the process, like the device's context.
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
