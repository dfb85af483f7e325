package devmem

import (
	"context"
	"fmt"

	"go.millstream.dev/mem"
)

// chunkBytes is how much is copied at a time between the GPU and ordinary host memory, through pinned memory: while the
// GPU copies one chunk, the processor copies the previous one.
const chunkBytes = 4 << 20

// chunks is the number of chunks of one move.
const chunks = 2

// host allocates the memory for data of the GPU: outside Go's heap, so that it is freed with the last reference and not
// by the garbage collector.
var host = mem.NewMmap(mem.MmapConfig{HugePages: true}) // fewer page faults, which cost more than the copy

// ring are the pinned chunks of one move. It has one owner.
type ring struct {
	b     [chunks]*mem.Buffer
	event [chunks]mem.Event // of the last copy that uses it
}

func (m *Memory) ring(ctx context.Context, n int) (*ring, error) {
	r := new(ring)
	for i := range r.b {
		b, err := m.pinned.Alloc(ctx, min(n, chunkBytes))
		if err != nil {
			r.release()
			return nil, fmt.Errorf("devmem: pinned memory for a copy: %w", err)
		}
		r.b[i] = b
		if n <= chunkBytes {
			break // one is enough
		}
	}
	return r, nil
}

// release releases the chunks. Running copies hold them.
func (r *ring) release() {
	for _, b := range r.b {
		if b != nil {
			b.Release()
		}
	}
}

// Down returns a copy of a GPU buffer in host memory, when it is complete. The caller owns it, and keeps its reference
// to b.
func (m *Memory) Down(ctx context.Context, b *mem.Buffer) (*mem.Buffer, error) {
	out, err := host.Alloc(ctx, b.Len())
	if err != nil {
		return nil, fmt.Errorf("devmem: host memory for %d bytes of %v: %w", b.Len(), m.device, err)
	}
	if err := m.download(ctx, out.Bytes(), b); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

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
	count := (n + chunkBytes - 1) / chunkBytes
	for i := range count + 1 { // the last iteration only drains
		if i < count {
			at := i * chunkBytes
			if err := m.enqueue(r, i%chunks, src, at, min(chunkBytes, n-at), true); err != nil {
				return err
			}
		}
		if i > 0 {
			slot, at := (i-1)%chunks, (i-1)*chunkBytes
			if err := wait(ctx, r.event[slot]); err != nil {
				return err
			}
			copy(dst[at:], r.b[slot].Bytes()[:min(chunkBytes, n-at)])
		}
	}
	return nil
}

// Up returns a copy of a host buffer in GPU memory, allocated from to, when it is complete. The caller owns it, and
// keeps its reference to b.
func (m *Memory) Up(ctx context.Context, to mem.Resource, b *mem.Buffer) (*mem.Buffer, error) {
	out, err := to.Alloc(ctx, b.Len())
	if err != nil {
		return nil, err
	}
	if err := m.upload(ctx, out, b.Bytes()); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

func (m *Memory) upload(ctx context.Context, dst *mem.Buffer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	r, err := m.ring(ctx, len(src))
	if err != nil {
		return err
	}
	defer r.release()
	var last mem.Event
	for i, at := 0, 0; at < len(src); i, at = i+1, at+chunkBytes {
		slot, n := i%chunks, min(chunkBytes, len(src)-at)
		if err := wait(ctx, r.event[slot]); err != nil {
			return err
		}
		copy(r.b[slot].Bytes(), src[at:at+n])
		if err := m.enqueue(r, slot, dst, at, n, false); err != nil {
			return err
		}
		last = r.event[slot]
	}
	// The copies are in the order of one stream: the last completes after all others.
	return wait(ctx, last)
}

// enqueue copies n bytes between a chunk and GPU memory at an offset, down or up.
func (m *Memory) enqueue(r *ring, slot int, device *mem.Buffer, at, n int, down bool) error {
	part, chunk := device.Slice(at, n), r.b[slot].Slice(0, n)
	defer part.Release()
	defer chunk.Release()
	dst, src, s := chunk, part, m.down
	if !down {
		dst, src, s = part, chunk, m.up
	}
	e, err := m.driver.Copy(s, dst, src)
	if err != nil {
		return fmt.Errorf("devmem: copy of %d bytes: %w", n, err)
	}
	r.event[slot] = e
	return nil
}
