package wire

import (
	"go.millstream.dev/mem"
)

// Message is one Dask message as sent: frames, of which the first is the msgpack body and the others are the parts that
// the body refers to.
//
// A received message owns its frames until Release; values decoded from it borrow from them; Clone detaches them.
type Message struct {
	Frames []Frame
}

// Frame is a range of bytes: Go heap memory, or a reference-counted buffer (of a pool, pinned, on a GPU). The zero
// Frame is empty.
type Frame struct {
	data []byte
	buf  *mem.Buffer
	cuda bool // flagged although it is host memory
}

// HeapFrame returns a frame of Go heap memory, which must not change afterwards.
func HeapFrame(b []byte) Frame { return Frame{data: b} }

// BufferFrame returns a frame of a buffer and takes over the caller's reference to it.
func BufferFrame(b *mem.Buffer) Frame { return Frame{buf: b} }

// Len returns the frame's length in bytes.
func (f Frame) Len() int {
	if f.buf != nil {
		return f.buf.Len()
	}
	return len(f.data)
}

// Bytes returns the frame's memory without a copy, valid until its message is released. It panics for GPU memory: see
// OnDevice.
func (f Frame) Bytes() []byte {
	if f.buf != nil {
		return f.buf.Bytes()
	}
	// Memory after the frame belongs to others: an append must not overwrite it.
	return f.data[:len(f.data):len(f.data)]
}

// Buffer returns the reference-counted buffer of the frame, or nil for Go heap memory. The frame keeps the reference:
// retain it to keep it.
func (f Frame) Buffer() *mem.Buffer { return f.buf }

// OnDevice reports whether the frame is GPU memory, which the CPU must not access.
func (f Frame) OnDevice() bool { return f.buf != nil && f.buf.Kind() == mem.Device }

// CUDA reports whether the frame is flagged as device memory on the wire: it is GPU memory, or it was flagged so by
// WithCUDA. distributed-ucxx receives flagged frames into device memory.
func (f Frame) CUDA() bool { return f.cuda || f.OnDevice() }

// WithCUDA returns the frame flagged as device memory: for one that arrived flagged on a machine without a GPU and may
// be passed on to one with a GPU.
func (f Frame) WithCUDA() Frame {
	f.cuda = true
	return f
}

// Retain returns the frame with its own reference.
func (f Frame) Retain() Frame {
	if f.buf != nil {
		f.buf = f.buf.Retain()
	}
	return f
}

// Release releases the frame's reference. Heap frames need none.
func (f Frame) Release() {
	if f.buf != nil {
		f.buf.Release()
	}
}

// Body returns the msgpack body: the first frame. A message always has one.
func (m *Message) Body() []byte {
	if len(m.Frames) == 0 {
		return nil
	}
	return m.Frames[0].Bytes()
}

// Size returns the sum of the frames' lengths in bytes.
func (m *Message) Size() int64 {
	var n int64
	for _, f := range m.Frames {
		n += int64(f.Len())
	}
	return n
}

// Retain returns a message with the same frames and its own references.
func (m *Message) Retain() *Message {
	c := &Message{Frames: make([]Frame, len(m.Frames))}
	for i, f := range m.Frames {
		c.Frames[i] = f.Retain()
	}
	return c
}

// Release releases all frames. The message must not be used afterwards.
func (m *Message) Release() {
	for _, f := range m.Frames {
		f.Release()
	}
	m.Frames = nil
}
