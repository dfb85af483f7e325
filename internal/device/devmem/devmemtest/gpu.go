// Package devmemtest provides a simulated GPU for tests on machines without one: its memory is host memory that only it
// accesses, and it counts driver calls.
package devmemtest

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/mem"
)

// GPU is a simulated device. It implements devmem.Driver. The zero value has no memory.
type GPU struct {
	// Info is the description of the device.
	Info cuda.Device
	// Total is its memory in bytes.
	Total int64
	// NoDriver, if not nil, is returned by all methods.
	NoDriver error
	// NoPin, if not nil, is returned by Pin.
	NoPin error
	// OnCopy, if not nil, is called before each copy, whose error it returns.
	OnCopy func() error

	mu       sync.Mutex // owns all below
	contexts int
	used     int64
	peak     int64
	kept     int64
	copies   int
	pinned   map[uintptr]int         // lengths by address
	memory   map[uintptr]*mem.Buffer // by address
}

var _ devmem.Driver = (*GPU)(nil)

// New returns an H200 with total bytes of memory.
func New(total int64) *GPU {
	return &GPU{Total: total, Info: cuda.Device{Name: "fake GPU", UUID: "GPU-fake", GPUUUID: "GPU-fake",
		TotalMemory: total, MemoryPools: true, ManagedMemory: true}}
}

// Used returns the allocated bytes and their maximum.
func (g *GPU) Used() (used, peak int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used, g.peak
}

// Contexts returns how often a context was requested, the number of copies, and the release threshold.
func (g *GPU) Contexts() (contexts, copies int, kept int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.contexts, g.copies, g.kept
}

// Device returns the description.
func (g *GPU) Device(int) (cuda.Device, error) { return g.Info, g.NoDriver }

// Context counts the request.
func (g *GPU) Context(int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.contexts++
	return nil
}

// Free returns the free and total memory.
func (g *GPU) Free(int) (free, total int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Total - g.used, g.Total, nil
}

// Plain returns a resource of device memory.
func (g *GPU) Plain(int) mem.Resource { return &resource{g, mem.Device} }

// Managed returns a resource of host-accessible memory.
func (g *GPU) Managed(int) mem.Resource { return &resource{g, mem.Managed} }

// Async returns a resource like Plain.
func (g *GPU) Async(devmem.Stream) mem.Resource { return &resource{g, mem.Device} }

// Pinned returns a resource of host memory.
func (g *GPU) Pinned(int) mem.Resource { return mem.NewMmap(mem.MmapConfig{}) }

// Pin records the memory.
func (g *GPU) Pin(_ int, b []byte) error {
	if g.NoPin != nil {
		return g.NoPin
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pinned == nil {
		g.pinned = map[uintptr]int{}
	}
	g.pinned[uintptr(unsafe.Pointer(unsafe.SliceData(b)))] = len(b)
	return nil
}

// Unpin removes memory that was recorded.
func (g *GPU) Unpin(_ int, b []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	if n, ok := g.pinned[at]; !ok || n != len(b) {
		return fmt.Errorf("devmemtest: %d bytes at %#x are not pinned", len(b), at)
	}
	delete(g.pinned, at)
	return nil
}

// PinnedBytes returns the size of the host memory that is pinned.
func (g *GPU) PinnedBytes() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sum int64
	for _, n := range g.pinned {
		sum += int64(n)
	}
	return sum
}

// KeepPool stores the threshold.
func (g *GPU) KeepPool(_ int, bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kept = bytes
	return nil
}

// PoolReserved returns the allocated bytes.
func (g *GPU) PoolReserved(int) int64 { used, _ := g.Used(); return used }

// Stream returns a stream whose work is complete when it is enqueued.
func (g *GPU) Stream(int) (devmem.Stream, error) { return new(stream), nil }

// Copy copies immediately.
func (g *GPU) Copy(_ devmem.Stream, dst, src *mem.Buffer) (mem.Event, error) {
	if g.OnCopy != nil {
		if err := g.OnCopy(); err != nil {
			return nil, err
		}
	}
	to, err := g.bytes(dst)
	if err != nil {
		return nil, err
	}
	from, err := g.bytes(src)
	if err != nil {
		return nil, err
	}
	if len(to) != len(from) {
		return nil, fmt.Errorf("devmemtest: copy of %d bytes to %d", len(from), len(to))
	}
	copy(to, from)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.copies++
	return nil, nil
}

// Bytes returns the content of a buffer of the device, for checks.
func (g *GPU) Bytes(b *mem.Buffer) []byte {
	out, err := g.bytes(b)
	if err != nil {
		panic(err)
	}
	return out
}

func (g *GPU) bytes(b *mem.Buffer) ([]byte, error) {
	if b.Kind() != mem.Device {
		return b.Bytes(), nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	back := g.memory[b.Region().Addr()]
	if back == nil {
		return nil, fmt.Errorf("devmemtest: %v is not allocated on this device", b)
	}
	at := b.Addr() - back.Addr()
	return back.Bytes()[at : at+uintptr(b.Len())], nil
}

type resource struct {
	g    *GPU
	kind mem.Kind
}

func (r *resource) Kind() mem.Kind { return r.kind }
func (r *resource) Device() int    { return 0 }

func (r *resource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	g := r.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used+int64(n) > g.Total {
		return nil, fmt.Errorf("devmemtest: %d bytes, and %d of %d are used: %w", n, g.used, g.Total,
			mem.ErrOutOfMemory)
	}
	back, err := mem.NewMmap(mem.MmapConfig{}).Alloc(ctx, n)
	if err != nil {
		return nil, err
	}
	g.used += int64(n)
	g.peak = max(g.peak, g.used)
	addr := back.Addr()
	if g.memory == nil {
		g.memory = map[uintptr]*mem.Buffer{}
	}
	g.memory[addr] = back
	return mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: r.kind, Device: 0, Free: func() {
		g.mu.Lock()
		g.used -= int64(n)
		delete(g.memory, addr)
		g.mu.Unlock()
		back.Release()
	}}).Buffer(), nil
}

// stream never has pending work.
type stream struct{ ends []func() }

func (s *stream) Handle() uintptr           { return 1 }
func (s *stream) Mark() (mem.Event, error)  { return done{}, nil }
func (s *stream) WaitEvent(mem.Event) error { return nil }
func (s *stream) OnClose(f func())          { s.ends = append(s.ends, f) }
func (s *stream) Close() error {
	for _, f := range s.ends {
		f()
	}
	s.ends = nil
	return nil
}

type done struct{}

func (done) Handle() uintptr            { return 1 }
func (done) Query() (bool, error)       { return true, nil }
func (done) Wait(context.Context) error { return nil }
