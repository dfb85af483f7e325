package devmem

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"go.millstream.dev/mem"
)

const (
	// partBytes is how much of a copy between the GPU and pinned host memory is waited for at a time. A part takes less
	// than the time for which an event is polled without a pause, so that the end of the copy is noticed at once.
	partBytes = 4 << 20
	// chunkBytes is how much is copied at a time between the GPU and other host memory, through pinned memory: while
	// the GPU copies some chunks, processors copy others.
	chunkBytes = 2 << 20
	// maxCopiers is the maximum number of goroutines that copy between pinned and ordinary memory for one move. One
	// processor copies at a fraction of the speed of PCIe, the more so if it faults in the pages.
	maxCopiers = 8
	// chunksPerCopier is the number of chunks of one move for each of its goroutines.
	chunksPerCopier = 2
)

// copiers returns the number of goroutines that copy count chunks: one processor is left to others.
func copiers(count int) int {
	return min(count, maxCopiers, max(1, runtime.GOMAXPROCS(0)-1))
}

// chunk is pinned memory of one move.
type chunk struct {
	pinned *mem.Buffer
	at, n  int       // range of the data
	event  mem.Event // of the last copy between the GPU and pinned
	err    error     // of that copy
}

// ring has the chunks of one move.
type ring struct {
	copiers int
	count   int // chunks of the data
	list    []*chunk
	free    chan *chunk // not in use
}

// ring allocates chunks for n bytes.
func (m *Memory) ring(ctx context.Context, n int) (*ring, error) {
	count := (n + chunkBytes - 1) / chunkBytes
	r := &ring{copiers: copiers(count), count: count}
	slots := min(count, r.copiers*chunksPerCopier)
	r.free = make(chan *chunk, slots)
	for range slots {
		b, err := m.pinned.Alloc(ctx, min(n, chunkBytes))
		if err != nil {
			r.release()
			return nil, fmt.Errorf("devmem: pinned memory for a copy: %w", err)
		}
		c := &chunk{pinned: b}
		r.list = append(r.list, c)
		r.free <- c
	}
	return r, nil
}

// release releases the chunks. Copies of the GPU that still run hold them.
func (r *ring) release() {
	for _, c := range r.list {
		c.pinned.Release()
	}
}

// Down returns a copy of a GPU buffer in host memory, when it is complete. The caller owns it, and keeps its reference
// to b.
func (m *Memory) Down(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) {
	out, pinned, err := m.host.alloc(ctx, b.Len())
	if err != nil {
		return nil, fmt.Errorf("devmem: host memory for %d bytes of %v: %w", b.Len(), m.device, err)
	}
	if pinned {
		err = m.copyParts(ctx, m.down, out, b)
	} else {
		err = m.download(ctx, out.Bytes(), b)
	}
	if err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// copyParts copies between GPU memory and pinned memory. After an error copies may still run, which hold the buffers.
func (m *Memory) copyParts(ctx context.Context, s Stream, dst, src *mem.Buffer) error {
	var events []mem.Event
	for at := 0; at < src.Len(); at += partBytes {
		n := min(partBytes, src.Len()-at)
		to, from := dst.Slice(at, n), src.Slice(at, n)
		e, err := m.driver.Copy(s, to, from)
		to.Release()
		from.Release()
		if err != nil {
			return fmt.Errorf("devmem: copy of %d bytes: %w", n, err)
		}
		events = append(events, e)
	}
	for _, e := range events {
		if err := wait(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// download copies src to dst. When it returns, also with an error, dst is no longer written.
func (m *Memory) download(ctx context.Context, dst []byte, src *mem.Buffer) error {
	n := src.Len()
	if n == 0 {
		return nil
	}
	r, err := m.ring(ctx, n)
	if err != nil {
		return err
	}
	defer r.release()
	full := make(chan *chunk, len(r.list))
	var running sync.WaitGroup
	defer running.Wait()
	defer close(full)
	for range r.copiers {
		running.Go(func() {
			for c := range full {
				copy(dst[c.at:c.at+c.n], c.pinned.Bytes())
				r.free <- c
			}
		})
	}
	var flight []*chunk // being copied by the GPU, in order
	for next, done := 0, 0; done < r.count; done++ {
		for next < r.count {
			c := r.take(len(flight) == 0)
			if c == nil {
				break
			}
			c.at, c.n = next*chunkBytes, min(chunkBytes, n-next*chunkBytes)
			if err := m.enqueue(c, src, true); err != nil {
				return err
			}
			flight = append(flight, c)
			next++
		}
		c := flight[0]
		flight = flight[1:]
		if err := wait(ctx, c.event); err != nil {
			return err
		}
		full <- c
	}
	return nil
}

// take returns a free chunk, nil if there is none and block is not set.
func (r *ring) take(block bool) *chunk {
	if block {
		return <-r.free
	}
	select {
	case c := <-r.free:
		return c
	default:
		return nil
	}
}

// Up returns a copy of a host buffer in GPU memory, allocated from to, when it is complete. The caller owns it, and
// keeps its reference to b.
func (m *Memory) Up(ctx context.Context, to mem.Resource, b *mem.Buffer) (*mem.Buffer, error) {
	out, err := to.Alloc(ctx, b.Len())
	if err != nil {
		return nil, err
	}
	if m.host.isPinned(b) {
		err = m.copyParts(ctx, m.up, out, b)
	} else {
		err = m.upload(ctx, out, b.Bytes())
	}
	if err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// upload copies src to dst. When it returns, also with an error, src is no longer read.
func (m *Memory) upload(ctx context.Context, dst *mem.Buffer, src []byte) error {
	n := len(src)
	if n == 0 {
		return nil
	}
	r, err := m.ring(ctx, n)
	if err != nil {
		return err
	}
	defer r.release()
	flight := make(chan *chunk, len(r.list)) // being copied by the GPU, nearly in order
	var next atomic.Int64
	var running sync.WaitGroup
	defer running.Wait()
	defer close(r.free)
	defer next.Store(int64(r.count)) // after an error no further chunk is begun
	for range r.copiers {
		running.Go(func() {
			for c := range r.free {
				i := int(next.Add(1) - 1)
				if i >= r.count {
					return
				}
				c.at, c.n = i*chunkBytes, min(chunkBytes, n-i*chunkBytes)
				copy(c.pinned.Bytes(), src[c.at:c.at+c.n])
				c.err = m.enqueue(c, dst, false)
				flight <- c
			}
		})
	}
	for range r.count {
		c := <-flight
		if c.err != nil {
			return c.err
		}
		if err := wait(ctx, c.event); err != nil {
			return err
		}
		r.free <- c
	}
	return nil
}

// enqueue copies the range of a chunk from or to GPU memory.
func (m *Memory) enqueue(c *chunk, device *mem.Buffer, down bool) error {
	part, pinned := device.Slice(c.at, c.n), c.pinned.Slice(0, c.n)
	defer part.Release()
	defer pinned.Release()
	dst, src, s := pinned, part, m.down
	if !down {
		dst, src, s = part, pinned, m.up
	}
	e, err := m.driver.Copy(s, dst, src)
	if err != nil {
		return fmt.Errorf("devmem: copy of %d bytes: %w", c.n, err)
	}
	c.event = e
	return nil
}
