package task

import (
	"bytes"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// bufferArray is a buffer as Python knows it, RMM's DeviceBuffer. It borrows the buffer's reference.
func bufferArray(b *mem.Buffer) *wire.DeviceArray {
	return &wire.DeviceArray{Class: wire.RMMBuffer, DType: wire.Uint8, Shape: []int{b.Len()},
		Frame: wire.BufferFrame(b).WithCUDA()}
}

// arrayBuffer is the memory of a device array with a reference of its own: a copy on Go's heap if
// it arrived there.
func arrayBuffer(a *wire.DeviceArray) *mem.Buffer {
	if b := a.Buffer(); b != nil {
		return b.Retain()
	}
	return mem.FromBytes(bytes.Clone(a.Frame.Bytes()))
}
