package wire

import (
	"go.millstream.dev/mem"
)

// Message is one Dask message as it travels: frames, of which the first is the msgpack
// body and the others are the parts of what the body refers to.
//
// A received message owns its frames until Release; what is decoded from it borrows
// from them, and Clone detaches it.
type Message struct {
	Frames []Frame
}

// Frame is one run of bytes: Go heap memory, or a counted buffer (a pool's, pinned, on a
// GPU). The zero Frame is empty.
type Frame struct {
	data []byte
	buf  *mem.Buffer
	cuda bool // flagged although it is host memory
}

// HeapFrame makes a frame of Go heap memory, which nobody changes from now on.
func HeapFrame(b []byte) Frame { return Frame{data: b} }

// BufferFrame makes a frame of a buffer and takes over the caller's reference to it.
func BufferFrame(b *mem.Buffer) Frame { return Frame{buf: b} }

// Len is the frame's length in bytes.
func (f Frame) Len() int {
	if f.buf != nil {
		return f.buf.Len()
	}
	return len(f.data)
}

// Bytes returns the frame's memory without a copy, valid until its message is released.
// It panics for memory of a GPU: see OnDevice.
func (f Frame) Bytes() []byte {
	if f.buf != nil {
		return f.buf.Bytes()
	}
	// What lies behind belongs to others: an append must not reach it.
	return f.data[:len(f.data):len(f.data)]
}

// Buffer returns the counted buffer behind the frame, or nil for Go heap memory. The
// reference stays the frame's: retain it to keep it.
func (f Frame) Buffer() *mem.Buffer { return f.buf }

// OnDevice reports whether the frame is memory of a GPU, which the CPU must not touch.
func (f Frame) OnDevice() bool { return f.buf != nil && f.buf.Kind() == mem.Device }

// CUDA reports whether the frame is flagged as device memory on the wire: it is memory of a
// GPU, or it was flagged so by WithCUDA. distributed-ucxx receives flagged frames into
// device memory.
func (f Frame) CUDA() bool { return f.cuda || f.OnDevice() }

// WithCUDA returns the frame flagged as device memory: for one that arrived flagged on a
// machine without a GPU and may be passed on to one that has one.
func (f Frame) WithCUDA() Frame {
	f.cuda = true
	return f
}

// Retain returns the frame with a reference of its own.
func (f Frame) Retain() Frame {
	if f.buf != nil {
		f.buf = f.buf.Retain()
	}
	return f
}

// Release gives the frame's reference back. Heap frames need none.
func (f Frame) Release() {
	if f.buf != nil {
		f.buf.Release()
	}
}

// Body is the msgpack body: the first frame. A message always has one.
func (m *Message) Body() []byte {
	if len(m.Frames) == 0 {
		return nil
	}
	return m.Frames[0].Bytes()
}

// Size is the sum of the frames' lengths in bytes.
func (m *Message) Size() int64 {
	var n int64
	for _, f := range m.Frames {
		n += int64(f.Len())
	}
	return n
}

// Retain returns a message with the same frames and references of its own.
func (m *Message) Retain() *Message {
	c := &Message{Frames: make([]Frame, len(m.Frames))}
	for i, f := range m.Frames {
		c.Frames[i] = f.Retain()
	}
	return c
}

// Release gives all frames back. The message must not be used after it.
func (m *Message) Release() {
	for _, f := range m.Frames {
		f.Release()
	}
	m.Frames = nil
}
