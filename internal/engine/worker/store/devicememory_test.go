package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/device/devmem/devmemtest"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

const buffer = 64 << 10

// limited returns a store on a GPU of 100 buffers, with a limit in buffers.
func limited(t *testing.T, limit int64, cfg Config) (*Store, *DeviceMemory, *devmemtest.GPU) {
	t.Helper()
	g := devmemtest.New(100 * buffer)
	m, err := devmem.OpenWith(devmem.Config{}, g)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := NewDeviceMemory(m.Resource(), limit*buffer)
	if err != nil {
		t.Fatal(err)
	}
	up := func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) { return m.Up(ctx, memory, b) }
	cfg.Device = &DeviceConfig{Tier: &FrameTier{Down: m.Down, Up: up}, Limit: limit * buffer, Memory: memory}
	cfg.Dir = t.TempDir()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), m.Close()); err != nil {
			t.Error(err)
		}
		if used, _ := g.Used(); used != 0 || memory.Used() != 0 {
			t.Errorf("got %d bytes left on the GPU, %d counted, want 0", used, memory.Used())
		}
	})
	return s, memory, g
}

func onGPU(t testing.TB, g *devmemtest.GPU, memory *DeviceMemory, fill byte) *task.Value {
	b, err := memory.Alloc(context.Background(), buffer)
	if err != nil {
		t.Error(err)
		return task.NewValue(nil)
	}
	data := g.Bytes(b)
	for i := range data {
		data[i] = fill
	}
	return task.NewValue(&wire.DeviceArray{DType: wire.Uint8, Shape: []int{buffer}, Frame: wire.BufferFrame(b)})
}

// Results of three times the limit are kept, in host memory and on disk, and the GPU never has more than the limit.
func TestDeviceMemoryLimit(t *testing.T) {
	for _, threads := range []int{1, 4} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			s, memory, g := limited(t, 10, Config{Target: 10 * buffer})
			var all sync.WaitGroup
			for thread := range threads {
				all.Go(func() {
					for i := thread; i < 30; i += threads {
						v := onGPU(t, g, memory, byte(i))
						if err := s.MakeRoomFor(t.Context(), v, buffer); err != nil {
							t.Error(err)
						}
						s.Put(task.Key(fmt.Sprint(i)), v, buffer)
					}
				})
			}
			all.Wait()
			if s.Memory() == 0 {
				t.Error("got no result in host memory")
			}
			if err := s.MakeRoom(t.Context(), 0); err != nil || s.Spilled().Keys == 0 {
				t.Errorf("%v, %+v", err, s.Spilled())
			}
			for round := range 2 {
				for thread := range threads {
					all.Go(func() {
						for i := thread; i < 30; i += threads {
							e := s.Hold(task.Key(fmt.Sprint(i)))
							v, err := e.Open()
							if err != nil {
								t.Errorf("round %d: %v", round, err)
								s.Release(e)
								continue
							}
							frames, err := v.Retained()
							if err != nil {
								t.Error(err)
							} else if data := g.Bytes(frames.Frames[0].Buffer()); data[0] != byte(i) ||
								data[buffer-1] != byte(i) {
								t.Errorf("result %d: got %d and %d", i, data[0], data[buffer-1])
							}
							frames.Release()
							s.Release(e)
						}
					})
				}
				all.Wait()
			}
			// A result that is being freed is removed from the count before the driver frees it: at most one buffer for
			// each allocating goroutine.
			if _, peak := g.Used(); peak > int64(10+threads)*buffer {
				t.Errorf("got a peak of %d bytes on the GPU", peak)
			}
			if memory.Peak() > 10*buffer {
				t.Errorf("got a counted peak of %d bytes", memory.Peak())
			}
			for i := range 30 {
				s.Delete(task.Key(fmt.Sprint(i)))
			}
			if s.OnDevice() != 0 {
				t.Errorf("%d bytes of results", s.OnDevice())
			}
		})
	}
}

// Without a limit results are moved when the device is out of memory, and held results stay.
func TestDeviceMemoryRunsOut(t *testing.T) {
	s, memory, g := limited(t, 0, Config{})
	for i := range 150 {
		s.Put(task.Key(fmt.Sprint(i)), onGPU(t, g, memory, byte(i)), buffer)
	}
	if s.Len() != 150 || s.OnDevice() != 100*buffer || s.Memory() != 50*buffer {
		t.Errorf("%d results, %d bytes on the device, %d in memory", s.Len(), s.OnDevice(), s.Memory())
	}
	var held []*Entry
	for i := 50; i < 150; i++ {
		held = append(held, s.Hold(task.Key(fmt.Sprint(i))))
	}
	if _, err := memory.Alloc(t.Context(), buffer); !errors.Is(err, mem.ErrOutOfMemory) {
		t.Errorf("with all in use: %v", err)
	}
	s.ReleaseAll(held)
}

// Above the limit, if no result can be moved, the allocation is made nevertheless.
func TestDeviceMemoryInUse(t *testing.T) {
	s, memory, g := limited(t, 2, Config{})
	var held []*Entry
	for i := range 5 {
		k := task.Key(fmt.Sprint(i))
		s.Put(k, onGPU(t, g, memory, 1), buffer)
		e := s.Hold(k)
		if _, err := e.Open(); err != nil { // it may have been moved before it was held
			t.Fatal(err)
		}
		held = append(held, e)
	}
	if memory.Used() != 5*buffer {
		t.Errorf("%d bytes", memory.Used())
	}
	s.ReleaseAll(held)
	s.Put("next", onGPU(t, g, memory, 1), buffer)
	if memory.Used() > 2*buffer {
		t.Errorf("got %d bytes after the release", memory.Used())
	}
}

// An allocation waits for a result that is being moved to the host, and for its own context.
func TestDeviceMemoryWaitsForMoves(t *testing.T) {
	s, memory, g := limited(t, 1, Config{})
	gate := make(chan struct{})
	tier := s.dev.cfg.Tier.(*FrameTier)
	down := tier.Down
	began := make(chan struct{}, 10)
	tier.Down = func(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) {
		began <- struct{}{}
		<-gate
		return down(ctx, b)
	}
	s.Put("first", onGPU(t, g, memory, 1), buffer)
	moved := make(chan int64, 1)
	go func() { moved <- s.EvictDevice() }()
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if b, err := memory.Alloc(ctx, buffer); err == nil { // tried nevertheless: the GPU has room
		b.Release()
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	got := make(chan *mem.Buffer, 1)
	go func() {
		b, err := memory.Alloc(t.Context(), buffer)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	close(gate)
	(<-got).Release()
	if <-moved != buffer || memory.Peak() > 2*buffer {
		t.Errorf("peak %d", memory.Peak())
	}
}

func TestDeviceMemoryWithoutStore(t *testing.T) {
	if _, err := NewDeviceMemory(nil, 0); err == nil {
		t.Error("without a resource")
	}
	if _, err := NewDeviceMemory(mem.Heap, -1); err == nil {
		t.Error("with a negative limit")
	}
	d, err := NewDeviceMemory(mem.Heap, 10)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(t.Context(), 100)
	if err != nil || d.Used() != 100 || d.Limit() != 10 || d.Kind() != mem.Host || d.Device() != -1 {
		t.Errorf("%v, %d bytes", err, d.Used())
	}
	b.Release()
	if _, err := d.Alloc(t.Context(), -1); err == nil || d.Used() != 0 {
		t.Errorf("%v, %d bytes", err, d.Used())
	}
}
