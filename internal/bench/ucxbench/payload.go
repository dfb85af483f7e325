package ucxbench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// Guard bytes are before and after a payload, to detect writes outside its memory.
const (
	guard     = 64
	guardByte = 0xA5
)

// payload is memory to send from or receive into.
type payload struct {
	view ucx.View
	size int
	// all is guard, payload and guard in host memory; for device memory it is a copy, moved by load and store.
	all     []byte
	load    func() error // device to all
	store   func() error // all to device
	release func()
}

// newPayload allocates memory of one kind. device is the resource of device memory, nil without a device. shared is the
// resource of host memory that the peer accesses remotely: it cannot be Go memory, so that the kind heap applies only
// to the other side.
func newPayload(ctx context.Context, memory string, size int64, device, shared mem.Resource) (*payload, error) {
	p := &payload{size: int(size), load: func() error {
		return nil
	}, store: func() error { return nil }, release: func() {}}
	total := p.size + 2*guard
	switch {
	case onDevice(memory):
		return newDevicePayload(ctx, p, device)
	case shared != nil:
		return newHostPayload(ctx, p, shared)
	case memory == MemBuffer:
		return newHostPayload(ctx, p, mem.NewMmap(mem.MmapConfig{Populate: true, HugePages: true}))
	case memory == MemHeap:
		p.all = make([]byte, total)
		p.view = ucx.Bytes(p.inner())
		p.guards()
		return p, nil
	default:
		return nil, unknown("memory", memory, MemNames)
	}
}

// newHostPayload allocates memory of a resource for p.
func newHostPayload(ctx context.Context, p *payload, from mem.Resource) (*payload, error) {
	whole, err := from.Alloc(ctx, p.size+2*guard)
	if err != nil {
		return nil, err
	}
	part := whole.Slice(guard, p.size)
	p.all = whole.Bytes()
	p.view = ucx.Buffer(part)
	p.release = func() {
		part.Release()
		whole.Release()
	}
	p.guards()
	return p, nil
}

// small is the size up to which each operation in flight has separate memory. Larger ones share one buffer, as in
// ucx_perftest: a window of separate large buffers would measure the cache.
const small = 1 << 10

// payloadSize returns how much memory a case needs.
func payloadSize(c Case, spec Spec) int64 {
	if spec.Size > small {
		return spec.Size
	}
	return spec.Size * int64(places(c, spec))
}

// places returns how many operations of a case are in flight.
func places(c Case, spec Spec) int {
	switch {
	case c.Kind == Bandwidth || c.Name == tagBatch:
		return spec.Window
	case c.Kind == Rate:
		return spec.Goroutines
	}
	return 1
}

// part returns the memory of one place in a window, or of one goroutine.
func (p *payload) part(spec Spec, place int) ucx.View {
	if spec.Size > small {
		return p.view
	}
	return p.view.Slice(place*int(spec.Size), int(spec.Size))
}

// parts returns the memory of all places in a window.
func (p *payload) parts(spec Spec) []ucx.View {
	views := make([]ucx.View, spec.Window)
	for place := range views {
		views[place] = p.part(spec, place)
	}
	return views
}

func (p *payload) inner() []byte { return p.all[guard : guard+p.size : guard+p.size] }

func (p *payload) guards() {
	for i := range guard {
		p.all[i], p.all[len(p.all)-1-i] = guardByte, guardByte
	}
}

// fill writes the pattern of a seed.
func (p *payload) fill(seed uint64) error {
	pattern(p.inner(), seed)
	return p.store()
}

// clear zeroes the payload, so that check only accepts data that arrived later.
func (p *payload) clear() error {
	clear(p.inner())
	return p.store()
}

// check compares the payload with the pattern of a seed, and checks the guards.
func (p *payload) check(seed uint64) error {
	if err := p.load(); err != nil {
		return err
	}
	if i := firstDifference(p.inner(), seed); i >= 0 {
		return fmt.Errorf("payload of %d bytes differs at byte %d", p.size, i)
	}
	for i := range guard {
		if p.all[i] != guardByte || p.all[len(p.all)-1-i] != guardByte {
			return errors.New("memory outside the payload was overwritten")
		}
	}
	return nil
}

// pattern writes pseudorandom data with a long period, so that shifted, repeated or missing data is detected.
func pattern(b []byte, seed uint64) {
	x := seed | 1
	for len(b) >= 8 {
		x = step(x)
		binary.LittleEndian.PutUint64(b, x)
		b = b[8:]
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], step(x))
	copy(b, last[:])
}

func step(x uint64) uint64 {
	x ^= x << 13
	x ^= x >> 7
	return x ^ x<<17
}

// firstDifference returns the index of the first byte that differs from the pattern, -1 if none does.
func firstDifference(b []byte, seed uint64) int {
	var want [8]byte
	x := seed | 1
	for at := 0; at < len(b); at += 8 {
		x = step(x)
		binary.LittleEndian.PutUint64(want[:], x)
		part := b[at:min(at+8, len(b))]
		if !bytes.Equal(part, want[:len(part)]) {
			for i := range part {
				if part[i] != want[i] {
					return at + i
				}
			}
		}
	}
	return -1
}
