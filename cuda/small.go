package cuda

import (
	"context"
	"runtime"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// A GPU that two processes share without MPS serves one at a time, and takes about 150 µs to switch. That holds for
// kernels, for copies within the device, and for short copies to it, which the driver passes to the engine of kernels.
// It does not hold for copies from the device, nor for copies of rows that are apart in host memory: separate engines
// do those, for all processes. So short copies go through pinned memory, in two rows with a gap.

const (
	// smallBytes is the length of the longest copy through a smallCopier. Longer ones take less time than the switch.
	smallBytes = 16 << 10
	// smallGap is the distance between the two rows in bytes, smallRoom the length of both rows with the gap.
	smallGap  = 64
	smallRoom = smallBytes + smallGap
)

// small reports whether a copy of n bytes goes through a smallCopier. A single byte has no two rows.
func small(n int) bool { return n > 1 && n <= smallBytes }

// smallCopier is a stream with pinned memory for one copy at a time.
type smallCopier struct {
	stream *Stream
	pinned *mem.Buffer // twice smallRoom: data of an odd length is copied twice
	event  uint64
}

// smallCopiers are unused, by device. They are kept for the lifetime of the process.
var smallCopiers struct {
	sync.Mutex
	free map[int][]*smallCopier
}

// takeSmall returns a copier for the exclusive use of the caller.
func takeSmall(device int) (*smallCopier, error) {
	smallCopiers.Lock()
	if l := smallCopiers.free[device]; len(l) > 0 {
		c := l[len(l)-1]
		smallCopiers.free[device] = l[:len(l)-1]
		smallCopiers.Unlock()
		return c, nil
	}
	smallCopiers.Unlock()
	s, err := NewStream(device, StreamConfig{})
	if err != nil {
		return nil, err
	}
	b, err := NewPinnedResource(device).Alloc(context.Background(), 2*smallRoom)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	e, r := cudrv.EventCreate(device, cudrv.EventDisableTiming)
	if err := check("create event", device, r); err != nil {
		b.Release()
		_ = s.Close()
		return nil, err
	}
	return &smallCopier{stream: s, pinned: b, event: e}, nil
}

// put returns a copier whose copy is done.
func (c *smallCopier) put() {
	smallCopiers.Lock()
	defer smallCopiers.Unlock()
	if smallCopiers.free == nil {
		smallCopiers.free = map[int][]*smallCopier{}
	}
	smallCopiers.free[c.stream.device] = append(smallCopiers.free[c.stream.device], c)
}

// wait polls until the copy is done. It does not sleep: the copy takes about ten microseconds.
func (c *smallCopier) wait() cudrv.Result {
	for {
		done, r := cudrv.EventQuery(c.event)
		if done || r != cudrv.Success {
			return r
		}
		runtime.Gosched()
	}
}

// smallIn copies bytes to device memory, which is ready.
func smallIn(device int, dst uintptr, src []byte) error {
	c, err := takeSmall(device)
	if err != nil {
		return err
	}
	width := len(src) / 2
	pitch := width + smallGap
	rows := func(part []byte, at uintptr, room int) cudrv.Result {
		staged := c.pinned.Bytes()[room:]
		copy(staged, part[:width])
		copy(staged[pitch:], part[width:])
		return cudrv.CopyRows(device, uint64(at), uint64(c.pinned.Addr())+uint64(room), width, pitch, 2,
			c.stream.handle, c.event)
	}
	r := rows(src[:2*width], dst, 0)
	if r == cudrv.Success && len(src)%2 != 0 { // the last byte, together with those before it
		r = rows(src[1:], dst+1, smallRoom)
	}
	if r == cudrv.Success {
		r = c.wait()
	}
	if err := check("copy to device", device, r); err != nil {
		return err // the copier is dropped: the device may still use its memory
	}
	c.put()
	return nil
}

// smallOut copies device memory that is ready to bytes.
func smallOut(device int, dst []byte, src uintptr) error {
	c, err := takeSmall(device)
	if err != nil {
		return err
	}
	r := cudrv.Copy(device, uint64(c.pinned.Addr()), uint64(src), len(dst), c.stream.handle, 0, 0, c.event)
	if r == cudrv.Success {
		r = c.wait()
	}
	if err := check("copy from device", device, r); err != nil {
		return err
	}
	copy(dst, c.pinned.Bytes())
	c.put()
	return nil
}
